"""Connections with bounds: requests come soon and are short, and responses are read.

uvicorn bounds neither the length of what is not a body (head, chunk extensions, trailers), nor the
time in which a request arrives, nor how long a response stays in memory because its client does
not read it.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

HEAD_SECONDS = 30.0  # that a client has to send the request line and the headers
MOST_HEAD_BYTES = 64 * 1024
MOST_HEADERS = 256  # each takes more memory than bytes
REST_SECONDS = 60.0  # for all that follows the head; whoever reads a body allows it less
MOST_AROUND_BYTES = 64 * 1024  # of chunk sizes, extensions and trailers, beyond the body's length
MOST_UNWANTED_BYTES = 64 * 1024  # of the body of a GET, or that follow the answer to a request
MOST_PIPELINED = 100  # requests that wait for the answers to those before
STALL_SECONDS = 30.0  # in which a client with much to read must read LEAST_READ_BYTES
LEAST_READ_BYTES = 64 * 1024
PARTING_SECONDS = 5.0  # for a client that still sends to find the answer that ends the connection
MOST_PARTING_BYTES = 16 * 1024 * 1024

PIECE = 16 * 1024  # bytes that are parsed before they are counted
ABORT = "evalwright.abort"  # the extension of a request's scope that closes its connection at once


class GuardedConnection(HttpToolsProtocol):
    """One connection; it is closed if the client exceeds the bounds."""

    _arrival_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None
    _is_head = True  # what comes next belongs to the head of a request, if to any
    _has_begun = False
    _head_bytes = 0
    _body_bytes = 0
    _around_bytes = 0
    _parting_bytes: int | None = None  # None: the connection goes on
    _is_answering = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_rest(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        super().connection_lost(exc)
        self.pipeline.clear()  # each refers to this one: else they wait for a garbage collection

    def data_received(self, data: bytes) -> None:
        """Take in data piece by piece, unless there is more of a request than may be."""
        if self._parting_bytes is not None:
            self._parting_bytes += len(data)
            if self._parting_bytes > MOST_PARTING_BYTES:
                self.transport.abort()
            return
        begin = 0
        while begin < len(data) and not self.transport.is_closing():
            length = min(PIECE, MOST_HEAD_BYTES - self._head_bytes) if self._is_head else PIECE
            if not length:
                self.send_400_response("The request head is too long.")
                return
            self._parse(data[begin : begin + length])
            begin += length
        if self.transport.is_closing() or self._arrival_timer is not None:
            return
        if not self._is_head:
            self._await_rest(REST_SECONDS)
        elif not self._is_answering:
            self._await_rest(HEAD_SECONDS)

    def _parse(self, piece: bytes) -> None:
        was_head, body_before = self._is_head, self._body_bytes
        super().data_received(piece)
        if self.transport.is_closing():
            return
        if self._is_head and (was_head or self._has_begun):
            self._head_bytes += len(piece)
        elif not self._is_head and not was_head:
            self._around_bytes += len(piece) - (self._body_bytes - body_before)
        if self._around_bytes > MOST_AROUND_BYTES + self._body_bytes:
            self.send_400_response("There is too much around the body.")
        elif self._body_bytes > MOST_UNWANTED_BYTES and self.scope["method"] in ("GET", "HEAD"):
            self.send_400_response("This method has no use for a long body.")

    def send_400_response(self, msg: str) -> None:
        """Refuse what has come, and close the connection."""
        cycle: RequestResponseCycle | None = self.cycle
        is_answered = cycle is not None and cycle.response_started and not cycle.response_complete
        if self.pipeline or is_answered:
            self.transport.abort()  # in the middle of another answer this one cannot be read
        else:
            super().send_400_response(msg)
            self._close()

    def on_message_begin(self) -> None:
        self._has_begun = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_head:
            return  # trailers are of no use to anybody
        if len(self.headers) == MOST_HEADERS:
            raise ValueError("too many headers")  # the parser stops, and the request is refused
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) == MOST_PIPELINED:
            raise ValueError("too many requests wait for answers")  # as for headers
        self._stop_waiting()
        self._is_head = False
        self._body_bytes = self._around_bytes = 0
        self._is_answering = True
        self.scope["extensions"] = {ABORT: {"abort": self.transport.abort}}
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop_waiting()
        self._is_head, self._has_begun = True, False
        self._head_bytes = self._body_bytes = self._around_bytes = 0
        super().on_message_complete()

    def _start_asgi_task(self, cycle: "RequestResponseCycle", app: "ASGI3Application") -> None:
        async def answer(
            scope: "Scope", receive: "ASGIReceiveCallable", send: "ASGISendCallable"
        ) -> None:
            async def send_last(message: Any) -> None:
                if message["type"] == "http.response.start" and cycle.more_body:
                    parting = _PartingTransport(self.transport, self._part)
                    cycle.transport = cast("asyncio.Transport", parting)
                    length = dict(cycle.scope["headers"]).get(b"content-length")
                    if length is None or int(length) - self._body_bytes > MOST_UNWANTED_BYTES:
                        headers = [*message.get("headers", ()), (b"connection", b"close")]
                        message["headers"] = headers
                await send(message)

            await app(scope, receive, send_last if cycle.more_body else send)

        super()._start_asgi_task(cycle, answer)

    def on_response_complete(self) -> None:
        self._is_answering = bool(self.pipeline)
        super().on_response_complete()
        if self.transport.is_closing():
            self._close()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def pause_writing(self) -> None:
        """Much of the response is unread: watch that the client reads on."""
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        super().resume_writing()

    def _part(self) -> None:
        """End the connection so that a client that still sends gets its answer.

        Were the socket closed with data unread, the client might lose what it has not read either.
        """
        if self.transport.is_closing():
            return
        self._parting_bytes = 0
        self._stop_waiting()
        self.transport.write_eof()
        self._arrival_timer = self.loop.call_later(PARTING_SECONDS, self._close)

    def _close(self) -> None:
        """Close the connection; who does not read what was sent does not keep it open."""
        self._stop_waiting()
        self.transport.close()
        self._arrival_timer = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def _await_rest(self, seconds: float) -> None:
        self._arrival_timer = self.loop.call_later(seconds, self._end_late)

    def _end_late(self) -> None:
        self._arrival_timer = None
        if not self._is_head and self.flow.read_paused:  # the host has not read what came
            self._await_rest(REST_SECONDS)
        else:
            self._close()

    def _stop_waiting(self) -> None:
        if self._arrival_timer is not None:
            self._arrival_timer.cancel()
            self._arrival_timer = None

    def _await_reading(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._stall_timer = self.loop.call_later(STALL_SECONDS, self._end_stalled, unread)

    def _end_stalled(self, unread_before: int) -> None:
        if self.transport.get_write_buffer_size() > unread_before - LEAST_READ_BYTES:
            self.transport.abort()
        else:
            self._await_reading()


class _PartingTransport:
    """The transport of a response that ends its connection while the request still arrives."""

    def __init__(self, transport: asyncio.Transport, part: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = part
