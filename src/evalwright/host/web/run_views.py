"""What pages know of runs: their tasks, plans and traces, read beside the event loop and kept.

A run that has ended does not change, so what was made of its log can be kept; whether the run is
still there is asked each time. Of a run that goes on, the scores are read on from where they were.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from evalwright.contracts.errors import DamagedEventLog, RunNotFound
from evalwright.contracts.events import Event, Planned, RunStarted
from evalwright.contracts.run_plan import AgentFacts, SuiteSource
from evalwright.contracts.suite import Task
from evalwright.engine.provenance import recorded_provenance
from evalwright.engine.task_names import TaskNames
from evalwright.host.http.errors import ApiError
from evalwright.host.runs.handle import RunHandle
from evalwright.host.streams.cache import SharedCache
from evalwright.reports.run.paired_runs import PairedRuns
from evalwright.reports.run.task_list import (
    FRAME_EVENTS,
    RunFrame,
    ScoreReader,
    TaskList,
    one_task,
    read_frame,
    read_task_events,
    recorded_tasks,
)
from evalwright.reports.run.timeline import TaskTimeline, timeline_of
from evalwright.store.protocol import EventLog, RunFacts

if TYPE_CHECKING:
    from evalwright.host.host import Host
    from evalwright.host.web.page import PageCall
    from evalwright.host.web.pages.compare_pair import DeepComparison
    from evalwright.host.web.pages.run_tasks import TaskIndex, TasksAsked

RunKey: TypeAlias = tuple[str, str]  # partition and run
PairKey: TypeAlias = tuple[str, str, str]  # partition, baseline and new run
Doubts: TypeAlias = dict[str, str]  # by task: why its score is uncertain, if it is

FEW_EVENTS = 20_000  # of a run, whose tasks are all read where one is wanted
MOST_TASKS = 600_000  # in all lists that are kept
MOST_PLANNED = 128 * 1024 * 1024  # bytes of the plans that are kept
MOST_COMPARED = 100_000  # tasks in all comparisons that are kept
MOST_STEPS = 200_000  # in all timelines that are kept
MOST_DRAWN = 16_000_000  # characters of tables that are kept
KNOWN_SECONDS = 600  # that the menu says how many tasks wait for a person
MOST_SETUPS = 10_000  # runs of which it is known what ran
MOST_VERDICTS = 1000  # runs whose bars and the sentence on them are kept
MOST_DOUBTS = 200_000  # tasks of which it is known whether judges agreed


class RunSetup(NamedTuple):
    """What ran: where all of it is the same, a task that comes out otherwise is flaky."""

    suite: str = ""
    content: str = ""  # what the suite and its data were, as a hash; of suites with checks
    agent: str = ""
    model: str = ""  # of the agent with its version, or its class; empty where the run does not say
    commit: str = ""


class RunView(NamedTuple):
    """A run with its plan and its tasks."""

    run: RunHandle
    facts: RunFacts
    frame: RunFrame
    tasks: TaskList

    @property
    def has_ended(self) -> bool:
        return self.facts.ended_us is not None

    @property
    def is_whole(self) -> bool:
        """Whether all tasks of the run are known, and not only the one that is wanted."""
        return len(self.tasks.rows) >= len(self.frame.suite.tasks)

    @property
    def names(self) -> TaskNames:
        return self.frame.names

    def task(self, task_id: str) -> Task:
        """A task of the suite, by its id or its name; raises `ApiError` 404."""
        task_id = self.names.find(task_id) or task_id
        place = self.tasks.places.get(task_id)
        found = None if place is None else self.frame.task(task_id, place)
        if found is None:
            raise ApiError(404, "not_found", "the run has no such task")
        return found

    def events(self, task: Task, last: int | None) -> list[Event]:
        """The events of a task; `last` is where its score is."""
        return read_task_events(self.run.log, self.run.run_id, task.task_id, task.repeat, last)


class RunViews:
    """The views of the runs of a host; used on one event loop."""

    def __init__(self) -> None:
        self._frames: SharedCache[RunKey, RunFrame] = SharedCache(MOST_PLANNED)
        self._tasks: SharedCache[RunKey, TaskList] = SharedCache(MOST_TASKS)
        self._readers: SharedCache[RunKey, ScoreReader] = SharedCache(MOST_TASKS)
        self.comparisons: SharedCache[PairKey, DeepComparison] = SharedCache(MOST_COMPARED)
        self.compared_so_far: dict[tuple[str, str, str], Path] = {}  # files that say how far it is
        self.pairs: SharedCache[PairKey, PairedRuns] = SharedCache(MOST_TASKS)
        self._timelines: SharedCache[tuple[str, str, str], TaskTimeline] = SharedCache(MOST_STEPS)
        self.indexes: SharedCache[RunKey, TaskIndex] = SharedCache(MOST_TASKS)
        # Tables of tasks as they are shown, by what an address asks for
        self.lists: SharedCache[tuple[*RunKey, TasksAsked], dict[str, Any]] = SharedCache(
            MOST_DRAWN
        )
        self.verdicts: SharedCache[tuple[*RunKey, bool, str], dict[str, Any]] = SharedCache(
            MOST_VERDICTS
        )
        self.doubts: SharedCache[RunKey, Doubts] = SharedCache(MOST_DOUBTS)
        self._waiting: dict[str, tuple[float, int]] = {}  # by partition, and when it was known
        self._setups: SharedCache[RunKey, RunSetup] = SharedCache(MOST_SETUPS)

    async def of(self, run: RunHandle, facts: RunFacts | None = None) -> RunView:
        """A run; raises `RunNotFound`, and `ApiError` 404 unless it is an evaluation.

        `facts` are those of an evaluation that were read a moment ago.
        """
        facts = facts or await self.facts(run)
        frame = await self._frames.get((run.partition, run.run_id), partial(_read_frame, run))
        return RunView(run, facts, frame, await self.tasks(run, facts))

    async def for_task(self, run: RunHandle, task_id: str) -> RunView:
        """A run of which one task is wanted; of a large one, only that is read."""
        facts = await self.facts(run)
        if facts.events <= FEW_EVENTS or self.knows(run):
            return await self.of(run)
        frame = await self._frames.get((run.partition, run.run_id), partial(_read_frame, run))

        def read() -> TaskList:
            return one_task(run.log, facts, frame.names.find(task_id) or task_id)

        found = await run.in_reader(read)
        return RunView(run, facts, frame, found)

    async def frame(self, run: RunHandle) -> RunFrame:
        return await self._frames.get((run.partition, run.run_id), partial(_read_frame, run))

    async def names(self, run: RunHandle) -> TaskNames:
        return (await self.frame(run)).names

    async def facts(self, run: RunHandle) -> RunFacts:
        """A few facts of an evaluation, which are found quickly however large it is."""
        facts = await run.in_reader(partial(run.log.facts, run.run_id))
        if facts.suite is None:
            raise ApiError(404, "not_found", "the run is not an evaluation")
        return facts

    def knows(self, run: RunHandle) -> bool:
        """Whether a run that has ended can be shown without reading all of its tasks."""
        key = run.partition, run.run_id
        return key in self._frames and key in self._tasks

    def has_tasks(self, run: RunHandle) -> bool:
        """Whether the tasks of a run that has ended are known."""
        return (run.partition, run.run_id) in self._tasks

    async def tasks(self, run: RunHandle, facts: RunFacts) -> TaskList:
        key = run.partition, run.run_id
        return await self._tasks.get(key, partial(self._read_tasks, run, facts))

    async def _read_tasks(self, run: RunHandle, facts: RunFacts) -> tuple[int, TaskList, bool]:
        found = await run.in_reader(partial(recorded_tasks, run.log, facts))
        if found is None:
            key = run.partition, run.run_id
            frame = await self._frames.get(key, partial(_read_frame, run))

            async def begin() -> tuple[int, ScoreReader, bool]:
                return len(frame.suite.tasks), ScoreReader(frame, facts), True

            reader = await self._readers.get(key, begin)
            found = await run.in_reader(partial(reader.read, run.log, run.run_id))
        await run.in_reader(found.prepare)
        return len(found.rows), found, facts.ended_us is not None

    def note_waiting(self, partition: str, count: int) -> None:
        """Keep how many tasks wait for a person, as somebody has just seen."""
        self._waiting[partition] = time.monotonic(), count

    def waiting(self, partition: str) -> int:
        """How many tasks wait for a person, for the menu; 0 where nobody has looked lately."""
        at_s, count = self._waiting.get(partition, (0.0, 0))
        return count if time.monotonic() - at_s < KNOWN_SECONDS else 0

    async def setup(self, run: RunHandle, facts: RunFacts) -> RunSetup:
        """What a run was of: suite, agent, model and commit."""

        async def make() -> tuple[int, RunSetup, bool]:
            return 1, await run.in_reader(partial(_read_setup, run, facts)), True

        return await self._setups.get((run.partition, run.run_id), make)

    async def timeline(self, view: RunView, task: Task) -> TaskTimeline:
        run = view.run
        key = run.partition, run.run_id, task.task_id

        async def make() -> tuple[int, TaskTimeline, bool]:
            made = await run.in_reader(partial(_read_timeline, view, task))
            return len(made.steps), made, view.has_ended

        return await self._timelines.get(key, make)


async def add_names(call: "PageCall", rows: Sequence[dict[str, Any]]) -> None:
    """Add to rows, each with the ids of a run and a task, what the task is called."""
    views = views_of(call.host)
    ids = dict.fromkeys(each["run_id"] for each in rows)
    names = {run_id: await views.names(call.run_with(run_id)) for run_id in ids}

    def add() -> None:
        for row in rows:
            called = names[row["run_id"]].of(row["task_id"])
            row |= {"called": called.name, "title": called.subtitle}

    await call.in_reader(add)


async def _read_frame(run: RunHandle) -> tuple[int, RunFrame, bool]:
    try:
        frame = await run.in_reader(partial(read_frame, run.log, run.run_id))
    except msgspec.MsgspecError as error:  # a page of two runs says which
        raise DamagedEventLog(f"run {run.run_id} cannot be read: {error!r}") from error
    return (
        sum(map(len, map(bytes, frame.suite.tasks[:1000]))) * (1 + len(frame.suite.tasks) // 1000),
        frame,
        True,
    )


def _read_setup(run: RunHandle, facts: RunFacts) -> RunSetup:
    found = RunSetup(facts.suite or "", agent=facts.agent or "")
    # What cannot be read is told by whoever reads the tasks; a run that has just begun has no plan.
    with suppress(RunNotFound, DamagedEventLog, msgspec.MsgspecError, KeyError):
        first = {event.type: event for event in run.log.read(run.run_id, limit=FRAME_EVENTS)}
        planned = msgspec.json.decode(first[Planned.TYPE].body, type=_PlannedSetup)
        started = recorded_provenance(first[RunStarted.TYPE].decode(RunStarted).metadata)
        agent, model = planned.agent, planned.agent.model or planned.agent.model_class or ""
        found = found._replace(
            content=planned.source.content_hash if planned.source else "",
            model=f"{model} {agent.version or ''}".strip(),
            commit=(started.commit if started else None) or "",
        )
    return found


class _PlannedSetup(msgspec.Struct):
    agent: AgentFacts
    source: SuiteSource | None = None


def scored_at(log: EventLog, run_id: str, task_id: str) -> int | None:
    """Where the score of a task is in the log; None where it has none."""
    return log.upkeep.scored_at(run_id, [task_id]).get(task_id)


def _read_timeline(view: RunView, task: Task) -> TaskTimeline:
    run = view.run
    return timeline_of(view.events(task, scored_at(run.log, run.run_id, task.task_id)))


_VIEWS: "WeakKeyDictionary[Host, RunViews]" = WeakKeyDictionary()


def views_of(host: "Host") -> RunViews:
    """The views of a host."""
    return _VIEWS.setdefault(host, RunViews())
