"""The one function that spreads shards over processes or machines: `map_shards(fn, shards)`.

What it gives comes in the order of the shards, and of those only a few are asked for ahead, so
that memory does not grow with their number. An engine that has it fits in `ENGINES`.
"""

import contextlib
import gc
import importlib
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeVar

from evalwright.contracts.errors import BadInput, CannotEvaluate

_Shard = TypeVar("_Shard")
_Part = TypeVar("_Part")

MOST_UNASKED = 8  # processes, unless more are asked for: each needs memory of its own
MOST_ASKED = 1024
_AHEAD = 2  # shards for each process that may be done before those in front of them
_STOPS = (signal.SIGINT, signal.SIGTERM)

# Other engines by their name after --on: a module, its class, and the extra that it needs.
ENGINES = {"ray": ("evalwright.scans.ray_cluster", "RayCluster", "PATH_TO_THE_CLONE[ray]")}


class ShardEngine(Protocol):
    """Somewhere to work on shards; `shard_bytes` is how large one should be there."""

    shard_bytes: int

    def map_shards(
        self, fn: Callable[[_Shard], _Part], shards: Iterable[_Shard]
    ) -> Generator[_Part, None, None]:
        """What the function gives for each shard, in their order."""
        ...


def engine_named(on: str | None, jobs: int | None) -> ShardEngine:
    """The engine that a user asked for; without a number of jobs, one for each core, up to 8."""
    if on is None:
        processes = min(cores(), MOST_UNASKED) if jobs is None else jobs
        return LocalProcesses(1 if has_threads() else processes)
    module, name, extra = ENGINES[on]
    try:
        engine: ShardEngine = getattr(importlib.import_module(module), name)(jobs)
    except ImportError:
        raise BadInput(f"--on {on}: is not installed; pip install '{extra}'") from None
    return engine


def has_threads() -> bool:
    """Whether a fork could copy a lock that another thread holds, and wait for it for ever."""
    return threading.active_count() > 1


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalProcesses:
    """Processes of this machine, forked where that is possible: everything is loaded at once.

    One shard alone is worked on in this process.
    """

    shard_bytes = 8 << 20

    def __init__(self, processes: int) -> None:
        self.processes = processes

    def map_shards(
        self, fn: Callable[[_Shard], _Part], shards: Iterable[_Shard]
    ) -> Generator[_Part, None, None]:
        source = iter(shards)
        head = list(islice(source, 2))
        if self.processes == 1 or len(head) < 2:
            yield from map(fn, chain(head, source))
            return
        crew = _Children(fn, self.processes)
        try:
            yield from crew.map(chain(head, source))
        finally:
            crew.end()


class _Children:
    """Processes that have the same function, each with a shard in hand or none."""

    def __init__(self, fn: Callable[[Any], Any], most: int) -> None:
        self._fn = fn
        # Each child takes two of the files that this process may open.
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        held = MOST_ASKED if allowed == resource.RLIM_INFINITY else max(1, allowed // 4)
        self._most = min(most, MOST_ASKED, held)
        self._children: dict[Connection, BaseProcess] = {}
        self._busy: dict[Connection, int] = {}  # with the number of the shard

    def map(self, shards: Iterator[Any]) -> Iterator[Any]:
        done: dict[int, Any] = {}
        given = taken = 0
        source: Iterator[Any] | None = shards
        while True:
            while source and given - taken < self._most * _AHEAD and len(self._busy) < self._most:
                shard = next(source, self)
                if shard is self:
                    source = None
                    break
                idle = (each for each in self._children if each not in self._busy)
                child = next(idle, None) or self._start()
                with _alive():
                    child.send(shard)
                self._busy[child] = given
                given += 1
            if taken in done:
                yield done.pop(taken)
                taken += 1
            elif self._busy:
                done.update(self._results())
            else:
                return

    def _results(self) -> Iterator[tuple[int, Any]]:
        for child in wait(list(self._busy)):
            assert isinstance(child, Connection)
            with _alive():
                is_good, result = child.recv()
            number = self._busy.pop(child)
            if not is_good:
                raise result
            yield number, result

    def _start(self) -> Connection:
        methods = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("fork" if "fork" in methods else None)
        ours, theirs = context.Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        process: Any = context.Process
        child = process(
            target=_serve, args=(theirs, self._fn, [*self._children, ours]), daemon=True
        )
        # A signal must not find a child that does not know yet that its parent decides.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        try:
            child.start()
            self._children[ours] = child
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        return ours

    def end(self) -> None:
        """End all of them; those that are at work, at once."""
        for connection, child in self._children.items():
            connection.close()
            if connection in self._busy:
                child.terminate()
        for child in self._children.values():
            child.join()


@contextlib.contextmanager
def _alive() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError):
        message = "a process at work on it was killed; is there enough memory? See --jobs"
        raise CannotEvaluate(message) from None


def _serve(
    connection: Connection, fn: Callable[[Any], Any], not_ours: Iterable[Connection]
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    for each in not_ours:
        each.close()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    gc.freeze()  # what was there before need not be looked at after each shard
    gc.disable()
    with contextlib.suppress(EOFError, OSError):
        while True:
            connection.send(_answer(fn, connection.recv()))
            gc.collect()  # here, where almost everything is gone: memory stays flat, at no cost


def _answer(fn: Callable[[Any], Any], shard: Any) -> tuple[bool, Any]:
    try:
        return True, fn(shard)
    except Exception as error:  # noqa: BLE001 - it is raised again by the parent
        return False, error


def _end_with(parent: int) -> None:
    """End when the parent does: one that is killed cannot stop its processes."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
