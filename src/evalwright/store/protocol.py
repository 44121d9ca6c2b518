"""What other packages may ask of an event log, whatever stores it."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from evalwright.contracts.events import Event
from evalwright.store.records import RecordChange, Records

if TYPE_CHECKING:
    from evalwright.store.upkeep import Upkeep

T = TypeVar("T")


class NewEvent(NamedTuple):
    """An event on its way into the log, which gives it its sequence."""

    type: str
    task_id: str | None
    at_us: int
    body: bytes


class RunFacts(NamedTuple):
    """A few facts of a run; `status` is that of the log, which does not know who executes it."""

    run_id: str
    tenant: str
    started_us: int
    ended_us: int | None
    status: str
    workflow: str
    suite: str | None  # suiteId@version
    agent: str | None
    tags: list[str]
    modes: list[str]
    score: float | None
    passed: bool | None
    repeats: str | None  # the id of the repeats that the run is one of
    resumed_from: str | None
    events: int
    bytes: int
    number: int = 0  # in its log: short, and never given to another run


class RunFilter(NamedTuple):
    """Which runs are asked for: those that agree with everything that is not None."""

    status: str | None = None
    suite: str | None = None
    agent: str | None = None
    tag: str | None = None
    repeats: str | None = None
    resumed_from: str | None = None
    beginning: str | None = None  # of the run id
    number: int | None = None
    has_ended: bool | None = None
    is_evaluation: bool | None = None


ALL_RUNS = RunFilter()

Watcher = Callable[[Sequence[NewEvent]], None]
Observer = Callable[[str, int, Sequence[NewEvent]], None]  # run, first sequence, events
News = Callable[[Sequence[str] | None], None]  # runs; None: perhaps any, as some was missed


class EventSink(Protocol):
    """Where the events of a run go while it is executed."""

    @property
    def backlog(self) -> int:
        """How many appends are not written yet, whether they wait or are being tried."""

    def append(
        self, run_id: str, events: Sequence[NewEvent], changes: Sequence[RecordChange] = ()
    ) -> None:
        """Queue events, in order and as one unit with changes of documents.

        Raises when this run can take no more.
        """

    def note(self, run_id: str, events: Sequence[NewEvent]) -> None:
        """Queue events like `append`, and keep them where the end of this process leaves them.

        Whoever claims the run next has those in the log that were not durable. Not every place can
        keep them, and none keeps them for long without a power supply.
        """

    def request(
        self, run_id: str, events: Sequence[NewEvent], changes: Sequence[RecordChange] = ()
    ) -> "Future[None]":
        """Write events like `append`, but soon or not at all; done when they are durable.

        Fails with `StoreUnavailable`, or raises it, if the place fails for long: nothing of it is
        written later, and the run can take other events.
        """

    def flush(self, run_id: str) -> "Future[None]":
        """Done when everything appended so far is durable; fails if some of it never will be."""


class EventLog(EventSink, Protocol):
    """An append-only, gap-free log per run."""

    @property
    def place(self) -> str: ...

    @property
    def address(self) -> str:
        """What opens the log again; it may hold a password, so it is not shown."""

    @property
    def records(self) -> Records: ...

    @property
    def upkeep(self) -> "Upkeep":
        """What else can be asked of the log, and done to it."""

    def for_tenant(self, tenant: str) -> "EventLog":
        """The same log, restricted to the runs of one tenant."""

    @property
    def fault(self) -> str | None:
        """Why writes fail and are tried again, while they do."""

    def try_out(self) -> "Future[None]":
        """Done when something has been written; fails with `StoreUnavailable`, or raises it."""

    def watch(self, run_id: str, watcher: Watcher) -> None:
        """Call the watcher with events of this run once they are durable, in order.

        It is called by the thread that writes, so it must not wait for the log. One that raises is
        logged and not called again; the run goes on without it.
        """

    def observe(self, observer: Observer) -> None:
        """Call the observer, like a watcher, with the events of every run in this view."""

    def subscribe(self, news: News) -> None:
        """Call with the runs that other processes have appended to, once that is durable.

        It is called by a thread of the log, and may be called once for many appends. A log in a
        file hears nothing of others.
        """

    def publish(self, run_ids: Sequence[str]) -> None:
        """Let other processes hear of runs of which they are to look at something else."""

    def claim(self, run_id: str) -> AbstractContextManager[None]:
        """Hold the sole right to execute a run; raises `RunBusy` if it is held already."""

    def clear_failure(self, run_id: str) -> None:
        """Let a run that lost events take others: it is executed anew, from what is in the log."""

    def is_claimed(self, run_id: str) -> bool:
        """Whether this process or another one is executing the run."""

    def run_ids(self, limit: int | None = None, before: str | None = None) -> list[str]:
        """Runs, newest first: all, or at most `limit` older than `before`."""

    def find_runs(
        self, wanted: RunFilter = ALL_RUNS, limit: int | None = None, before: str | None = None
    ) -> list[RunFacts]:
        """The facts of runs, newest first: at most `limit`, older than `before`.

        An index finds them; the events of runs are not read.
        """

    def facts(self, run_id: str) -> RunFacts:
        """The facts of one run; raises `RunNotFound`, also for a run without events."""

    def read(
        self, run_id: str, types: Sequence[str] = (), after: int = -1, limit: int | None = None
    ) -> Iterator[Event]:
        """The events of a run in order: of these types, after a sequence, at most `limit`."""

    def verify(self, run_id: str) -> None:
        """Raise `DamagedEventLog` unless all events of a run are those that were written."""

    def edges(self, run_id: str) -> list[Event]:
        """The first two and the last two events of a run: enough to list it."""

    def known_edges(self, run_id: str) -> list[Event] | None:
        """The edges of a run that has ended, if they are known without reading the log."""

    def in_reader(self, share: str, read: Callable[[], T]) -> "Future[T]":
        """Read on a thread of the log, for a caller that must not wait for the disk.

        Each share gets a few threads at most, and the shares take turns.
        """

    def close(self) -> None: ...
