"""What waits to be written, and which of it is written next: no run has to wait for all of another.

What is written together becomes durable together. Were it always all that waits, a short run would
wait for thousands of events of long ones whenever it waits for an event of its own.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from evalwright.store.protocol import NewEvent
from evalwright.store.records import Execute, Forget, RecordChange

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
    changes: Sequence[RecordChange | Forget | Execute]
    tenant: str | None = None
    is_request: bool = False  # somebody waits for it, and can ask again
    done: "Future[None] | None" = None


@dataclass
class WaitingWrites:
    """Writes in the order in which they came, and which of them are next."""

    count: int = 0
    in_hand: int = 0  # taken, and neither settled nor put back
    _runs: dict[str | None, deque[tuple[int, Write]]] = field(default_factory=dict)  # numbered
    _last: int = 0  # number; those that are put back get lower numbers again
    _first: int = 0
    _were_few: bool = False  # those taken last, of runs that have few

    def __contains__(self, run_id: str | None) -> bool:
        return run_id in self._runs

    def add(self, write: Write) -> None:
        self._last += 1
        self.count += 1
        queue = self._runs.get(write.run_id)
        if queue is None:
            queue = self._runs[write.run_id] = deque()
        queue.append((self._last, write))

    def put_back(self, writes: Sequence[Write]) -> None:
        """Add writes that were removed and are to be written again, before all others."""
        for write in reversed(writes):
            self._first -= 1
            self.count += 1
            self._runs.setdefault(write.run_id, deque()).appendleft((self._first, write))
        self.in_hand = 0

    def next_batch(self) -> list[Write]:
        """Remove and return those that are written next: of many, as many of each run.

        Every second time only those of runs that have few, if there are any. Those of a run stay in
        order, and so do those of documents alone, which never wait.
        """
        runs = len(self._runs) - (None in self._runs)
        if self.count > MANY and runs > 1:
            few = {name: FEW for name, queue in self._runs.items() if name and len(queue) <= FEW}
            self._were_few = bool(few) and not self._were_few
            most = max(FEWEST_OF_RUN, MANY // runs)
            allowed = dict[str | None, int](
                few if self._were_few else dict.fromkeys(self._runs, most)
            )
            taken: list[tuple[int, Write]] = []
            for run_id, count in (allowed | {None: self.count}).items():
                queue = self._runs.pop(run_id, None) or deque()
                taken += [queue.popleft() for _ in range(min(count, len(queue)))]
                if queue:
                    self._runs[run_id] = queue
        else:
            taken = [*chain.from_iterable(self._runs.values())]
            self._runs = {}
            self._were_few = False
        self.in_hand = len(taken)
        self.count -= len(taken)
        taken.sort(key=itemgetter(0))
        return [write for _, write in taken]


def due_flushes(flushes: list[Flush], waiting: WaitingWrites) -> tuple[list[Flush], list[Flush]]:
    """The flushes that what is written next settles, and those that wait for what comes later."""
    due = [flush for flush in flushes if flush.view[1] not in waiting]
    return due, [flush for flush in flushes if flush.view[1] in waiting]
