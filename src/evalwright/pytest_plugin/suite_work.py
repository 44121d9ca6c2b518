"""Working on tasks in this process, one at a time, and handing over what they recorded."""

import asyncio
import hashlib
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from evalwright.cli.evaluation import prepare
from evalwright.contracts.errors import RunFailed
from evalwright.contracts.events import Event, ProviderUsage
from evalwright.contracts.messages import IN_LOGS
from evalwright.engine.clock import SystemClock, run_id_at
from evalwright.engine.history import History
from evalwright.engine.session import Session
from evalwright.engine.single_task import SingleTasks
from evalwright.engine.suites.loader import SuiteSubject
from evalwright.engine.workers import GRACE_SECONDS
from evalwright.pytest_plugin.asked import SessionOptions, spoken
from evalwright.store.protocol import NewEvent

T = TypeVar("T")
Row = tuple[str, str | None, int, str]  # an event as pytest can send it to another process
SPACED_US = 1000  # between the ids of runs that begin together, so that they sort


def rows_of(events: Sequence[NewEvent]) -> list[Row]:
    """Events as plain values."""
    return [(each.type, each.task_id, each.at_us, each.body.decode()) for each in events]


def events_of(rows: Sequence[Row]) -> list[NewEvent]:
    """The events that were made plain."""
    return [NewEvent(kind, task_id, at_us, body.encode()) for kind, task_id, at_us, body in rows]


class Begun(NamedTuple):
    """When a session began, and what only this session has: all its processes know it."""

    now_us: int
    token: str
    ledger: str | None = None  # the file in which processes that share a budget note their spending

    def run_id(self, name: str, repeat: int) -> str:
        """The id of the run of a suite, the same in every process of the session."""
        made_from = f"{self.token}\n{name}\n{repeat}".encode()
        return run_id_at(self.now_us + repeat * SPACED_US, hashlib.sha256(made_from).digest()[:10])


class Ledger:
    """What several processes of a session have spent, in a file that all of them add to."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._own: set[bytes] = set()
        self._read_to = 0

    def note(self, run_id: str, events: Sequence[NewEvent]) -> None:
        """Add the model calls among these events."""
        lines = [
            msgspec.json.encode((run_id, each.task_id, msgspec.Raw(each.body)))
            for each in events
            if each.type == ProviderUsage.TYPE
        ]
        self._own.update(lines)
        with self._path.open("ab", buffering=0) as file:
            file.write(b"".join(line + b"\n" for line in lines))

    def of_others(self) -> Iterator[tuple[str, str, ProviderUsage]]:
        """The model calls that others have noted since this was last asked: run, task and usage."""
        with self._path.open("rb") as file:
            file.seek(self._read_to)
            lines = file.read()
        complete = lines[: lines.rfind(b"\n") + 1]
        self._read_to += len(complete)
        for line in complete.splitlines():
            if line not in self._own:
                yield msgspec.json.decode(line, type=tuple[str, str, ProviderUsage])


class Loop:
    """The event loop in which this process works; it ends with the session.

    Where another one is running already, as in a notebook, it has a thread of its own.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = ThreadPoolExecutor(1) if asyncio._get_running_loop() else None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end; an interrupt cancels the work."""
        if self._thread is not None:
            return self._thread.submit(self._run, work).result()
        return self._run(work)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        task = self._loop.create_task(work)
        try:
            return self._loop.run_until_complete(task)
        except KeyboardInterrupt:
            task.cancel()
            self._loop.run_until_complete(asyncio.wait([task], timeout=GRACE_SECONDS))
            raise

    def close(self) -> None:
        """Cancel what is left."""
        if self._thread is not None:
            self._thread.submit(self._close).result()
            self._thread.shutdown()
        else:
            self._close()

    def _close(self) -> None:
        rest = asyncio.all_tasks(self._loop)
        for each in rest:
            each.cancel()
        if rest:
            self._loop.run_until_complete(asyncio.wait(rest, timeout=GRACE_SECONDS))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class WorkedTask(NamedTuple):
    """What became of a task in every run of its suite: several where runs are repeated."""

    runs: list[list[Event]]
    failure: RunFailed | None


class SuiteWork:
    """A suite at work: its agent, and a run for each repeat."""

    def __init__(
        self, asked: SessionOptions, subject: SuiteSubject, path: Path, begun: Begun, loop: Loop
    ) -> None:
        self.name = path.as_posix()
        self.notices = list(map(spoken, subject.notices))
        self._loop = loop
        request = msgspec.structs.replace(asked, suite=path)
        self._session, plans = prepare(
            request,
            subject,
            among_others=True,
            notify=lambda told: self.notices.append(spoken(told)),
        )
        self._run_ids = [begun.run_id(self.name, number) for number in range(len(plans))]
        self._ledger = Ledger(begun.ledger) if begun.ledger else None
        self._indexes = {task.task_id: n for n, task in enumerate(subject.suite.tasks)}
        try:
            self._runs = loop.run(self._begin(self._session, plans))
        except BaseException:
            loop.run(self._session.close())
            raise
        self.suite = plans[0].suite
        self._opening: list[tuple[str, list[Row]]] | None = [
            (run_id, rows_of(run.opening_events()))
            for run_id, run in zip(self._run_ids, self._runs, strict=True)
        ]

    async def _begin(self, session: Session, plans: Sequence[Any]) -> list[SingleTasks]:
        resources, now_us = await session.begin(plans[0]), SystemClock().now_us()
        return [
            SingleTasks(session.agent, History(run_id, plan, now_us), resources)
            for plan, run_id in zip(plans, self._run_ids, strict=True)
        ]

    def work_on(self, task_id: str) -> tuple[WorkedTask, dict[str, Any]]:
        """Work on a task; what became of it, for this process and for the one with the log."""
        index, failure = self._indexes[task_id], None
        self._count_elsewhere()
        try:
            for run in self._runs:
                self._loop.run(run.score(index))
        except RunFailed as failed:
            failure = failed
        recorded = [run.recorded() for run in self._runs]
        if self._ledger is not None:
            for run_id, events in zip(self._run_ids, recorded, strict=True):
                self._ledger.note(run_id, events)
        bundle = self._bundle(recorded, task_id)
        if failure is not None:
            bundle["failure"] = (failure.code, failure.told(IN_LOGS).partition(": ")[2])
        runs = [
            [Event(run_id, 0, each.type, each.task_id, each.at_us, each.body) for each in events]
            for run_id, events in zip(self._run_ids, recorded, strict=True)
        ]
        return WorkedTask(runs, failure), bundle

    def _count_elsewhere(self) -> None:
        if self._ledger is None:
            return
        runs = dict(zip(self._run_ids, self._runs, strict=True))
        for run_id, task_id, usage in self._ledger.of_others():
            if run_id in runs:
                runs[run_id].count_elsewhere(task_id, usage)

    def rest(self) -> dict[str, Any]:
        """What a task recorded that was cut off, if one was."""
        return self._bundle([run.recorded() for run in self._runs], None)

    def _bundle(self, recorded: Sequence[Sequence[NewEvent]], task: str | None) -> dict[str, Any]:
        opening, self._opening = self._opening, None
        notices, self.notices = self.notices, []
        return {
            "suite": self.name,
            "opening": opening,
            "task": task,
            "runs": [rows_of(events) for events in recorded],
            "failure": None,
            "notices": notices,
        }

    def close(self) -> None:
        """Stop everything that was started."""
        for run in self._runs:
            run.end()
        self._loop.run(self._session.close())
