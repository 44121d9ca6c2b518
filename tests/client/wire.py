"""A server that says exactly what a test wants, byte by byte, one answer per connection."""

import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress


class Wire:
    """Where the server is, and what it was sent: one text per connection."""

    def __init__(self, port: int, scheme: str) -> None:
        self.url = f"{scheme}://localhost:{port}"
        self.heard: list[str] = []


def answer(body: bytes = b"{}", status: int = 200, **headers: str) -> bytes:
    """A whole answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named = {"Content-Length": str(len(body)), "Connection": "close", **named}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def stream(body: bytes) -> bytes:
    """The beginning of a stream, which breaks off: its last chunk is missing."""
    head = b"HTTP/1.1 200 Said\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    chunk = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
    return head + b"Connection: close\r\n\r\n" + chunk


def whole_stream(body: bytes) -> bytes:
    """A stream that ends in good order."""
    return stream(body) + b"0\r\n\r\n"


@contextmanager
def saying(answers: Sequence[bytes], tls: ssl.SSLContext | None = None) -> Iterator[Wire]:
    """Serve; when there are no answers left, connections are closed without one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wire = Wire(listener.getsockname()[1], "https" if tls else "http")
        left = list(answers)

        def work() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with suppress(OSError), connection:
                    _talk(connection, tls, wire, left)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield wire
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _talk(
    connection: socket.socket, tls: ssl.SSLContext | None, wire: Wire, left: list[bytes]
) -> None:
    if tls is not None:
        connection = tls.wrap_socket(connection, server_side=True)
    with connection:
        wire.heard.append(_request(connection))
        if left:
            connection.sendall(left.pop(0))


def _request(connection: socket.socket) -> str:
    heard = b""
    while b"\r\n\r\n" not in heard:
        piece = connection.recv(65536)
        if not piece:
            return heard.decode()
        heard += piece
    head, _, body = heard.partition(b"\r\n\r\n")
    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    missing = (int(lengths[0].split(b":")[1]) if lengths else 0) - len(body)
    while missing > 0:
        piece = connection.recv(65536)
        if not piece:
            break
        heard, missing = heard + piece, missing - len(piece)
    return heard.decode()
