"""Agents that note every invocation in a file, for tests that count them from another process."""

import asyncio
import os
from pathlib import Path
from typing import Any


def note(line: str) -> None:
    """Append a line, whole, whoever else is writing."""
    descriptor = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def answer(task: Any) -> str:
    """Note the task and answer."""
    note(task.id)
    return "yes"


async def answer_slowly(task: Any) -> str:
    """Note the task, look something up twice, work a moment, answer."""
    note(task.id)
    await task.call_tool("shop:orders.get", {"id": task.id})
    await asyncio.sleep(0.002)
    await task.call_tool("shop:orders.get", {"id": task.id})
    task.report_usage(input_tokens=1, output_tokens=1, cost_usd=0.001)
    return "yes"


async def wait_at_the_gate(task: Any) -> str:
    """Note the task; those whose input says so wait until the gate is open."""
    note(task.id)
    if task.input == "wait":
        while not Path(os.environ["GATE"]).exists():  # noqa: ASYNC110, ASYNC240 - another process
            await asyncio.sleep(0.002)
    return "yes"


async def answer_after_a_while(task: Any) -> str:
    """Note the task, and answer after a time that a suite of many tasks makes long."""
    note(task.id)
    await asyncio.sleep(0.05)
    return "yes"


def wait_in_a_thread(task: Any) -> str:
    """Note the task; those whose input says so never answer."""
    import threading

    note(task.id)
    if task.input == "wait":
        threading.Event().wait()
    return "yes"


async def fail_until_the_gate_is_open(task: Any) -> str:
    """Note the task and fail, as long as the gate is closed."""
    note(task.id)
    if not Path(os.environ["GATE"]).exists():  # noqa: ASYNC240 - another process opens it
        raise ConnectionError("no agent here yet")
    return "yes"


async def fail_slowly_until_the_gate_is_open(task: Any) -> str:
    """The same, after a moment's work."""
    await asyncio.sleep(0.002)
    return await fail_until_the_gate_is_open(task)
