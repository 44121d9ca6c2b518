"""A receiver of webhooks over real HTTPS on loopback, which may fail as a test wants."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from host.webhooks.webhook_station import make_certificate


class Arrival(NamedTuple):
    """A delivery that arrived, and how it was answered (0: the connection was broken off)."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    status: int
    run_id: str
    sequence: int
    event_type: str

    @property
    def is_marked(self) -> bool:
        return self.headers["evalwright-redelivery"] == "true"


Answer = Callable[[str], int]


class Receiver:
    """Notes what arrives, and answers each path as `answer` says."""

    def __init__(self, certificate: Path) -> None:
        self.certificate = certificate
        self.arrivals: list[Arrival] = []
        self.answer: Answer = lambda _path: 204
        self.url = ""

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process trust it."""
        return {"SSL_CERT_FILE": str(self.certificate)}

    def taken(self, path: str = "/") -> list[Arrival]:
        """What it said that it took, in the order of arrival."""
        return [each for each in list(self.arrivals) if each.path == path and each.status == 204]


@contextmanager
def receiving(folder: Path) -> Iterator[Receiver]:
    """A receiver, until the context ends."""
    receiver = Receiver(make_certificate(folder / "receiver.pem").file)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(receiver.certificate)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status = receiver.answer(self.path)
            event = json.loads(body)["event"]
            named = event["runId"], event["sequence"], event["type"]
            receiver.arrivals.append(Arrival(self.path, headers, body, status, *named))
            if status:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self.close_connection = True

        def log_message(self, *_: Any) -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def finish_request(self, request: Any, client_address: Any) -> None:
            try:
                with context.wrap_socket(request, server_side=True) as secured:
                    super().finish_request(secured, client_address)
            except OSError:
                pass  # a host that was killed

    server = Server(("127.0.0.1", 0), Handler)
    receiver.url = f"https://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
