"""Cases shared out among processes; what they give back comes in the order of the cases."""

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice

from evalwright.comparison.matching import CasePlan, PlannedCase
from evalwright.contracts.errors import CannotEvaluate
from evalwright.reports.folder.case import Batch, CaseWriter

_IN_A_BATCH = 64
_IN_A_BATCH_HERE = 8  # nothing is gained by more, and items may be large
_WORTH_PROCESSES = 200
_MOST_PROCESSES = 4  # each holds its own detectors and templates
_WAITING_FOR_EACH = 2


def write_cases(plan: CasePlan, writer: CaseWriter) -> Generator[Batch, None, None]:
    """Write all cases, on as many cores as are worth it."""
    processes = min(_cores(), _MOST_PROCESSES)
    if plan.count < _WORTH_PROCESSES or processes == 1 or _has_threads():
        for batch in _batches(plan, _IN_A_BATCH_HERE):
            yield writer.write_batch(batch)
    else:
        yield from _write_in_processes(plan, processes, writer)


def _write_in_processes(
    planned: Iterable[PlannedCase], processes: int, writer: CaseWriter
) -> Iterator[Batch]:
    waiting: deque[Future[Batch]] = deque()
    writer.release()  # no open file or database is carried into another process
    with ProcessPoolExecutor(processes, _context(), _prepare, (writer,)) as pool:
        try:
            for batch in _batches(planned, _IN_A_BATCH):
                waiting.append(pool.submit(_write_batch, batch))
                if len(waiting) >= processes * _WAITING_FOR_EACH:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            message = "a process that wrote cases was killed; is there enough memory?"
            raise CannotEvaluate(message) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _batches(planned: Iterable[PlannedCase], size: int) -> Iterator[list[PlannedCase]]:
    source = iter(planned)
    while batch := list(islice(source, size)):
        yield batch


def _context() -> multiprocessing.context.BaseContext:
    """Forked where that is possible: it starts at once, with everything loaded."""
    methods = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if "fork" in methods else None)


def _has_threads() -> bool:
    """Whether a fork could copy a lock that another thread holds, and wait for it for ever."""
    return threading.active_count() > 1


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_writers: list[CaseWriter] = []  # of this process: one, given to it when it starts


def _prepare(writer: CaseWriter) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    gc.freeze()  # what was there before the cases need not be looked at after each batch
    gc.disable()
    _writers[:] = [writer]


def _end_with(parent: int) -> None:
    """End when the parent does: one that is killed cannot stop its processes."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _write_batch(batch: list[PlannedCase]) -> Batch:
    try:
        return _writers[0].write_batch(batch)
    finally:
        gc.collect()  # here, where almost everything is gone: memory stays flat, at hardly a cost
