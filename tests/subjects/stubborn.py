"""Agents that do not stop when they are asked to, or leave the process other than it was."""

import asyncio
import atexit
import ctypes
import io
import itertools
import os
import re
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from journal import note
from waiting import TIME_LIMIT_S, let_time_pass

_answered: list[str] = []


async def _let_time_pass_after_the_others() -> None:
    """If a test wants it: limits of `TIME_LIMIT_S` are reached when another task has an answer."""
    if "TIME_PASSES" in os.environ:
        while not _answered:  # noqa: ASYNC110 - other tasks of this loop
            await asyncio.sleep(0)
        let_time_pass(2 * TIME_LIMIT_S)


async def swallow_every_cancellation(task: Any) -> str:
    """Go on whatever is said."""
    note(task.id)
    if task.input == "wait":
        await _let_time_pass_after_the_others()
    while task.input == "wait":
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            note("asked to stop")
    _answered.append(task.id)
    return "yes"


def call_tools_for_ever(task: Any) -> str:
    """Never rest; noted once it is well under way."""
    for count in itertools.count():
        task.call_tool("shop:orders.get")
        if count == 5000:
            note(task.id)


def exit_at_once(task: Any) -> str:
    """End the process without a word; a forked child may, as it must."""
    child = os.fork()
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    if task.id == "task-1":
        os._exit(0)
    return "yes"


async def exit_in_a_child(task: Any) -> str:
    """End the process from a task of its own, as an agent that wraps a command line might."""

    async def child() -> None:
        raise SystemExit(0)

    if task.id == "task-1":
        await asyncio.create_task(child())
    return "yes"


async def hang_in_a_thread_of_the_loop(task: Any) -> str:
    """Wrap a blocking call as asyncio offers it; the call never returns."""
    if task.input == "wait":
        await _let_time_pass_after_the_others()
        await asyncio.to_thread(threading.Event().wait)
    _answered.append(task.id)
    return "yes"


def hang_in_a_pool(task: Any) -> str:
    """Wrap a blocking call in a pool, whose threads Python waits for when it ends."""
    if task.input == "wait":
        pool = ThreadPoolExecutor(1)
        pool.submit(threading.Event().wait)
    return "yes"


def exit_at_the_end(task: Any) -> str:
    """Leave an exit handler behind that ends the process with a code of its own."""
    atexit.register(lambda: os._exit(0))
    return "no"


def replace_exit(task: Any) -> str:
    """Put other functions in the place of those that end the process."""
    sys.exit = os._exit = lambda *_: None  # type: ignore[assignment]
    return "no"


def be_another_program(task: Any) -> str:
    """Replace the process by a program that says that all is well."""
    if task.id == "task-1":
        os.execv("/bin/true", ["true"])
    return "no"


def close_streams(task: Any) -> str:
    """Close what the run writes to."""
    sys.stdout.close()
    sys.stderr.close()
    os.closerange(0, 3)
    return "no"


def close_descriptors(task: Any) -> str:
    """Close what belongs to the log and to the event loop, as daemons do when they start."""
    os.closerange(3, 256)
    return "no"


async def cancel_everything(task: Any) -> str:
    """Cancel every task there is, as programs do when they stop."""
    for each in asyncio.all_tasks():
        each.cancel()
    await asyncio.sleep(0)
    return "no"


def break_the_clock(task: Any) -> str:
    """Leave a clock behind that nobody can read."""
    time.monotonic = lambda: 1 / 0  # type: ignore[assignment]
    return "no"


async def stop_the_loop(task: Any) -> str:
    """Stop the loop that the run is in."""
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    return "no"


def come_back_twice(task: Any) -> str:
    """Fork, and return in both processes."""
    note(f"{task.id} {'copy' if os.fork() == 0 else 'run'}")
    return "no"


async def go_on_twice(task: Any) -> str:
    """Fork in the event loop, and go on in both processes."""
    is_copy = os.fork() == 0
    await asyncio.sleep(0)
    note(f"{task.id} {'copy' if is_copy else 'run'}")
    return "no"


def go_elsewhere(task: Any) -> str:
    """Change the folder of the whole process."""
    os.chdir(tempfile.gettempdir())
    return "yes"


def take_stdout(task: Any) -> str:
    """Replace stdout, as capturing from several threads at once leaves it."""
    sys.stdout = io.StringIO()
    return "yes"


def hold_the_interpreter(task: Any) -> str:
    """Call into C, which never ends and lets nobody else have the interpreter."""
    if task.input == "wait":
        note(task.id)
        re.match(r"(a+)+$", "a" * 40 + "b")
    return "yes"


async def hold_the_loop(task: Any) -> str:
    """The same in the event loop."""
    return hold_the_interpreter(task)


def wait_in_c(task: Any) -> str:
    """The same without work: wait in C for a lock that nobody opens, and keep the interpreter."""
    if task.input == "wait":
        c, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
        journal = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_CREAT)
        sys.setswitchinterval(TIME_LIMIT_S)  # from here on nobody else has the interpreter
        c.write(journal, f"{task.id}\n".encode(), len(task.id) + 1)
        c.pthread_mutex_lock(mutex), c.pthread_mutex_lock(mutex)
    return "yes"


async def wait_in_c_in_the_loop(task: Any) -> str:
    """The same in the event loop."""
    return wait_in_c(task)


async def block_the_loop(task: Any) -> str:
    """Let others have the interpreter, but not the loop."""
    if task.input == "wait":
        note(task.id)
        time.sleep(600)  # noqa: ASYNC251 - that is what it does
    return "yes"
