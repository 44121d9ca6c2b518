"""What waits to be written, and which of it is written next: no run has to wait for all of another.

What is written together becomes durable together. Were it always all that waits, a short run would
wait for thousands of events of long ones whenever it waits for an event of its own.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from evalwright.store.protocol import NewEvent
from evalwright.store.records import Forget, RecordChange

MANY = 32  # writes; as long as no more of several runs wait, they are written together
FEW = 16  # writes of a run that go ahead of the rest
FEWEST_OF_RUN = 2

View = tuple[str | None, str]  # whose view of the log (None: the view of all), and a run


class Flush(NamedTuple):
    """Somebody who waits until what a run has appended is durable."""

    view: View
    done: "Future[None]"


class Write(NamedTuple):
    """What is written as one unit: the events of a run, documents, or both."""

    run_id: str | None
    events: Sequence[NewEvent]
    changes: Sequence[RecordChange | Forget]
    tenant: str | None = None
    is_request: bool = False  # somebody waits for it, and can ask again
    done: "Future[None] | None" = None


def fair_part(waiting: list[Write], *, few_first: bool) -> tuple[list[Write], list[Write]]:
    """What is written next, and what has to wait: of many writes, as many of each run.

    With `few_first` only those of runs that have few, if there are any. Those of a run stay in
    order, and so do those of documents alone, which never wait.
    """
    if len(waiting) <= MANY:
        return waiting, []
    runs = Counter(write.run_id for write in waiting if write.run_id is not None)
    if len(runs) < 2:
        return waiting, []
    most = max(FEWEST_OF_RUN, MANY // len(runs))
    allowed = {run_id: count if count <= FEW else 0 for run_id, count in runs.items()}
    if not few_first or not any(allowed.values()):
        allowed = dict.fromkeys(runs, most)
    return _split(waiting, allowed)


def _split(waiting: list[Write], allowed: dict[str, int]) -> tuple[list[Write], list[Write]]:
    """So many of each run, and the rest."""
    now: list[Write] = []
    later: list[Write] = []
    for write in waiting:
        left = 1 if write.run_id is None else allowed[write.run_id]
        if left and write.run_id is not None:
            allowed[write.run_id] = left - 1
        (now if left else later).append(write)
    return now, later


def due_flushes(flushes: list[Flush], later: list[Write]) -> tuple[list[Flush], list[Flush]]:
    """The flushes that what is written next settles, and those that wait for what comes later."""
    if not later:
        return flushes, []
    late = {write.run_id for write in later}
    due = [flush for flush in flushes if flush.view[1] not in late]
    return due, [flush for flush in flushes if flush.view[1] in late]
