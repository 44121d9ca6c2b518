"""What the rest of the house may ask of an event log, whatever keeps it."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from evalwright.contracts.events import Event


class NewEvent(NamedTuple):
    """An event on its way into the log, which gives it its sequence."""

    type: str
    task_id: str | None
    at_us: int
    body: bytes


Watcher = Callable[[Sequence[NewEvent]], None]


class EventLog(Protocol):
    """An append-only, gap-free log per run."""

    @property
    def place(self) -> str:
        """Where the log is kept, for messages."""

    @property
    def backlog(self) -> int:
        """How many appends wait to be written."""

    def append(self, run_id: str, events: Sequence[NewEvent]) -> None:
        """Queue events, in order and as one unit; raises when this run can take no more."""

    def flush(self, run_id: str) -> "Future[None]":
        """Done when everything appended so far is durable; fails if some of it never will be."""

    def watch(self, run_id: str, watcher: Watcher) -> None:
        """Call the watcher with events of this run once they are durable, in order.

        It is called by the thread that writes, so it must not wait for the log. One that raises is
        logged and not called again; the run goes on without it.
        """

    def claim(self, run_id: str) -> AbstractContextManager[None]:
        """Hold the sole right to execute a run; raises `RunBusy` when somebody does already."""

    def is_claimed(self, run_id: str) -> bool:
        """Whether somebody, here or in another process, is executing the run."""

    def run_ids(self) -> list[str]:
        """All runs, newest first."""

    def read(self, run_id: str, types: Sequence[str] = ()) -> Iterator[Event]:
        """The events of a run in order, all of them or those of some types."""

    def edges(self, run_id: str) -> list[Event]:
        """The first two and the last two events of a run: enough to list it."""

    def close(self) -> None:
        """Write what is queued and let go of the log, which can then do nothing more."""
