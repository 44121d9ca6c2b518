"""Calls recorded once and replayed offline: a file of JSON lines, one call on each."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from evalwright.contracts.documents import open_input
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.jsonvalue import NotJson
from evalwright.contracts.messages import IN_LOGS, phrase
from evalwright.models.protocol import Model, ModelError, Reply, Request
from evalwright.models.request_key import RequestKeys, semantic_request, without_limits

SHOWN = 80
_BEGINNING = b'{"key":"'  # of every line that is written here


class RecordedCall(msgspec.Struct, frozen=True):
    """One recorded call; `request` is for readers, the key identifies it."""

    key: str
    provider: str
    model: str
    request: msgspec.Raw
    reply: Reply


_DECODER = msgspec.json.Decoder(RecordedCall)


class Cassette:
    """Recorded calls. When recording, missing calls are made and added; else they are errors."""

    def __init__(
        self,
        path: str | Path,
        record: bool,  # noqa: FBT001 - `Cassette(path, record=…)` is how it is read
        redact: Callable[[str], str] | None = None,
    ) -> None:
        self.path = Path(path)
        self.record = record
        self.redact = redact
        self._torn: int | None = None
        self._size = 0  # of the file as it was read
        self._unended = 0  # bytes of its last line, where that has no newline
        self._replies: dict[str, list[Reply]] = {}
        self.models: set[str] = set()  # that replies were recorded of
        self._asked: dict[str, int] = {}
        self._file: int | None = None
        self._load()

    def wrap(self, model: Model) -> Model:
        return _TapedModel(model.name, self, model if self.record else None)

    def player(self, name: str) -> Model:
        return _TapedModel(name, self, None)

    def find(self, key: str) -> Reply | None:
        """The next reply to this request; when all were given, the last again, unless recording."""
        replies = self._replies.get(key)
        if replies is None:
            return None
        asked = self._asked.get(key, 0)
        self._asked[key] = asked + 1
        if asked < len(replies):
            return replies[asked]
        return None if self.record else replies[-1]

    def add(self, name: str, key: str, request: Request, reply: Reply) -> None:
        """Append a call to the file, whole or not at all."""
        provider, _, model = name.partition(":")
        value = {
            "key": key,
            "provider": provider,
            "model": model,
            "request": semantic_request(request),
            "reply": msgspec.to_builtins(msgspec.structs.replace(reply, retries=0)),
        }
        line = msgspec.json.encode(_masked(value, self.redact)) + b"\n"
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
                self._file = os.open(self.path, flags, 0o600)
            if self._unended:
                # Cut a torn last line off, or add the newline that a whole one lacks.
                if os.fstat(self._file).st_size == self._size:  # else another recorder has done it
                    if self._torn:
                        os.truncate(self._file, self._size - self._unended)
                    else:
                        os.write(self._file, b"\n")
                self._unended = 0
            written = os.write(self._file, line)
            if written < len(line):
                os.truncate(self._file, os.fstat(self._file).st_size - written)
                raise OSError(None, "the disk took only part of it")
        except OSError as error:
            message = f"{self.path}: the call cannot be recorded: {error.strerror}"
            raise ModelError("internal_error", message) from None

    def missing(self, request: Request) -> ModelError:
        last = request.messages[-1].content if request.messages else ""
        beginning = last if len(last) <= SHOWN else f"{last[:SHOWN]}…"
        torn = f" (its line {self._torn} is incomplete)" if self._torn else ""
        return ModelError(
            "unavailable_model",
            f"{self.path}: this request is not in the cassette{torn}; its last message is "
            f"{beginning!r}; {phrase('record it with {@record}').told(IN_LOGS)}",
        )

    def close(self) -> None:
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file = None

    def _load(self) -> None:
        try:
            with open_input(self.path) as file:
                content = file.read()
        except FileNotFoundError:
            if self.record:
                return
            raise BadInput(
                phrase(
                    "{path}: there is no such cassette; record one with {@record}", path=self.path
                )
            ) from None
        except OSError as error:
            raise BadInput(f"{self.path}: cannot be read: {error.strerror}") from None
        *lines, rest = content.split(b"\n")
        for number, line in enumerate(lines, 1):
            self._add_line(line, number)
        self._size, self._unended = len(content), len(rest)
        try:
            self._add_line(rest, len(lines) + 1)
        except InvalidDocument:
            if rest[: len(_BEGINNING)] != _BEGINNING[: len(rest)]:
                raise
            self._torn = len(lines) + 1

    def _add_line(self, line: bytes, number: int) -> None:
        if not line.strip():
            return
        try:
            entry = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            remedy = "name a cassette, or remove the line and record again"
            problem = Problem(f"line {number}", f"not a recorded call: {error}", remedy)
            raise InvalidDocument(str(self.path), [problem]) from None
        usage = msgspec.structs.replace(entry.reply.usage, cache_hit=True)
        reply = msgspec.structs.replace(entry.reply, usage=usage)
        self._replies.setdefault(entry.key, []).append(reply)
        self.models.add(f"{entry.provider}:{entry.model}")


class _TapedModel:
    """A model with a cassette before it; without a model behind it, replayed only."""

    def __init__(self, name: str, cassette: Cassette, behind: Model | None) -> None:
        self.name = name
        self._cassette = cassette
        self._behind = behind
        self._keys = RequestKeys(name)

    async def ask(self, request: Request) -> Reply:
        try:
            key = self._keys.key(request)
            reply = self._cassette.find(key)
            if reply is None and request.has_our_limits:
                reply = self._cassette.find(self._keys.key(without_limits(request)))
        except NotJson as error:
            raise ModelError("invalid_input", f"{self.name}: the request is {error}") from None
        if reply is not None:
            return reply
        if self._behind is None:
            raise self._cassette.missing(request)
        reply = await self._behind.ask(request)
        try:
            self._cassette.add(self.name, key, request, reply)
        except ModelError as error:
            error.usage = reply.usage
            raise
        return reply

    async def close(self) -> None:
        self._cassette.close()
        if self._behind is not None:
            await self._behind.close()


def _masked(value: Any, redact: Callable[[str], str] | None) -> Any:
    if redact is None:
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {_masked(key, redact): _masked(item, redact) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, redact) for item in value]
    return value
