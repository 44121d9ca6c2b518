"""A client that speaks HTTP badly: it sends what it likes and reads when it likes."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from host.caller import PATIENCE_S, Caller

SMALL_BUFFER = 4096


@contextmanager
def connected(caller: Caller, sent: bytes = b"") -> Iterator[socket.socket]:
    """A connection on which something was sent, with little room for what comes back."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        connection.settimeout(PATIENCE_S)
        connection.connect(caller.address)
        connection.sendall(sent)
        yield connection


def request(caller: Caller, path: str) -> bytes:
    """A plain GET with the caller's key."""
    return f"GET {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {caller.key}\r\n\r\n".encode()


def all_of(connection: socket.socket) -> bytes:
    """All that comes until the host ends the connection."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)
