"""One run in the hands of the host: its part of the log, whose it is, and its status."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar, get_args

from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.events import EvalStarted, Event
from evalwright.host.access.keys import tenant_of
from evalwright.host.http.errors import ApiError
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import RecordChange

T = TypeVar("T")

OpenStatus = Literal["running", "paused", "waiting-approval"]
EndStatus = Literal["completed", "failed", "cancelled"]
Status = OpenStatus | Literal["cancelling"] | EndStatus

ENDED: tuple[EndStatus, ...] = get_args(EndStatus)


class ExecutedElsewhere(ApiError):
    """Another process executes the run."""

    def __init__(self) -> None:
        message = "the run is being executed by another process"
        super().__init__(409, "conflict", message, {"runStatus": "running"})


class RunHandle(NamedTuple):
    """A run of a tenant, whether it exists yet or not."""

    log: EventLog  # the tenant's partition of it: a run of anybody else is not found
    partition: str
    run_id: str

    @classmethod
    def find(cls, log: EventLog, partition: str, run_id: str) -> "RunHandle":
        """A run in a partition of the host's log."""
        return cls(log.for_tenant(partition), partition, run_id)

    @property
    def tenant(self) -> str:
        """The tenant that the run belongs to."""
        return tenant_of(self.partition)

    def edges(self) -> list[Event]:
        """The first and last events; raises `RunNotFound`, also for a run without events."""
        edges = self.log.edges(self.run_id)
        if not edges:
            raise RunNotFound(f"no such run: {self.run_id}")
        return edges

    async def read_edges(self) -> list[Event]:
        """The edges, on the event loop, which must not wait for the disk."""
        known = self.log.known_edges(self.run_id)
        return known if known is not None else await self.in_reader(self.edges)

    async def in_reader(self, read: Callable[[], T]) -> T:
        """Read the log on another thread; reads of one tenant wait for each other."""
        return await asyncio.wrap_future(self.log.in_reader(self.tenant, read))

    def open_status(self) -> OpenStatus:
        """The status of a run that has not ended: the last event that changed it decides."""
        facts = self.log.facts(self.run_id)
        status: OpenStatus = facts.status  # type: ignore[assignment]
        return status if facts.ended_us is None else "running"

    async def append(
        self, events: Sequence[NewEvent], changes: Sequence[RecordChange] = ()
    ) -> None:
        """Append events and write records as one unit, and wait until they are durable.

        Raises `StoreUnavailable` if the store fails for long: then nothing is written later either.
        """
        await asyncio.wrap_future(self.log.request(self.run_id, events, changes))

    async def keep(self, event: NewEvent) -> None:
        """Append an event, and wait until it is durable, however long the store fails."""
        self.log.append(self.run_id, [event])
        await asyncio.wrap_future(self.log.flush(self.run_id))


def is_evaluation(edges: Sequence[Event]) -> bool:
    """Whether a run evaluates a suite."""
    return len(edges) > 1 and edges[1].type == EvalStarted.TYPE
