"""Events of a run: streamed, or polled; and the frames that streams are made of."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from typing import Any, Protocol

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from evalwright.contracts.errors import Problem, StoreUnavailable
from evalwright.contracts.events import TERMINAL_TYPES, Envelope, Event
from evalwright.contracts.times import iso_time
from evalwright.host.access.keys import ended_key
from evalwright.host.access.limits import LONG, ByteBudget, send_and_wait
from evalwright.host.http.errors import ApiError, invalid
from evalwright.host.http.guarded_connection import ABORT
from evalwright.host.http.routing import ApiCall, ResponseDoc
from evalwright.host.runs.handle import RunHandle
from evalwright.host.streams.cache import LogPage, PageKey, SnapshotKey
from evalwright.host.streams.feed import Notice, Subscriber
from evalwright.host.v1.runs import snapshot
from evalwright.host.v1.schemas import (
    FLAG,
    TEXT,
    WHOLE,
    Routes,
    closed,
    listed,
    query,
    ref,
    whole,
)

KEEPALIVE, KEEPALIVE_SECONDS = b":keepalive\n\n", 15.0
STORE_SECONDS = 0.5  # after which a store that is away is asked again
MOST_BYTES = 1024 * 1024  # of events held at a time for one client
MOST_POLLED = 5_000
END_SECONDS = 0.2  # that a stream has to end with its key before its connection is closed
MOST_BUFFER_MS = 5_000
ROUTES = Routes("events")

PAGE = 500  # events at most
PAGE_BYTES = 48 * 1024  # of frames, after which a page ends
REMEMBERED = 256  # frames of small events, for clients that follow the same run
SMALL_BODY = 8 * 1024
FRAME_BYTES = 256  # about, around the body of an event

MODES = ("values", "updates", "messages", "debug")
_UPDATES = frozenset(
    {
        "run.started",
        "run.completed",
        "run.failed",
        "run.cancelled",
        "run.paused",
        "run.resumed",
        "run.annotated",
        "node.completed",
        "node.failed",
        "node.skipped",
        "node.suspended",
        "node.dispatched",
        "artifact.created",
    }
)
_UPDATE_FAMILIES = ("eval.", "deployment.", "approval.", "interrupt.", "clarification.")


def chooser(modes: list[str]) -> Callable[[str], bool]:
    """Which types of events some modes show."""
    if "debug" in modes:
        return lambda _: True
    families: tuple[str, ...] = _UPDATE_FAMILIES if "updates" in modes or "values" in modes else ()
    types = _UPDATES if families else frozenset[str]()
    families += ("ai.message.",) if "messages" in modes else ()
    return lambda event_type: event_type in types or event_type.startswith(families)


def stream_modes(asked: str) -> list[str]:
    """The modes that a client asks for; raises `ApiError` 400."""
    modes = asked.split(",")
    fits = all(mode in MODES for mode in modes) and len(set(modes)) == len(modes)
    if fits and ("values" not in modes or modes == ["values"]):
        return modes
    message = "streamMode must be values, or one or more of the other modes joined by commas"
    raise ApiError(400, "unsupported_stream_mode", message, {"supported": list(MODES)})


def _frame(event: Event) -> bytes:
    return as_frame(event.sequence, event.type, event.to_json())


_shared_frame = lru_cache(maxsize=REMEMBERED)(_frame)


def _batch(events: list[Event]) -> bytes:
    body = b"[" + b",".join(event.to_json() for event in events) + b"]"
    return as_frame(events[-1].sequence, "batch", body)


def as_frame(sequence: int, name: str, data: bytes) -> bytes:
    """A frame with any data."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (sequence, name.encode(), data)


def make_page(run: RunHandle, after: int, modes: list[str], *, as_batch: bool) -> LogPage:
    """The page after a sequence; it reads the log."""
    is_shown, shown = chooser(modes), list[Event]()
    read, size, last, is_end, is_over = 0, 0, after, True, False
    for event in run.log.read(run.run_id, (), after, PAGE):
        read, last = read + 1, event.sequence
        if is_shown(event.type):
            shown.append(event)
            size += len(event.body) + FRAME_BYTES
        if event.type in TERMINAL_TYPES:
            is_over = True
            break
        if size > PAGE_BYTES:
            is_end = False
            break
    else:
        is_end = read < PAGE
        end = run.edges()[-1] if is_end else None
        is_over = end is not None and end.type in TERMINAL_TYPES and end.sequence <= last
    frames = [_batch(shown)] if as_batch and shown else map(_frame, shown)
    return LogPage(b"".join(frames), last, is_end, is_over)


class Stream:
    """The frames for one client, from its position in the log to the end of the run."""

    def __init__(self, call: ApiCall, modes: list[str], after: int, buffer_ms: int) -> None:
        self._run = call.run
        self._host = call.host
        self._feed = call.host.feed
        self._modes = modes
        self._is_shown = chooser(modes)
        self._has_values = modes == ["values"]
        self._after = after
        self._buffer_s = buffer_ms / 1000
        self._is_over = False

    async def chunks(self, subscriber: Subscriber) -> AsyncIterator[bytes]:
        """The recorded events, then the new ones, until the run ends or the host stops."""
        run, loop = self._run, asyncio.get_running_loop()
        if self._has_values and (await run.read_edges())[-1].type not in TERMINAL_TYPES:
            self._after = -1  # a client that returns first gets the current state
        async for chunk in self._recorded():
            yield chunk
        while not self._is_over and not self._feed.is_stopped and subscriber.ended is None:
            if not await subscriber.wait(KEEPALIVE_SECONDS):
                # Another process may have resumed the run, and does not notify this one.
                async for chunk in self._recorded():
                    yield chunk
                yield KEEPALIVE
                continue
            until = loop.time() + self._buffer_s  # for more events, unless the run has ended
            while self._buffer_s and not subscriber.has_end() and (left := until - loop.time()) > 0:
                await subscriber.wait_more(left)
            events, is_behind = subscriber.pop_events()
            if is_behind or (events and events[0].sequence > self._after + 1):
                async for chunk in self._recorded():
                    yield chunk
            else:
                yield await self._shown(events)
            notices = subscriber.pop_notices()
            yield b"".join([self._notice_frame(each) for each in notices])

    async def _recorded(self) -> AsyncIterator[bytes]:
        """What is in the log; while the store is away, the client waits with the host."""
        while not self._feed.is_stopped:
            try:
                async for chunk in self._read_on():
                    yield chunk
            except StoreUnavailable:
                yield KEEPALIVE
                await asyncio.sleep(STORE_SECONDS)
            else:
                return

    async def _read_on(self) -> AsyncIterator[bytes]:
        run = self._run
        if self._has_values:  # the current state instead of events
            last = (await run.read_edges())[-1]
            self._is_over = last.type in TERMINAL_TYPES
            if last.sequence > self._after:
                self._after = last.sequence
                yield await self._state(last)
            return
        as_batch, schedule = bool(self._buffer_s), self._host.page_schedule
        form = ",".join((*self._modes, "batch") if as_batch else self._modes)
        is_end, share = False, schedule.new_share(run.tenant)
        while not is_end and not self._is_over:
            make = partial(make_page, run, self._after, self._modes, as_batch=as_batch)
            key = PageKey(run.partition, run.run_id, self._after, form)
            page = await self._host.pages.get(key, partial(_in_reader, run, make))
            await schedule.wait(share)  # many may have waited for the same page
            self._after, self._is_over, is_end = page.last, page.is_over, page.is_end
            yield page.content

    async def _shown(self, events: list[Event]) -> bytes:
        new = [event for event in events if event.sequence > self._after]
        self._is_over = any(event.type in TERMINAL_TYPES for event in events[-1:])
        if new:
            self._after = new[-1].sequence
        shown = [event for event in new if self._is_shown(event.type)]
        if not shown:
            return b""
        if self._has_values:
            return await self._state(shown[-1])
        if self._buffer_s:
            return _batch(shown)
        frames = [
            _frame(event) if len(event.body) > SMALL_BODY else _shared_frame(event)
            for event in shown
        ]
        return b"".join(frames)

    def _notice_frame(self, notice: Notice) -> bytes:
        """Notices are not in the log: they get the sequence of the event before them."""
        if self._has_values or not self._is_shown(notice.type):
            return b""
        body, at = msgspec.Raw(notice.body), iso_time(notice.at_us)
        event = Envelope(notice.id, self._run.run_id, notice.type, body, at, self._after)
        return as_frame(self._after, notice.type, msgspec.json.encode(event))

    async def _state(self, event: Event) -> bytes:
        run, status = self._run, await self._host.runs.status(self._run)

        def make() -> tuple[int, bytes, bool]:
            state = msgspec.json.encode(snapshot(run, status))
            return 1, as_frame(event.sequence, "state.snapshot", state), True

        key = SnapshotKey(run.partition, run.run_id, event.sequence, status)
        return await self._host.snapshots.get(key, partial(run.in_reader, make))


async def _in_reader(run: RunHandle, make: Callable[[], LogPage]) -> tuple[int, LogPage, bool]:
    page = await run.in_reader(make)
    return len(page.content), page, page.is_final


class Chunks(Protocol):
    """What a stream sends, part by part."""

    # An empty part only lets the stream notice that its client has left.
    def chunks(self, subscriber: Subscriber) -> AsyncIterator[bytes]: ...


class EventStream(Response):
    """A stream that ends with its run, or when its client leaves."""

    media_type = "text/event-stream"

    def __init__(
        self, call: ApiCall, stream: Chunks, held: ExitStack, subscriber: Subscriber
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "Connection": "close"})
        del self.headers["content-length"]
        self._response_budget: ByteBudget = call.host.response_budget
        self._tenant = call.principal.tenant
        self._stream = stream
        self._held = held
        self._subscriber = subscriber
        self._key_id = call.principal.key_id
        self._key_watch = call.host.key_watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the frames, for as long as the key is valid."""
        subscriber, loop = self._subscriber, asyncio.get_running_loop()
        abort = scope.get("extensions", {}).get(ABORT, {}).get("abort")

        async def departure() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        with ExitStack() as watched:

            def end(state: str) -> None:
                subscriber.end(state)
                if abort is not None:  # a client that does not read would not notice
                    watched.callback(loop.call_later(END_SECONDS, abort).cancel)

            watched.enter_context(self._key_watch.watch(self._key_id, end))
            leaving = asyncio.ensure_future(departure())
            leaving.add_done_callback(lambda _: subscriber.wake())
            with self._held:
                try:
                    start = {"status": 200, "headers": self.raw_headers}
                    await send({"type": "http.response.start", **start})
                    async for chunk in self._stream.chunks(subscriber):
                        if leaving.done() or subscriber.ended is not None:
                            break
                        if not await self._send(send, chunk):
                            break
                    await send(_part(b"", more=False))
                finally:
                    leaving.cancel()

    async def _send(self, send: Send, chunk: bytes) -> bool:
        """Send a part; False if too much is unread, and the client must reconnect."""
        if len(chunk) <= LONG:
            if chunk:
                await send(_part(chunk, more=True))
            return True
        try:
            with self._response_budget.hold(self._tenant, len(chunk)):
                await send_and_wait(send, chunk, more=True)
        except ApiError:
            return False
        await asyncio.sleep(0)  # a client that reads fast must not delay others
        return True


def _part(chunk: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": chunk, "more_body": more}


_PAGE = closed({"events": listed(ref("RunEvent")), "isComplete": FLAG}, ("events", "isComplete"))


@contextmanager
def following(call: ApiCall, run: RunHandle) -> Iterator[Subscriber]:
    """A subscription to a run, one of the streams of its tenant; raises `ApiError` 429 or 503."""
    with (
        call.host.streams.hold(call.principal.tenant),
        call.host.feed.subscribe(run.run_id) as subscriber,
    ):
        yield subscriber


@ROUTES.add(
    "GET",
    "/v1/runs/{runId}/events/poll",
    "pollRunEvents",
    "runs:read",
    parameters=(
        query("lastSequence", WHOLE, "The sequence of the last event received."),
        query("timeout", whole(1, 60), "Seconds to wait for an event; 30 by default."),
    ),
    answers={200: ResponseDoc("Events.", _PAGE)},
    refuses=(400, 404),
)
async def poll(call: ApiCall) -> Response:
    """The events after a sequence."""
    run, after, key_id = call.run, call.query.get("lastSequence", -1), call.principal.key_id
    await call.edges(run)
    read = partial(_polled, run, after)
    with (
        following(call, run) as subscriber,
        call.host.key_watch.watch(key_id, subscriber.end),
    ):
        body, may_come = await run.in_reader(read)
        if may_come:
            await subscriber.wait(call.query.get("timeout", 30))
            if subscriber.ended is not None:
                raise ended_key(key_id, subscriber.ended)
            body, _ = await run.in_reader(read)
    return Response(body, media_type="application/json")


def _polled(run: RunHandle, after: int) -> tuple[bytes, bool]:
    """The events after a sequence as JSON, and whether there are none yet, but will be.

    There are as many as fit, but at least one if there is one.
    """
    found, size = list[Event](), 0
    for event in run.log.read(run.run_id, (), after, MOST_POLLED):
        found.append(event)
        size += len(event.body)
        if size > MOST_BYTES:
            break
    last = run.edges()[-1]
    seen, has_ended = found[-1].sequence if found else after, last.type in TERMINAL_TYPES
    body: dict[str, Any] = {
        "events": [msgspec.Raw(event.to_json()) for event in found],
        "isComplete": has_ended and seen >= last.sequence,
    }
    return msgspec.json.encode(body), not found and not has_ended


@ROUTES.add(
    "GET",
    "/v1/runs/{runId}/events",
    "streamRunEvents",
    "runs:read",
    parameters=(
        query("streamMode", TEXT, "updates (default), values, messages or debug."),
        query(
            "bufferMs",
            whole(0, MOST_BUFFER_MS),
            "Collect events for this long and send them as one batch.",
        ),
        {"in": "header", "name": "Last-Event-ID", "required": False, "schema": TEXT},
    ),
    answers={
        200: ResponseDoc(
            "The stream; with `Accept: application/json`, the events so far.",
            TEXT,
            "text/event-stream",
            as_json=_PAGE,
        )
    },
    refuses=(400, 404),
)
async def stream(call: ApiCall) -> Response:
    """The events of a run as server-sent events."""
    modes = stream_modes(call.query.get("streamMode", "updates"))
    last_id = call.request.headers.get("last-event-id", "")
    if last_id and not (last_id.isascii() and last_id.isdigit() and len(last_id) <= 18):
        raise invalid([Problem("Last-Event-ID", "must be the sequence number of an event")])
    run, after = call.run, int(last_id or -1)
    await call.edges(run)
    if "application/json" in call.request.headers.get("accept", ""):
        body, _ = await run.in_reader(lambda: _polled(run, after))
        return Response(body, media_type="application/json")
    call.host.response_budget.check(call.principal.tenant, MOST_BYTES)
    clients = call.host.telemetry.metrics.sse_clients
    with ExitStack() as held:
        subscriber = held.enter_context(following(call, run))
        held.callback(clients.dec)
        clients.inc()
        frames = Stream(call, modes, after, call.query.get("bufferMs", 0))
        return EventStream(call, frames, held.pop_all(), subscriber)
