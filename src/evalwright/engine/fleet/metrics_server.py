"""The metrics of the fleet over HTTP, for a worker: two paths, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from evalwright.engine.fleet.database import FleetDatabase
from evalwright.engine.fleet.status import fleet_metrics

ASK_SECONDS = 5.0
MOST_LINES = 100  # of a request


@asynccontextmanager
async def serve_metrics(
    database: FleetDatabase, place: tuple[str, int] | None
) -> AsyncIterator[str | None]:
    """Serve `/metrics` and `/healthz`; gives the address, or None where nothing is served."""
    if place is None:
        yield None
        return

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(Exception):  # whoever asks can ask again
            async with asyncio.timeout(ASK_SECONDS):
                writer.write(await _response(database, reader))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, *place)
    host, port = server.sockets[0].getsockname()[:2]
    async with server:
        yield f"http://{host}:{port}/metrics"


async def _response(database: FleetDatabase, reader: asyncio.StreamReader) -> bytes:
    asked = (await reader.readline()).split()
    for _ in range(MOST_LINES):
        if not (await reader.readline()).strip():
            break
    path = asked[1] if len(asked) > 1 else b""
    status, body = b"404 Not Found", b""
    if path == b"/healthz":
        status, body = b"200 OK", b"ok\n"
    elif path == b"/metrics":
        try:
            status, body = b"200 OK", await fleet_metrics(database, with_tenants=True)
        except Exception:  # noqa: BLE001 - the database is out of reach
            status = b"503 Service Unavailable"
    head = b"Content-Type: text/plain; version=0.0.4\r\nConnection: close\r\nContent-Length: "
    return b"HTTP/1.1 " + status + b"\r\n" + head + str(len(body)).encode() + b"\r\n\r\n" + body
