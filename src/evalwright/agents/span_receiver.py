"""The receiver of spans: OTLP over HTTP on loopback, for agents in other processes.

A span belongs to the task whose trace it is in. A program has an address of its own while it runs,
and what arrives there is the program's, whether or not it continues the trace that it was given.
"""

import asyncio
import os
import re
import secrets
import zlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from evalwright.agents.account import Account, ToldCall
from evalwright.agents.loopback import ADDRESS, LoopbackServer, plain_answer, read_body
from evalwright.agents.protocol import Invocation
from evalwright.agents.spans import SPANS, account_of
from evalwright.contracts.errors import BadInput
from evalwright.contracts.jsonvalue import NotJson, burden
from evalwright.contracts.messages import Text
from evalwright.trace.importers.otlp_protobuf import (
    Malformed,
    OversizedExport,
    logs_document,
    traces_document,
)
from evalwright.trace.importers.span_formats import LogRecord, Span, spans_of
from evalwright.trace.importers.values import parse_bounded

ENDPOINT_VARIABLE = "EVALWRIGHT_OTLP_ENDPOINT"
MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_UNPACKED_BYTES = 32 * 1024 * 1024
MAX_FIELDS = 500_000  # of an export: each attribute has about four
MAX_ATTRIBUTES = 10_000  # of a span
MAX_TEXT = 4 * 1024 * 1024  # characters of an attribute
MAX_TASK_SPANS = 10_000
MAX_TASK_BYTES = 64 * 1024 * 1024
SPANS_SECONDS = 10.0  # that an agent's spans may take after its answer
ARRIVAL_SECONDS = 1.0  # that an export may take whose program has ended
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_ENCODINGS = {"": None, "identity": None, "gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_SECRET = re.compile(r"/([\w-]{16,128})/?", re.ASCII)
_Export: TypeAlias = "asyncio.Future[None]"  # that is arriving
_FLUSH = "let it call shutdown() of its tracer provider"

# Separate threads: nothing else waits behind exports that take long to read.
_readers = ThreadPoolExecutor(2, "spans")


class TaskSpans:
    """The spans of one invocation: where they are sent, and what has arrived."""

    def __init__(
        self, endpoint: str, *, is_program: bool, arriving: Callable[[], "list[_Export]"]
    ) -> None:
        self.endpoint = endpoint
        self.is_program = is_program
        self.trace_id = secrets.token_hex(16)
        self.span_id = secrets.token_hex(8)
        self.found: list[Span | LogRecord] = []
        self.lost: str | None = None  # why not all of them are known
        self.strangers = 0  # that arrived meanwhile and belong to no task
        self._arriving = arriving
        self._bytes = 0.0
        self._children = 0  # spans that continue ours
        self._known: set[str] = set()
        self._parents: set[str] = set()
        self._whole = asyncio.Event()

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-01"

    def environment(self) -> dict[str, str]:
        """The environment of a program that sends its spans here and nowhere else."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("OTEL_EXPORTER_OTLP_") and name != "TRACESTATE"
        }
        for name in ("NO_PROXY", "no_proxy"):
            kept[name] = ",".join(filter(None, (kept.get(name), ADDRESS)))
        return kept | {
            "TRACEPARENT": self.traceparent,
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        }

    def add(self, found: Span | LogRecord, size: float) -> None:
        self._bytes += size
        if len(self.found) >= MAX_TASK_SPANS or self._bytes > MAX_TASK_BYTES:
            most = f"{MAX_TASK_SPANS:,} spans or {MAX_TASK_BYTES // 2**20} MiB"
            self.lose(f"it sent more than {most}; let it record less")
            return
        self.found.append(found)
        if isinstance(found, Span):
            self._known.add(found.span_id)
            if found.parent_id == self.span_id:
                self._children += 1
            elif found.parent_id:
                self._parents.add(found.parent_id)

    def note_whether_whole(self) -> None:
        if self._children and self._parents <= self._known:
            self._whole.set()
        else:
            self._whole.clear()

    async def settle(self) -> None:
        """Wait until everything is here that belongs to the answer, or is known to be missing."""
        if self.is_program:
            await self._arrive("it ended before all of its spans were sent; " + _FLUSH)
            if not self.found:
                self.lose(f"no span came before the program ended; {_FLUSH}")
            elif not self._parents <= self._known | {self.span_id}:
                self.lose(f"a span came without the one around it; {_FLUSH}")
            return
        try:
            async with asyncio.timeout(SPANS_SECONDS):
                is_whole = False
                while not is_whole:
                    await self._whole.wait()
                    await self._arrive(f"an export took more than {ARRIVAL_SECONDS:g} s to arrive")
                    is_whole = self._whole.is_set()
        except TimeoutError:
            within = f"within {SPANS_SECONDS:g} s of the answer"
            if self._children:
                missing = f"a span came without the one around it {within}; let it export all"
            elif self.found:
                missing = f"the span that continues traceparent did not end {within}; end it before"
            elif self.strangers:
                missing = f"only spans of other traces came {within}; let it continue traceparent"
            else:
                missing = f"no span came {within}; let the agent export to {ENDPOINT_VARIABLE}"
            self.lose(missing)

    async def _arrive(self, or_else: str) -> None:
        arriving = self._arriving()
        if arriving and (await asyncio.wait(arriving, timeout=ARRIVAL_SECONDS))[1]:
            self.lose(or_else)

    def lose(self, why: str) -> None:
        self.lost = self.lost or why

    def in_order(self) -> list[Span | LogRecord]:
        """What arrived, each once, in an order that does not depend on when it came."""
        encoded = {msgspec.json.encode(each): each for each in self.found}
        return [encoded[key] for key in sorted(encoded)]


class SpanReceiver:
    """Takes the spans of all invocations of a run; it starts with the first of them."""

    def __init__(self, notify: Callable[[Text], None]) -> None:
        self._notify = notify
        self._secret, port = _chosen_address() or (secrets.token_urlsafe(32), 0)
        self._server = LoopbackServer("receiver of spans", self._answer, port)
        self.start = self._server.start
        self._by_trace: dict[str, TaskSpans] = {}
        self._by_path: dict[str, TaskSpans] = {}
        self._arriving: dict[_Export, str] = {}  # and to which path
        self._ended: set[str] = set()  # traces of invocations that have ended
        self._late = self._strangers = 0

    @asynccontextmanager
    async def open(self, invocation: Invocation, *, is_program: bool) -> AsyncIterator[TaskSpans]:
        await self.start()
        path = f"/{self._secret}" + (f"/{secrets.token_urlsafe(16)}" if is_program else "")
        opened = TaskSpans(
            f"{self._server.url}{path}",
            is_program=is_program,
            arriving=lambda: [export for export, to in self._arriving.items() if to == path],
        )
        self._by_trace[opened.trace_id] = opened
        if is_program:
            self._by_path[path] = opened
        try:
            yield opened
        finally:
            del self._by_trace[opened.trace_id]
            self._by_path.pop(path, None)
            self._ended.add(opened.trace_id)
            await self._record(opened, invocation)

    async def _record(self, opened: TaskSpans, invocation: Invocation) -> None:
        """Record what the spans tell; where some are missing, they are evidence of nothing else."""
        found, lost = opened.in_order(), opened.lost
        account = Account(SPANS)
        try:
            if found:
                read = asyncio.get_running_loop().run_in_executor
                account = await read(_readers, account_of, found, lost, (), invocation.output)
        except Exception as error:  # noqa: BLE001 - it is a stranger's, whatever is in it
            lost = f"its spans cannot be read: {type(error).__name__}: {error}"
        if lost is not None:
            account = msgspec.structs.replace(
                account, has_all_calls=False, has_all_usages=False, lost=None
            )
        elif account.deeds is None and account.lost is None:
            lost = (
                f"{_count(len(found))} came, and none tells what a model answered or a tool did: "
                "instrument the library of the agent, and let it record the content of messages"
            )
        invocation.record_account(account)
        told_calls = any(isinstance(each, ToldCall) for each in account.deeds or ())
        if lost is not None and (told_calls or invocation.coverage().calls is None):
            invocation.lose(lost)

    async def close(self) -> None:
        await self._server.close()
        if self._strangers:
            self._notify(f"dropped {_count(self._strangers)} that belonged to no task")
        if self._late:
            self._notify(
                f"dropped {_count(self._late)} that came after the score of the task: "
                "one span of the agent has to be around all that it does for a request"
            )
        self._strangers = self._late = 0

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path, _, signal = request.path.rpartition("/v1/")
        program = self._by_path.get(path)
        if program is None and not secrets.compare_digest(
            path.encode(), f"/{self._secret}".encode()
        ):
            return plain_answer(404, "nobody takes spans at this address (any more)")
        if signal not in ("traces", "logs", "metrics"):
            return plain_answer(404, f"no signal of OTLP: {signal[:40]}")
        if request.method != "POST":
            return plain_answer(405, "exports are posted", Allow="POST")
        kind = request.content_type
        encoding = request.headers.get("Content-Encoding", "").strip().lower()
        if kind not in (_PROTOBUF, _JSON) or encoding not in _ENCODINGS:
            words = f"an export is {_PROTOBUF} or {_JSON}, plain or compressed by gzip or deflate"
            return self._refused(program, 415, words)
        arriving: _Export = asyncio.get_running_loop().create_future()
        self._arriving[arriving] = path
        try:
            body = await read_body(request, MAX_BODY_BYTES)
            if body is None:
                raise OversizedExport(f"it has more than {MAX_BODY_BYTES // 2**20} MiB")
            if signal != "metrics":
                read = asyncio.get_running_loop().run_in_executor
                found, size = await read(_readers, _read_export, body, encoding, kind, signal)
                touched: dict[str, TaskSpans] = {}
                strangers = late = 0
                for each in found:
                    opened = self._by_trace.get(each.trace_id, program)
                    if opened is None and each.trace_id not in self._ended:
                        strangers += 1
                    elif opened is None or opened.trace_id in self._ended:
                        late += 1
                    else:
                        opened.add(each, size / len(found))
                        touched[opened.trace_id] = opened
                for opened in touched.values():
                    opened.note_whether_whole()
                for opened in self._by_trace.values() if strangers else ():
                    opened.strangers += strangers
                self._strangers, self._late = self._strangers + strangers, self._late + late
        except OversizedExport as error:
            return self._refused(program, 413, f"an export of spans is too large: {error}")
        except Malformed as error:
            return self._refused(program, 400, f"an export of spans cannot be read: {error}")
        finally:
            del self._arriving[arriving]
            arriving.set_result(None)
        empty = b"{}" if kind == _JSON else b""
        return web.Response(body=empty, content_type=kind)

    def _refused(self, program: TaskSpans | None, status: int, why: str) -> web.Response:
        """An answer to an export that is not taken: what was in it, and of which task, is lost."""
        for opened in [program] if program else self._by_trace.values():
            if program is not None or not opened.is_program:
                opened.lose(why)
        return plain_answer(status, why)


def _chosen_address() -> tuple[str, int] | None:
    given = os.environ.get(ENDPOINT_VARIABLE)
    if not given:
        return None
    try:
        parts = urlsplit(given)
        is_here = parts.scheme == "http" and parts.hostname in (ADDRESS, "localhost")
        port, secret = parts.port, _SECRET.fullmatch(parts.path)
    except ValueError:
        is_here, port, secret = False, None, None
    if not is_here or not port or secret is None or parts.query or parts.username:
        raise BadInput(
            f"{ENDPOINT_VARIABLE}: give http://{ADDRESS}:PORT/SECRET, where SECRET has 16 to 128 "
            "letters and digits, such as `openssl rand -hex 16` gives"
        )
    return secret[1], port


def _read_export(
    body: bytes, encoding: str, kind: str, signal: str
) -> tuple[list[Span | LogRecord], int]:
    """What an export holds, and its size; raises `Malformed` or `OversizedExport`."""
    bits = _ENCODINGS[encoding]
    if bits is not None:
        body = _unpacked(body, bits)
    if kind == _JSON:
        if heavy := burden(body, MAX_FIELDS):
            raise OversizedExport(heavy)
        try:
            document = parse_bounded(body)
        except NotJson as error:
            raise Malformed(str(error)) from None
        if not isinstance(document, dict):
            raise Malformed("it is no JSON object")
    else:
        read = traces_document if signal == "traces" else logs_document
        document = read(body, MAX_FIELDS)
    found = [each for each in spans_of(document) if isinstance(each, Span) == (signal == "traces")]
    for each in found:
        _check_attributes(each.attributes if isinstance(each, Span) else each.event.attributes)
        for event in each.events if isinstance(each, Span) else ():
            _check_attributes(event.attributes)
    return found, len(body)


def _unpacked(body: bytes, bits: int) -> bytes:
    unpacking = zlib.decompressobj(bits)
    try:
        unpacked = unpacking.decompress(body, MAX_UNPACKED_BYTES + 1)
    except zlib.error as error:
        raise Malformed(f"it cannot be unpacked: {error}") from None
    if len(unpacked) > MAX_UNPACKED_BYTES:
        raise OversizedExport(
            f"it has more than {MAX_UNPACKED_BYTES // 2**20} MiB when it is unpacked"
        )
    if not unpacking.eof or unpacking.unused_data:
        raise Malformed("its compressed body is cut off, or followed by something else")
    return unpacked


def _check_attributes(attributes: dict[str, Any]) -> None:
    if len(attributes) > MAX_ATTRIBUTES:
        raise OversizedExport(f"a span has more than {MAX_ATTRIBUTES:,} attributes")
    if any(isinstance(each, str) and len(each) > MAX_TEXT for each in attributes.values()):
        raise OversizedExport(f"an attribute has more than {MAX_TEXT:,} characters")


def _count(count: int) -> str:
    return f"{count:,} span" + ("" if count == 1 else "s")
