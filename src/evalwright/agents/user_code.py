"""A user's Python code: its file is loaded here, and its sync functions run in threads.

A round trip to a thread costs a fraction of `run_in_executor`. A call that outlives its timeout
keeps its thread, which cannot be stopped; another takes its place. Threads are daemons, so a stuck
agent never keeps the process alive.
"""

import asyncio
import functools
import importlib.util
import inspect
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

COPY_ENDED = b"evalwright: a process that the agent's code forked came back, and was ended\n"
_MOST_NAMED = 5  # functions of a file
PROVEN = 64  # calls in a row that were instant: so are the next ones
INSTANT_S = 0.0001
PATIENCE_S = 0.001  # with calls that were taken for instant


def load_code(path: Path) -> Any:
    """The module in a file, with the modules beside it; exceptions of its code are not caught."""
    directory, process = str(path.resolve().parent), os.getpid()
    if directory not in sys.path:
        sys.path.insert(0, directory)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    end_copy(process)
    return module


def end_copy(process: int) -> None:
    """End a process that code of users has forked and let return, rather than run all twice."""
    if os.getpid() != process:
        with suppress(OSError):
            os.write(2, COPY_ENDED)
        os._exit(1)


def end_copies_of(loop: asyncio.AbstractEventLoop) -> None:
    """Let a fork that returns into a copy of the loop end there, before anything else is done."""
    if (ready := getattr(loop, "_ready", None)) is not None:
        ready.clear()
    loop.call_soon(end_copy, 0)


def unnamed_function(ref: str) -> str | None:
    """What to write in place of a file of code without a function; None if it names no such file.

    The code is read and not run.
    """
    import ast  # only where something is wrong

    name = ref.removesuffix(":")
    path = Path(name if name.endswith(".py") else f"{name.replace('.', '/')}.py")
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return None
    defined = (each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    names = [each.name for each in defined if not each.name.startswith("_")]
    if not names:
        return f"name a function in it as {name}:NAME; it has none yet"
    return f"name the function: {' or '.join(f'{name}:{each}' for each in names[:_MOST_NAMED])}"


def named_part(function: Callable[..., Any]) -> Any:
    """What of a callable has a name: the function itself, that in a partial, or a class."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__qualname__") else type(function)


def file_of(function: Callable[..., Any]) -> Path | None:
    """The file that a callable is written in, if it is in one: from the working folder."""
    try:
        file = Path(inspect.getsourcefile(inspect.unwrap(named_part(function))) or "")
    except (TypeError, OSError):  # of one that is not written in Python, or in a notebook
        return None
    if file.suffix != ".py" or not file.is_file():
        return None
    here = Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file


class _Job(NamedTuple):
    function: Callable[[Any], Any]
    argument: Any
    answer: "asyncio.Future[Any]"


class _FinishedJob(NamedTuple):
    answer: "asyncio.Future[Any]"
    value: Any
    error: Exception | None


class Threads:
    """Runs blocking calls on as many threads as there are calls at once.

    Once calls have proved to be instant, one thread makes all that one turn of the event loop asks
    for: waking threads took longer than the calls. A call that is not instant after all keeps the
    others waiting for a moment only, and from then on each is handed to its own thread again.
    """

    def __init__(self) -> None:
        self._batches: SimpleQueue[deque[_Job] | None] = SimpleQueue()
        self._gathered: deque[_Job] = deque()  # in this turn of the loop
        self._results: deque[_FinishedJob] = deque()
        self._started = 0
        self._unfinished = 0
        self._instant = 0  # calls in a row
        self._delivery_due = False

    async def run(self, function: Callable[[Any], Any], argument: Any) -> Any:
        return await self.start(function, argument)

    def start(self, function: Callable[[Any], Any], argument: Any) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._unfinished += 1
        job = _Job(function, argument, answer)
        if self._instant < PROVEN:
            self._batches.put(deque((job,)))
            if self._started < self._unfinished:
                self._started += 1
                threading.Thread(target=self._work, args=(loop,), daemon=True).start()
        else:
            self._gathered.append(job)
            if len(self._gathered) == 1:
                loop.call_soon(self._hand_over, loop)
        return answer

    def close(self) -> None:
        for _ in range(self._started):
            self._batches.put(None)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._gathered = self._gathered, deque()
        self._batches.put(batch)
        loop.call_later(PATIENCE_S, self._spread, loop, batch)

    def _spread(self, loop: asyncio.AbstractEventLoop, batch: "deque[_Job]") -> None:
        """Take what a thread has not begun away from it: it does not end in time."""
        self._deliver()
        if batch:
            self._instant = 0
            while batch:
                with suppress(IndexError):  # the thread has taken it
                    self._batches.put(deque([batch.popleft()]))
            while self._started < self._unfinished:
                self._started += 1
                threading.Thread(target=self._work, args=(loop,), daemon=True).start()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        process = os.getpid()
        while (batch := self._batches.get()) is not None:
            began, count = time.perf_counter(), 0
            while batch:
                try:
                    job = batch.popleft()
                except IndexError:  # it was taken away
                    break
                try:  # what was cancelled meanwhile may cost, and nobody wants it
                    value = None if job.answer.cancelled() else job.function(job.argument)
                    result = _FinishedJob(job.answer, value, None)
                except Exception as error:  # noqa: BLE001 - handed to whoever waits
                    result = _FinishedJob(job.answer, None, error)
                end_copy(process)
                self._results.append(result)
                count += 1
            is_instant = time.perf_counter() - began < INSTANT_S * count
            self._instant = self._instant + count if is_instant else 0
            if not self._delivery_due:  # checked after the results, cleared before the delivery
                self._delivery_due = True
                try:
                    loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:  # the loop has ended; nobody waits any more
                    return

    def _deliver(self) -> None:
        self._delivery_due = False
        while self._results:
            answer, value, error = self._results.popleft()
            self._unfinished -= 1
            if answer.done():
                continue
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)
