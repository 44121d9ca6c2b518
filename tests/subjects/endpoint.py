"""An HTTP agent on loopback that answers as a test tells it to."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple


class Request(NamedTuple):
    """What the agent was sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Reply(NamedTuple):
    """What it answers."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})


Respond = Callable[[Request], Reply]


class Endpoint:
    """Where the agent is, and what it was asked."""

    def __init__(self, port: int, host: str) -> None:
        self.url = f"http://{host}:{port}/agent"
        self.port = port
        self.requests: list[Request] = []


def answer(output: Any, **more: Any) -> Reply:
    """A proper response."""
    return Reply(json.dumps({"output": output, **more}).encode())


@contextmanager
def serving(respond: Respond, host: str = "127.0.0.1") -> Iterator[Endpoint]:
    """Serve until the context ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(
                self.command, self.path, dict(self.headers), json.loads(body) if body else None
            )
            endpoint.requests.append(request)
            reply = respond(request)
            with contextlib.suppress(ConnectionError):  # the client may have given up
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in reply.headers:
                    self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

        do_GET = do_POST = do_PATCH = _reply  # noqa: N815 - the names that the library calls

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    endpoint = Endpoint(server.server_address[1], host)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
