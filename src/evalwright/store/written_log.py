"""What every event log does through its writer, whichever database it is kept in."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from evalwright.contracts.events import Event
from evalwright.store.protocol import NewEvent, Observer, Watcher
from evalwright.store.records import TRIAL, RecordChange
from evalwright.store.writer import Writer
from evalwright.store.writes import Write

if TYPE_CHECKING:
    from evalwright.store.readers import LogReading


class LogDatabase(Protocol):
    """The database of a log, shared by the views of all its tenants."""

    @property
    def writer(self) -> Writer: ...

    @property
    def reading(self) -> "LogReading": ...

    @property
    def backlog(self) -> int: ...

    def close(self) -> None: ...


Kept = TypeVar("Kept", bound=LogDatabase)


class WrittenLog(Generic[Kept]):
    """An event log as one tenant sees it, as far as its writer does the work."""

    def __init__(self, database: Kept, tenant: str | None) -> None:
        self._database = database
        self._tenant = tenant

    @property
    def backlog(self) -> int:
        return self._database.backlog

    def append(
        self, run_id: str, events: Sequence[NewEvent], changes: Sequence[RecordChange] = ()
    ) -> None:
        self._database.writer.append(run_id, events, changes, self._tenant)

    @property
    def fault(self) -> str | None:
        outage = self._database.writer.outage
        return outage.error.reason if outage else None

    def try_out(self) -> "Future[None]":
        return self._database.writer.submit(Write(None, (), [TRIAL], None, True))

    def request(
        self, run_id: str, events: Sequence[NewEvent], changes: Sequence[RecordChange] = ()
    ) -> "Future[None]":
        return self._database.writer.submit(Write(run_id, events, changes, self._tenant, True))

    def flush(self, run_id: str) -> "Future[None]":
        return self._database.writer.flush(run_id, self._tenant)

    def watch(self, run_id: str, watcher: Watcher) -> None:
        self._database.writer.watch(run_id, watcher, self._tenant)

    def observe(self, observer: Observer) -> None:
        self._database.writer.observe(observer, self._tenant)

    def clear_failure(self, run_id: str) -> None:
        self._database.writer.clear_failure(run_id, self._tenant)

    def known_edges(self, run_id: str) -> list[Event] | None:
        return self._database.reading.ended_runs.get(self._tenant, run_id)

    def close(self) -> None:
        self._database.close()
