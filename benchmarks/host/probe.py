"""How long a host takes to answer, asked by a process of its own: prints JSON.

    probe.py PORT KEY SECONDS PATH

It asks every few milliseconds, on one connection that it keeps, and gives up on an answer after a
minute. Whoever makes the load is another process: its own delays must not count.
"""

import asyncio
import json
import sys
import time

from load import opened, quantile

PAUSE_SECONDS = 0.01
PATIENCE_SECONDS = 60.0


async def measure(port: int, key: str, seconds: float, path: str) -> dict[str, float]:
    connection = await opened(port, key)
    request = connection.encoded("GET", path)
    taken: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        async with asyncio.timeout(PATIENCE_SECONDS):
            status, _ = await connection.send(request)
        assert status == 200, status
        taken.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_SECONDS)
    return {
        "asked": len(taken),
        "p50_ms": round(quantile(taken, 0.5) * 1000, 1),
        "p99_ms": round(quantile(taken, 0.99) * 1000, 1),
        "most_ms": round(max(taken) * 1000, 1),
    }


if __name__ == "__main__":
    port, key, seconds, path = sys.argv[1:]
    print(json.dumps(asyncio.run(measure(int(port), key, float(seconds), path))))
