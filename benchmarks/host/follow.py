"""Follows runs to their ends in a process of its own: `follow.py PORT KEY RUN...`.

A client that measures must not be the one that reads what a hundred thousand tasks have to say.
"""

import asyncio
import sys

from load import opened


async def follow(port: int, key: str, run_id: str) -> None:
    connection = await opened(port, key)
    chunks = await connection.stream(f"/v1/runs/{run_id}/events")
    assert b"event: run.completed" in b"".join(chunk for _, chunk in chunks), run_id
    connection.close()


async def follow_all(port: int, key: str, *run_ids: str) -> None:
    await asyncio.gather(*(follow(port, key, run_id) for run_id in run_ids))


if __name__ == "__main__":
    asyncio.run(follow_all(int(sys.argv[1]), *sys.argv[2:]))
