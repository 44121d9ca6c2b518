"""Connections with bounds: a request head comes soon and is short, and responses are read.

uvicorn bounds neither the time to send the head of a request, nor its length, nor how long a
response stays in memory because its client does not read it.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 30.0  # that a client has to send the request line and the headers
MOST_HEAD_BYTES = 64 * 1024
STALL_SECONDS = 30.0  # in which a client with much to read must read LEAST_READ_BYTES
LEAST_READ_BYTES = 64 * 1024

ABORT = "evalwright.abort"  # the extension of a request's scope that closes its connection at once


class GuardedConnection(HttpToolsProtocol):
    """One connection; it is closed if the client exceeds the bounds."""

    _head_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None
    _head_bytes: int | None = None  # None: no head is being sent
    _is_answering = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, for a limited time."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        for timer in (self._head_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in data, unless the request head is too long."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self.send_400_response("The request head is too long.")
        if self._head_timer is None and not self._is_answering:
            self._await_head()

    def on_message_begin(self) -> None:
        """A request head begins."""
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A request head is complete; the body has its own bounds."""
        self._head_bytes = None
        self._is_answering = True
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self.scope["extensions"] = {ABORT: {"abort": self.transport.abort}}
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """A response is sent; the next request may have arrived already."""
        self._is_answering = bool(self.pipeline)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Much of the response is unread: watch that the client reads on."""
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        """The client has read most of the response."""
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        super().resume_writing()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _await_reading(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._stall_timer = self.loop.call_later(STALL_SECONDS, self._end_stalled, unread)

    def _end_stalled(self, unread_before: int) -> None:
        if self.transport.get_write_buffer_size() > unread_before - LEAST_READ_BYTES:
            self.transport.abort()
        else:
            self._await_reading()
