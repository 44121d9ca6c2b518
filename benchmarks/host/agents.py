"""Agents of the benchmark: they wait a little and answer what is expected."""

import asyncio
from typing import Any


async def instant(_task: Any) -> str:
    return "yes"


async def echo(task: Any) -> Any:
    return task.input


async def slow(task: Any) -> str:
    """Tasks take from 0.2 to 2.1 seconds, so that not all events come at the same moment."""
    await asyncio.sleep(0.2 + 0.1 * int(task.input.rpartition(" ")[2]))
    return "yes"
