"""The agents that are measured: they answer at once, or after a pause of 50 ms."""

import asyncio
import time
from typing import Any

PAUSE = 0.05


def instant(task: Any) -> str:
    return answer(task.input["q"])


async def instant_async(task: Any) -> str:
    return answer(task.input["q"])


def pause(task: Any) -> str:
    time.sleep(PAUSE)
    return answer(task.input["q"])


async def pause_async(task: Any) -> str:
    await asyncio.sleep(PAUSE)
    return answer(task.input["q"])


def answer(question: str) -> str:
    return question.upper()
