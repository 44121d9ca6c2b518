"""Events of a run: streamed, or polled."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from evalwright.contracts.errors import Problem, StoreUnavailable
from evalwright.contracts.events import TERMINAL_TYPES, Envelope, Event
from evalwright.contracts.times import iso_time
from evalwright.host.access.byte_budget import LONG, ByteBudget, send_and_wait
from evalwright.host.access.keys import ended_key
from evalwright.host.http.connection import ABORT
from evalwright.host.http.errors import ApiError, invalid
from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route
from evalwright.host.runs.handle import RunHandle
from evalwright.host.streams.feed import Notice, Subscriber
from evalwright.host.streams.pages import LogPage, PageKey
from evalwright.host.streams.snapshots import SnapshotKey
from evalwright.host.v1.frames import as_frame, batch, chooser, frame, make_page, stream_modes
from evalwright.host.v1.schemas import (
    FLAG,
    RUN_ID,
    TEXT,
    closed,
    listed,
    query,
    ref,
    refusals,
)
from evalwright.host.v1.shapes import snapshot

KEEPALIVE, KEEPALIVE_SECONDS = b":keepalive\n\n", 15.0
STORE_SECONDS = 0.5  # after which a store that is away is asked again
MOST_BYTES = 1024 * 1024  # of events held at a time for one client
MOST_POLLED = 5_000
END_SECONDS = 0.2  # that a stream has to end with its key before its connection is closed
MOST_BUFFER_MS = 5_000
TAG = "events"


class Stream:
    """The frames for one client, from its position in the log to the end of the run."""

    def __init__(self, call: ApiCall, modes: list[str], after: int, buffer_ms: int) -> None:
        self._run = call.run
        self._feed = call.host.feed
        self._pages = call.host.pages
        self._turns = call.host.turns
        self._snapshots = call.host.snapshots
        self._runs = call.host.runs
        self._modes = modes
        self._is_shown = chooser(modes)
        self._has_values = modes == ["values"]
        self._after = after
        self._buffer_s = buffer_ms / 1000
        self._is_over = False

    async def chunks(self, subscriber: Subscriber) -> AsyncIterator[bytes]:
        """The recorded events, then the new ones, until the run ends or the host stops."""
        if self._has_values and (await self._last()).type not in TERMINAL_TYPES:
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
            if self._buffer_s:
                await self._gather(subscriber)
            async for chunk in self._come(*subscriber.take()):
                yield chunk
            yield b"".join(self._notices(subscriber.take_notices()))

    async def _come(self, events: list[Event], lost: bool) -> AsyncIterator[bytes]:  # noqa: FBT001
        has_gap = bool(events) and events[0].sequence > self._after + 1
        if not lost and not has_gap:
            yield await self._shown(events)
            return
        async for chunk in self._recorded():
            yield chunk

    async def _gather(self, subscriber: Subscriber) -> None:
        """Wait for more events, unless the run has ended."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._buffer_s
        while not subscriber.has_end() and (left := until - loop.time()) > 0:
            await subscriber.wait_more(left)

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
        if self._has_values:
            yield await self._current()
            return
        is_end, share = False, self._turns.new_share(self._run.tenant)
        while not is_end and not self._is_over:
            page = await self._page()
            await self._turns.take(share)  # many may have waited for the same page
            self._after, self._is_over, is_end = page.last, page.is_over, page.is_end
            yield page.content

    async def _page(self) -> LogPage:
        """The next page of the log."""
        run, as_batch = self._run, bool(self._buffer_s)
        form = ",".join((*self._modes, "batch") if as_batch else self._modes)
        make = partial(make_page, run, self._after, self._modes, as_batch=as_batch)
        key = PageKey(run.partition, run.run_id, self._after, form)
        return await self._pages.get(key, lambda: run.in_reader(make))

    async def _current(self) -> bytes:
        """The current state of the run, instead of its events."""
        last = await self._last()
        self._is_over = last.type in TERMINAL_TYPES
        if last.sequence <= self._after:
            return b""
        self._after = last.sequence
        return await self._state(last)

    async def _last(self) -> Event:
        return (await self._run.look())[-1]

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
        return batch(shown) if self._buffer_s else b"".join(map(frame, shown))

    def _notices(self, notices: list[Notice]) -> Iterable[bytes]:
        """Notices are not in the log: they get the sequence of the event before them."""
        for notice in notices:
            if self._is_shown(notice.type) and not self._has_values:
                body, at = msgspec.Raw(notice.body), iso_time(notice.at_us)
                event = Envelope(notice.id, self._run.run_id, notice.type, body, at, self._after)
                yield as_frame(self._after, notice.type, msgspec.json.encode(event))

    async def _state(self, event: Event) -> bytes:
        run, status = self._run, await self._runs.status(self._run)
        key = SnapshotKey(run.partition, run.run_id, event.sequence, status)
        return await self._snapshots.get(key, lambda: run.in_reader(lambda: _state_frame(run, key)))


def _state_frame(run: RunHandle, key: SnapshotKey) -> bytes:
    state = snapshot(run, key.status)
    return as_frame(key.sequence, "state.snapshot", msgspec.json.encode(state))


class Chunks(Protocol):
    """What a stream sends, part by part."""

    def chunks(self, subscriber: Subscriber) -> AsyncIterator[bytes]:
        """The parts; an empty one only lets the stream look whether its client has left."""


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
        abort = scope.get("extensions", {}).get(ABORT, {}).get("abort")
        with ExitStack() as watched:

            def end(state: str) -> None:
                self._subscriber.end(state)
                if abort is not None:  # a client that does not read would not notice
                    timer = asyncio.get_running_loop().call_later(END_SECONDS, abort)
                    watched.callback(timer.cancel)

            watched.enter_context(self._key_watch.watch(self._key_id, end))
            await self._follow(receive, send)

    async def _follow(self, receive: Receive, send: Send) -> None:
        leaving = asyncio.ensure_future(_departure(receive))
        leaving.add_done_callback(lambda _: self._subscriber.wake())
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        with self._held:
            try:
                await send(start)
                async for chunk in self._stream.chunks(self._subscriber):
                    if leaving.done() or self._subscriber.ended is not None:
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


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _part(chunk: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": chunk, "more_body": more}


async def stream(call: ApiCall) -> Response:
    """Stream the events of a run."""
    modes = stream_modes(call.query.get("streamMode", "updates"))
    after = _last_event_id(call)
    run = call.run
    await call.look(run)
    if "application/json" in call.request.headers.get("accept", ""):
        return (await run.in_reader(lambda: _polled(run, after))).response()
    call.host.response_budget.check(call.principal.tenant, MOST_BYTES)
    clients = call.host.telemetry.metrics.sse_clients
    with ExitStack() as held:
        held.enter_context(call.host.streams.hold())
        held.enter_context(call.host.streams.hold_for(call.principal.tenant))
        subscriber = held.enter_context(call.host.feed.follow(run.run_id))
        held.callback(clients.dec)
        clients.inc()
        frames = Stream(call, modes, after, call.query.get("bufferMs", 0))
        return EventStream(call, frames, held.pop_all(), subscriber)


def _last_event_id(call: ApiCall) -> int:
    given = call.request.headers.get("last-event-id")
    if given is None or given == "":
        return -1
    if not (given.isascii() and given.isdigit() and len(given) <= 18):
        raise invalid([Problem("Last-Event-ID", "must be the sequence number of an event")])
    return int(given)


async def poll(call: ApiCall) -> Response:
    """The events after a sequence; waits for some if there are none yet."""
    run = call.run
    after = call.query.get("lastSequence", -1)
    await call.look(run)
    with ExitStack() as held:
        held.enter_context(call.host.streams.hold())
        held.enter_context(call.host.streams.hold_for(call.principal.tenant))
        subscriber = held.enter_context(call.host.feed.follow(run.run_id))
        key_id = call.principal.key_id
        held.enter_context(call.host.key_watch.watch(key_id, subscriber.end))
        found = await run.in_reader(lambda: _polled(run, after))
        if found.is_worth_waiting:
            await subscriber.wait(call.query.get("timeout", 30))
            if subscriber.ended is not None:
                raise ended_key(key_id, subscriber.ended)
            found = await run.in_reader(lambda: _polled(run, after))
    return found.response()


class _Polled(NamedTuple):
    """The events after a sequence, as JSON."""

    body: bytes
    is_worth_waiting: bool  # there are none, and there will be

    def response(self) -> Response:
        return Response(self.body, media_type="application/json")


def _polled(run: RunHandle, after: int) -> _Polled:
    found = _read(run, after)
    last = run.edges()[-1]
    seen = found[-1].sequence if found else after
    is_complete = last.type in TERMINAL_TYPES and seen >= last.sequence
    body: dict[str, Any] = {
        "events": [msgspec.Raw(event.to_json()) for event in found],
        "isComplete": is_complete,
    }
    return _Polled(msgspec.json.encode(body), not found and last.type not in TERMINAL_TYPES)


def _read(run: RunHandle, after: int) -> list[Event]:
    """The events after a sequence, as many as fit, but at least one if there is one."""
    found, size = list[Event](), 0
    for event in run.log.read(run.run_id, (), after, MOST_POLLED):
        found.append(event)
        size += len(event.body)
        if size > MOST_BYTES:
            break
    return found


_STREAM_MODE = query("streamMode", TEXT, "updates (default), values, messages or debug.")
_BUFFER = query(
    "bufferMs",
    {"type": "integer", "minimum": 0, "maximum": MOST_BUFFER_MS},
    "Collect events for this long and send them as one batch.",
)
_LAST_ID = {"in": "header", "name": "Last-Event-ID", "required": False, "schema": TEXT}
_PAGE = closed({"events": listed(ref("RunEvent")), "isComplete": FLAG}, ("events", "isComplete"))

ROUTES = [
    Route(
        "GET",
        "/v1/runs/{runId}/events/poll",
        poll,
        ApiOperation(
            id="pollRunEvents",
            summary="The events after a sequence.",
            tag=TAG,
            parameters=(
                RUN_ID,
                query(
                    "lastSequence",
                    {"type": "integer", "minimum": 0},
                    "The sequence of the last event received.",
                ),
                query(
                    "timeout",
                    {"type": "integer", "minimum": 1, "maximum": 60},
                    "Seconds to wait for an event; 30 by default.",
                ),
            ),
            answers={200: ResponseDoc("Events.", _PAGE), **refusals(400, 404)},
        ),
        ("runs:read",),
    ),
    Route(
        "GET",
        "/v1/runs/{runId}/events",
        stream,
        ApiOperation(
            id="streamRunEvents",
            summary="The events of a run as server-sent events.",
            tag=TAG,
            parameters=(RUN_ID, _STREAM_MODE, _BUFFER, _LAST_ID),
            answers={
                200: ResponseDoc(
                    "The stream; with `Accept: application/json`, the events so far.",
                    TEXT,
                    "text/event-stream",
                    as_json=_PAGE,
                ),
                **refusals(400, 404),
            },
        ),
        ("runs:read",),
    ),
]
