"""Serving: the application on a socket, until it is stopped."""

import asyncio
import gc
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from evalwright.contracts.errors import BadInput
from evalwright.engine.workers import complete
from evalwright.host.host import Host
from evalwright.host.http.app import App
from evalwright.host.http.guarded_connection import GuardedConnection
from evalwright.host.v1.api import v1_routes
from evalwright.host.web.sign_in import KeySignIn, LinkSignIn
from evalwright.host.web.site import Site

BACKLOG = 2048
KEEP_ALIVE_SECONDS = 30
MOST_CONNECTIONS = 10_000
SWITCH_SECONDS = 0.0005
LEAST_GRACE_SECONDS = 1  # that open requests have when runs took all the time there was


class Server(uvicorn.Server):
    """A server that reports when it listens, and that ends event streams when it stops."""

    def __init__(self, config: uvicorn.Config, host: Host, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._host = host
        self._listening = listening

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut down cleanly on SIGINT and SIGTERM, with exit code 0."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread can handle signals
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop in good order; at the second signal, at once."""
        if self.should_exit:
            self.force_exit = True
            self._host.runs.break_off()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let calls in flight end, then the event streams, which would wait for ever."""
        deadline = time.monotonic() + self._host.settings.shutdown_s
        await self._host.drain()
        self._host.feed.stop()
        left = round(deadline - time.monotonic())
        self.config.timeout_graceful_shutdown = max(LEAST_GRACE_SECONDS, left)
        await super().shutdown(sockets)


def open_socket(
    address: str, port: int, remedy: str = "choose another with --host or --port"
) -> socket.socket:
    """A socket to listen on; raises `BadInput` if the address cannot be used."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"cannot listen on {address}:{port}: {reason}; {remedy}") from None
    return listener


def create_server(
    host: Host, listening: Callable[[], None], local: LinkSignIn | None = None
) -> Server:
    """The server of a host; it calls `listening` when it listens.

    To somebody on this machine, who is let in by a link, it only shows the pages.
    """
    routes = [] if local else v1_routes(host.extension.routes)
    config = uvicorn.Config(
        App(host, routes, Site(host, local or KeySignIn()), is_local=local is not None),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        lifespan="on",
        http=GuardedConnection,
        ws="none",
        backlog=BACKLOG,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=round(host.settings.shutdown_s),
    )
    return Server(config, host, listening)


def serve(server: Server, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, or until `should_exit` is set."""
    # The event loop waits for a thread that computes for half a millisecond, not for five.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # what the start has made: a full collection would stop everybody
    try:
        loop = (server.config.get_loop_factory() or asyncio.new_event_loop)()
        complete(loop, loop.create_task(server.serve(sockets=[listener])))
    finally:
        gc.unfreeze()
        sys.setswitchinterval(interval)
