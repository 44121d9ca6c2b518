"""Agents that do all that an agent may do, and agents that do to their process what none should."""

import asyncio
import ctypes
import os
import re
import signal
import sys
import threading
import time
from typing import Any

import evalwright as ew

model_class = "general"


@ew.tool
def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


@ew.tool(name="shop:find")
def find(what: str) -> str:
    """Answered by fixtures, where there are any."""
    return f"no {what}"


def do_everything(task: Any) -> Any:
    """Use all that `task` offers."""
    memory = [entry["content"] for entry in task.memory]
    order = task.call_tool("shop:orders.get", {"id": task.input["id"]})
    try:
        task.call_tool("shop:none")
    except RuntimeError as error:
        memory.append(str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        memory.append(f"{type(error).__name__}: {error}")
    task.tools.wrap(len, name="length")([1, 2])
    in_a_thread = threading.Thread(target=double, args=(3,))
    in_a_thread.start()
    in_a_thread.join()
    found = find("socks")
    task.record_call("refund", {"usd": 1}, error="refused")
    task.record_message("assistant", "one moment")
    task.report_usage(provider="openai", model="gpt-4.1-mini", input_tokens=9, output_tokens=1)
    if task.input["id"] == "bad":
        raise ValueError("a bad order")
    calls = [{"tool": "told", "args": {"a": 1}, "result": "b"}]
    usage = {"input_tokens": 3, "output_tokens": 4, "cost_usd": 0.5}
    output = {"memory": memory, "order": order, "found": found}
    return ew.Answer(output, calls=calls, usage=usage)


async def do_everything_async(task: Any) -> Any:
    """The same in an event loop, with calls at once."""
    orders = await asyncio.gather(
        task.call_tool("shop:orders.get", {"id": "1"}),
        task.call_tool("shop:orders.get", {"id": "2"}),
    )
    task.record_message("assistant", double(len(orders)))
    if task.input["id"] == "bad":
        raise ValueError("a bad order")
    return {"orders": orders, "memory": list(task.memory)}


def attack(task: Any) -> str:
    """Do to the process what the input says, before an answer is given."""
    if task.input == "exit":
        os._exit(0)
    elif task.input == "leave":
        sys.exit(0)
    elif task.input == "crash":
        ctypes.string_at(0)
    elif task.input == "be killed":
        os.kill(os.getpid(), 9)
    elif task.input == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(600)
    elif task.input == "hold":
        re.match(r"(a+)+$", "a" * 40 + "b")
    elif task.input == "close":
        os.closerange(3, 256)
        time.sleep(600)
    elif task.input == "fork":
        os.fork()
    elif task.input == "leave a process":
        if (child := os.fork()) == 0:
            time.sleep(600)
            os._exit(0)
        return f"child {child}"
    return f"{task.input} in {os.getpid()}"


async def attack_async(task: Any) -> str:
    """The same in an event loop."""
    if task.input == "stop":
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
    return attack(task)


def noted_attack(task: Any) -> str:
    """The same, with a note of the process that it is done to."""
    from journal import note  # beside this file, where the agent is loaded from

    note(str(os.getpid()))
    return attack(task)
