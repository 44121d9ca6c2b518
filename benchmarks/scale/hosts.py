"""Two hosts before one log: how long it takes to create runs, and how late events come."""

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from load import Connection, opened, quantile
from machines import PostgresServer, ServedFleet, Workshop

from bench import create, measure_streams, suite

Measured = Iterator[tuple[str, str, str, bool | None]]

PER_SECOND = 50
CREATE_GOAL_MS = 100
STREAM_GOAL_MS = 200
ADDED_S = 0.005


def creates(server: PostgresServer, *, quick: bool) -> Measured:
    """Runs created at a fixed rate by turns, whether or not the ones before were answered."""
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder = Path(place)
        shop = Workshop(server, folder)
        key = json.loads(shop.run("keys", "create", "--tenant", "bench", "--json"))["key"]
        served = [ServedFleet(folder / name, shop.db, "--workers") for name in ("one", "two")]
        for each in served:
            stack.enter_context(each.serving())
        stack.enter_context(shop.workers(1, 20, served[0].settings))
        taken = asyncio.run(_creates([each.port for each in served], key, 4 if quick else 20))
    late = quantile(taken, 0.99) * 1000
    yield (
        f"runs created at {PER_SECOND}/s by two hosts",
        f"p50 {quantile(taken, 0.5) * 1000:.0f} ms, p99 {late:.0f} ms of {len(taken):,}",
        f"p99 ≤ {CREATE_GOAL_MS} ms",
        late <= CREATE_GOAL_MS,
    )


async def _creates(ports: list[int], key: str, seconds: int) -> list[float]:
    control = await opened(ports[0], key)
    status, body = await control.send(control.encoded("POST", "/v1/suites", suite()))
    assert status in (200, 201), body
    for port in ports:  # warm
        await create(await opened(port, key), "instant")
    free: dict[int, list[Connection]] = {port: [] for port in ports}
    taken: list[float] = []

    async def one(port: int) -> None:
        connection = free[port].pop() if free[port] else await opened(port, key)
        began = time.perf_counter()
        await create(connection, "instant")
        taken.append(time.perf_counter() - began)
        free[port].append(connection)

    began, pending = time.perf_counter(), []
    for number in range(PER_SECOND * seconds):
        await asyncio.sleep(max(0.0, began + number / PER_SECOND - time.perf_counter()))
        pending.append(asyncio.create_task(one(ports[number % len(ports)])))
    await asyncio.gather(*pending)
    return taken


def streams(server: PostgresServer, *, quick: bool) -> Measured:
    """Clients that follow runs over a host whose database is 5 ms farther away."""
    clients = 100 if quick else 500
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder = Path(place)
        shop = Workshop(server, folder)
        far = stack.enter_context(_far(server.port))
        address = shop.db.replace(f":{server.port}/", f":{far}/")
        host = ServedFleet(folder / "far", address)
        host.key = json.loads(shop.run("keys", "create", "--tenant", "bench", "--json"))["key"]
        stack.enter_context(host.serving())
        found = asyncio.run(_streams(host, clients))
    yield (
        f"{clients} streams, {ADDED_S * 1000:g} ms added to every round trip",
        f"p50 {found['p50_ms']} ms, p99 {found['p99_ms']} ms of {found['live_events']:,} events",
        f"p99 ≤ {STREAM_GOAL_MS} ms",
        float(str(found["p99_ms"])) <= STREAM_GOAL_MS,
    )


async def _streams(host: ServedFleet, clients: int) -> dict[str, object]:
    control = await opened(host.port, host.key)
    status, body = await control.send(control.encoded("POST", "/v1/suites", suite()))
    assert status in (200, 201), body
    return await measure_streams(host, clients, 25)


@contextlib.contextmanager
def _far(port: int) -> Iterator[int]:
    """The port of a process that passes everything on, half of the time later each way."""
    import multiprocessing

    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_pass_on, args=(port, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _pass_on(port: int, ready: object) -> None:
    asyncio.run(_passing(port, ready))


async def _passing(port: int, ready: object) -> None:
    loop = asyncio.get_running_loop()

    async def later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                loop.call_later(ADDED_S / 2, writer.write, data)
        loop.call_later(ADDED_S / 2, writer.close)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(later(reader, back), later(there, writer))

    proxy = await asyncio.start_server(connected, "127.0.0.1", 0)
    ready.send(proxy.sockets[0].getsockname()[1])  # type: ignore[attr-defined]
    await proxy.serve_forever()
