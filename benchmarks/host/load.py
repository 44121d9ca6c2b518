"""A client that costs little: HTTP/1.1 over plain sockets, so that the host is what is measured."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from typing import Any

_FRAME = re.compile(rb"id: (?P<id>\d+)\nevent: [^\n]*\ndata: (?P<data>[^\n]*)")


class Connection:
    """One kept connection to the host."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n"

    async def open(self) -> "Connection":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    def encoded(self, method: str, path: str, body: Any = None) -> bytes:
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\n{self._head}"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        return head.encode() + b"\r\n" + data

    async def send(self, request: bytes) -> tuple[int, bytes]:
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
        return int(head[9:12]), await self._reader.readexactly(length)

    async def stream(self, path: str) -> list[tuple[float, bytes]]:
        """What a stream sent until it ended, with the times; it is read apart when all have come.

        To take it apart at once would let other clients wait, and look as if the host were late.
        """
        self._writer.write(self.encoded("GET", path))
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        chunks = []
        while chunk := await self._reader.read(65536):
            chunks.append((time.time(), chunk))
        return chunks

    def close(self) -> None:
        self._writer.close()


def frames(chunks: list[tuple[float, bytes]]) -> Iterator[tuple[float, int, bytes]]:
    """The events of a stream: when each was whole, its sequence and data."""
    buffer = b""
    for came, chunk in chunks:
        buffer += chunk
        *whole, buffer = re.split(rb"\n\n", buffer)
        for frame in whole:
            found = _FRAME.search(frame)
            if found:
                yield came, int(found["id"]), found["data"]


async def opened(port: int, key: str) -> Connection:
    return await Connection(port, key).open()


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
