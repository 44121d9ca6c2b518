"""How much CPU time a piece of work takes, without what other tests have left behind.

A test's process holds the objects of thousands of other tests: one collection of them can take
longer than the work in question, and writing a file costs what the machine's other users leave.
So garbage is not collected meanwhile, and a limit is missed only when three tries in a row miss
it.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TRIES = 3


@contextmanager
def _without_collecting() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def cpu_seconds(work: Callable[[], object]) -> float:
    with _without_collecting():
        start = time.process_time()
        work()
        return time.process_time() - start


def takes_at_most(limit: float, work: Callable[[], object]) -> bool:
    return any(cpu_seconds(work) < limit for _ in range(TRIES))


def grows_at_most(
    factor: float, work: Callable[[int], object], small: int, large: int, floor: float
) -> bool:
    """Whether `work(large)` costs at most `factor` times `work(small)`.

    Below `floor` seconds nothing can be told from noise."""
    return any(_grows(factor, work, small, large, floor) for _ in range(TRIES))


def _grows(
    factor: float, work: Callable[[int], object], small: int, large: int, floor: float
) -> bool:
    """Both are measured anew: others may have begun to compete for the same caches."""
    shortest = min(cpu_seconds(lambda: work(small)) for _ in range(TRIES))
    return cpu_seconds(lambda: work(large)) < max(floor, factor * shortest)
