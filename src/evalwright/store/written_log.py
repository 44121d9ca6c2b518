"""What every event log does through its writer, whichever database it is kept in."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from evalwright.contracts.errors import LogConflict, RunNotFound, StoreError
from evalwright.contracts.events import Event
from evalwright.store.protocol import NewEvent, Observer, Watcher
from evalwright.store.records import TRIAL, RecordChange
from evalwright.store.writer import Writer
from evalwright.store.writes import Write

if TYPE_CHECKING:
    from evalwright.store.readers import LogReading
    from evalwright.store.upkeep import Upkeep

MOST_REMEMBERED = 10_000  # runs whose numbers are not looked up again


class LogDatabase(ABC):
    """The database of a log, shared by the views of all its tenants."""

    place: str
    reading: "LogReading"

    def __init__(self) -> None:
        self.run_numbers: dict[tuple[str | None, str], int] = {}  # by tenant and run id
        self._writer: Writer | None = None
        self._is_closed = False
        self._change = threading.Lock()  # guards the two above

    @property
    def writer(self) -> Writer:
        """The thread that writes; started when it is first needed."""
        if self._writer is None:
            with self._change:
                self.refuse_closed()
                if self._writer is None:  # another thread may have started it meanwhile
                    self._writer = self.start_writer()
        return self._writer

    @property
    def backlog(self) -> int:
        waiting = self._writer.waiting if self._writer else None
        return waiting.count + waiting.in_hand if waiting else 0

    def remember(self, view: tuple[str | None, str], number: int) -> None:
        """Remember the number of a run as a tenant sees it; it never changes."""
        if len(self.run_numbers) >= MOST_REMEMBERED:
            self.run_numbers.clear()
        self.run_numbers[view] = number

    def refuse_closed(self) -> None:
        if self._is_closed:
            raise StoreError(f"{self.place}: the event log is closed")

    @abstractmethod
    def start_writer(self) -> Writer: ...

    def close(self) -> None:
        with self._change:
            self._is_closed = True
        if self._writer:
            self._writer.close()


Kept = TypeVar("Kept", bound=LogDatabase)


class WrittenLog(ABC, Generic[Kept]):
    """An event log as one tenant sees it, as far as its writer does the work."""

    def __init__(self, database: Kept, tenant: str | None) -> None:
        self._database = database
        self._tenant = tenant
        self.place = database.place

    @property
    @abstractmethod
    def upkeep(self) -> "Upkeep": ...

    @abstractmethod
    def find_number(self, run_id: str) -> int | None:
        """The number of a run within the tenant, looked up in the database."""

    @abstractmethod
    def rows_of_edges(self, run_id: str) -> list[Any]:
        """The first two and the last two events; raises `RunNotFound`."""

    @abstractmethod
    def events_of_rows(
        self, run_id: str, rows: Sequence[Any], *, is_checked: bool = True
    ) -> Iterator[Event]: ...

    def number(self, run_id: str) -> int:
        """The number of a run, which never changes; raises `RunNotFound`."""
        number = self.known_number(run_id)
        if number is None:
            raise self.not_found(run_id)
        return number

    def known_number(self, run_id: str) -> int | None:
        number = self._database.run_numbers.get((self._tenant, run_id))
        if number is None and (number := self.find_number(run_id)) is not None:
            self._database.remember((self._tenant, run_id), number)
        return number

    def entered_number(self, run_id: str) -> int:
        """The number of a run, which is entered unless it is there."""
        number = self.known_number(run_id)  # reading is cheap, and writing may have to wait
        if number is None:
            with suppress(LogConflict):  # for whom it belongs to another, it is not there
                self.append(run_id, ())
                self.flush(run_id).result()
            number = self.number(run_id)
        return number

    def not_found(self, run_id: str) -> RunNotFound:
        self.upkeep.refuse_pruned(run_id)
        return RunNotFound(f"there is no run {run_id} in {self.place}; see `evalwright runs`")

    def edges(self, run_id: str) -> list[Event]:
        """The first two and the last two events of a run: lists show damaged ones all the same."""
        known = self.known_edges(run_id)
        if known is not None:
            return known
        edges = list(self.events_of_rows(run_id, self.rows_of_edges(run_id), is_checked=False))
        self._database.reading.ended_runs.put(self._tenant, run_id, edges)
        return edges

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
