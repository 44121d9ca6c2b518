"""A run directory, only ever read: its metadata, and which file answers which case."""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.trace.model import Json
from evalwright.trace.recorded import read_recorded

RUN_META = "run.json"
SUFFIX = ".json"
IMPORT_FAULT = "evalwright_import_fault"  # stands in a response that could not be imported
MOST_BYTES = 512 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SELECTED = "selected_case_ids"
_PLAIN_TEXT = re.compile(r'"([^"\\\x00-\x1f]*+)"')
_PLAIN_LIST = re.compile(rf"\[(?:[\s,]*+{_PLAIN_TEXT.pattern})*+\s*+\]")


class Unreadable(msgspec.Struct, frozen=True):
    """Why a response cannot be used; `data` is what there was."""

    reason: str
    data: bytes = b""


class ToldAnswer(msgspec.Struct, frozen=True, array_like=True):
    """Which case a file of a folder answers, and by which key it is found as a baseline."""

    case_id: str
    base_case_id: str | None
    name: str


class RunFolder:
    """The responses of one side. A file answers the case it is named after, or the one it names.

    Of a folder that was laid out by us, `told` is a file of lines that say which file answers what.
    """

    def __init__(self, root: Path, told: Path | None = None) -> None:
        self.root = root
        self._told = told
        self.is_empty = all(stem == "cases" for stem in self.stems())  # a case file is no response
        self.meta, self.meta_fault, _ = _read_meta(root)

    @property
    def has_meta(self) -> bool:
        """Whether there is a run.json, readable or not."""
        return os.path.lexists(self.root / RUN_META)

    def stems(self) -> Iterator[str]:
        """The files that may be named after a case, without their suffix, in any order."""
        return _json_stems(self.root) if self._told is None else iter(())

    def told_answers(self) -> Iterator[ToldAnswer]:
        """The files of which it is known beforehand what they answer."""
        if self._told is not None:
            with self._told.open("rb") as lines:
                for line in lines:
                    yield msgspec.json.decode(line, type=ToldAnswer)

    def selected(self) -> Iterator[str] | None:
        """The cases that the run set out to answer, where it says so."""
        ids = _read_meta(self.root).selected
        return None if ids is None else (each for each in ids if isinstance(each, str))

    def case_named_in(self, name: str) -> str:
        """The case that a file says it answers; else its name without the suffix."""
        # A name that is no UTF-8 reaches us with half characters, which no JSON can hold.
        stem = os.fsencode(name.removesuffix(SUFFIX)).decode("utf-8", "replace")
        record = read_response(self.root, name)
        value = record.get("case_id") if isinstance(record, dict) else None
        return value if isinstance(value, str) and value else stem


def read_response(root: Path, name: str) -> Json | Unreadable:
    """The response in a file, or why it cannot be had."""
    data = read_inside(root, name)
    if isinstance(data, Unreadable):
        return data
    return parse_response(data)


def parse_response(data: bytes) -> Json | Unreadable:
    """A response object from its bytes; as `Recorded` where it keeps to the format."""
    recorded = read_recorded(data.removeprefix(BYTE_ORDER_MARK))
    return _parse_object(data) if recorded is None else recorded


def _parse_object(data: bytes) -> Json | Unreadable:
    try:
        value = msgspec.json.decode(data.removeprefix(BYTE_ORDER_MARK))
    except RecursionError:
        return Unreadable("it is nested too deeply", data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Unreadable(f"it is not valid JSON: {error}", data)
    if not isinstance(value, dict):
        return Unreadable("it is not a JSON object", data)
    return value


def read_inside(root: Path, name: str) -> bytes | Unreadable:
    """The bytes of a file of the folder; a link that leads out of the folder is not followed."""
    path = f"{root}/{name}"
    try:
        return _read_regular(path, os.O_NOFOLLOW)
    except OSError as error:
        if error.errno != errno.ELOOP:
            return Unreadable(f"it cannot be read: {error.strerror}")
    except ValueError as error:
        return Unreadable(f"it cannot be read: {error}")
    try:
        if not Path(path).resolve().is_relative_to(root.resolve()):
            return Unreadable("it is a link that leads out of the run directory")
        return _read_regular(path, 0)
    except (OSError, RuntimeError):
        return Unreadable("it is a link that leads nowhere")


def _read_regular(path: str, flags: int) -> bytes | Unreadable:
    # Without O_NONBLOCK a pipe would wait for its writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags)
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            return Unreadable("it is not a regular file")
        if facts.st_size > MOST_BYTES:
            return Unreadable(f"it is larger than {MOST_BYTES >> 20} MiB")
        return _read_all(handle, facts.st_size)
    finally:
        os.close(handle)


def _read_all(handle: int, size: int) -> bytes:
    data = os.read(handle, size + 1)
    if len(data) == size:  # as it almost always is
        return data
    parts = [data]
    while parts[-1]:
        parts.append(os.read(handle, 1 << 20))
    return b"".join(parts)


def _json_stems(root: Path) -> Iterator[str]:
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                # Links, pipes and folders too: they answer nothing, and that has to be said.
                if entry.name.endswith(SUFFIX) and entry.name != RUN_META:
                    yield entry.name.removesuffix(SUFFIX)
    except OSError as error:
        message = f"{root}: the run directory cannot be read: {error.strerror}"
        raise BadInput(message) from None


class _Meta(NamedTuple):
    """What run.json says. The cases that a run set out to answer are many: they are kept apart."""

    fields: dict[str, Json]
    fault: str | None = None
    selected: Iterable[Json] | None = None


def _read_meta(root: Path) -> _Meta:
    if not (root / RUN_META).exists():
        return _Meta({}, f"{RUN_META} is missing")
    data = read_inside(root, RUN_META)
    return _plain_meta(data) or _any_meta(data) if isinstance(data, bytes) else _any_meta(data)


def _any_meta(data: bytes | Unreadable) -> _Meta:
    value = _parse_object(data) if isinstance(data, bytes) else data
    if isinstance(value, Unreadable):
        return _Meta({}, f"{RUN_META} is not used: {value.reason}")
    selected = value.pop(_SELECTED, None)
    return _Meta(value, None, selected if isinstance(selected, list) else None)


def _plain_meta(data: bytes) -> _Meta | None:
    """The same, without a list of all that was selected, if it holds nothing but plain texts."""
    try:
        raw = msgspec.json.decode(data.removeprefix(BYTE_ORDER_MARK), type=dict[str, msgspec.Raw])
        listed = str(raw.pop(_SELECTED), "utf-8")
        fields = {name: msgspec.json.decode(value) for name, value in raw.items()}
    except (KeyError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    if not _PLAIN_LIST.fullmatch(listed):
        return None
    return _Meta(fields, None, (found[1] for found in _PLAIN_TEXT.finditer(listed)))
