"""The tasks of a run as lists show them: few facts of each, found without reading the whole log.

The last event of a completed run holds a line for each task; of other runs, the scores are read.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import msgspec

from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import (
    EvalScored,
    Event,
    InvocationStarted,
    Planned,
    recorded_summary,
)
from evalwright.contracts.run_plan import (
    FIRST_RULE,
    AgentFacts,
    Baseline,
    BaselineTask,
    Group,
    JudgePanel,
    LeftOut,
    RunSettings,
    TaskSelection,
)
from evalwright.contracts.suite import Mode, Task, Thresholds
from evalwright.contracts.summary import SafetyFinding
from evalwright.engine.projection import begun_repetition
from evalwright.engine.task_names import TaskNames
from evalwright.scoring.thresholds import is_blocking
from evalwright.store.protocol import EventLog, RunFacts

STATUSES = ("failed", "open", "passed")  # in the order of a list

_STEPS_BACK = (64, 256, 1024)  # events that are read at once, on the way back from a score
_CLOSE = 64  # events; what is farther apart is read apart
FRAME_EVENTS = 8  # among which the plan is


class TaskRow(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What a list knows of a task; without a score it is open."""

    task_id: str
    score: float | None = None
    passed: bool | None = None
    cost_usd: float | None = None
    latency_ms: int | None = None
    safety_findings: list[SafetyFinding] | None = None

    @property
    def status(self) -> str:
        return "open" if self.passed is None else "passed" if self.passed else "failed"


class TaskFilter(NamedTuple):
    """Which tasks a list shows: those that agree with everything that is given."""

    status: str = ""
    text: str = ""  # in the id
    least: float | None = None  # score
    most: float | None = None

    def takes(self, row: TaskRow) -> bool:
        if self.status and row.status != self.status:
            return False
        if self.text and self.text not in row.task_id:
            return False
        if self.least is None and self.most is None:
            return True
        if row.score is None:
            return False
        low = row.score if self.least is None else self.least
        high = row.score if self.most is None else self.most
        return low <= row.score <= high


class TaskPage(NamedTuple):
    """A part of a list: its rows, and where it stands among all that the filter takes."""

    rows: Sequence[TaskRow]
    number: int  # from 1
    pages: int
    total: int


class Neighbours(NamedTuple):
    """The tasks around one, in the order of the suite; ids, or nothing at an end."""

    previous: str
    next: str
    next_failure: str
    place: int  # from 1


class TaskList:
    """All tasks of a run, in the order of the suite."""

    def __init__(
        self, rows: Sequence[TaskRow], modes: Sequence[str], totals: "RunTotals | None" = None
    ) -> None:
        self.rows = rows
        self.modes = modes  # that the run was started with
        self.totals = totals  # of a completed run
        self.counts = Counter(row.status for row in rows)

    @cached_property
    def places(self) -> dict[str, int]:
        return {row.task_id: place for place, row in enumerate(self.rows)}

    @cached_property
    def latencies(self) -> list[int]:
        return sorted(row.latency_ms for row in self.rows if row.latency_ms is not None)

    @cached_property
    def findings(self) -> int:
        return sum(len(row.safety_findings) for row in self.rows if row.safety_findings)

    @cached_property
    def unsafe(self) -> int:
        """How many tasks have a finding with which no task passes."""
        return sum(is_blocking(row.safety_findings) for row in self.rows if row.safety_findings)

    @cached_property
    def _in_order(self) -> list[TaskRow]:
        by_status: dict[str, list[TaskRow]] = {status: [] for status in STATUSES}
        for row in self.rows:
            by_status[row.status].append(row)
        return [row for status in STATUSES for row in by_status[status]]

    @cached_property
    def _failures(self) -> list[int]:
        return [place for place, row in enumerate(self.rows) if row.passed is False]

    def prepare(self) -> None:
        """Find out now what takes a moment for a large run."""
        assert len(self.places) == len(self._in_order)

    def page(self, wanted: TaskFilter, number: int, size: int) -> TaskPage:
        """A page of the tasks that a filter takes, failures first."""
        found = self._in_order
        if wanted.status in STATUSES:
            first = sum(self.counts[each] for each in STATUSES[: STATUSES.index(wanted.status)])
            found = found[first : first + self.counts[wanted.status]]
        if wanted._replace(status="") != TaskFilter():
            found = [row for row in found if wanted.takes(row)]
        pages = max(1, -(-len(found) // size))
        number = min(max(1, number), pages)
        return TaskPage(found[(number - 1) * size : number * size], number, pages, len(found))

    def around(self, task_id: str) -> Neighbours | None:
        """The tasks before and after one, and the next failure, which may be the first one."""
        place = self.places.get(task_id)
        if place is None:
            return None
        rows, failures = self.rows, self._failures
        before = rows[place - 1].task_id if place else ""
        after = rows[place + 1].task_id if place + 1 < len(rows) else ""
        later = bisect_left(failures, place + 1)
        others = [*failures[later : later + 1], *failures[:1]]
        failed = rows[others[0]].task_id if others and others[0] != place else ""
        return Neighbours(before, after, failed, place + 1)


# The plan of a run, without its tasks: they may be a hundred thousand.


class PlannedBaseline(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The run that a run was compared with when it ran."""

    run_id: str
    aggregate_score: float
    tasks: msgspec.Raw
    judges: list[str] = []
    left_out: LeftOut | None = None
    name: str | None = None
    age_s: int | None = None
    group: str | None = None

    def read(self) -> Baseline:
        return Baseline(
            **{
                **msgspec.structs.asdict(self),
                "tasks": msgspec.json.decode(self.tasks, type=list[BaselineTask]),
            }
        )


class PlannedSuite(msgspec.Struct, frozen=True, rename="camel"):
    """A suite whose tasks are not parsed."""

    suite_id: str
    version: str
    modes: list[Mode]
    tasks: list[msgspec.Raw]
    thresholds: Thresholds = Thresholds()
    worlds: dict[str, msgspec.Raw] = {}
    attachments: dict[str, msgspec.Raw] = {}


class RunFrame(msgspec.Struct, frozen=True, rename="camel", dict=True):
    """What a run was planned with."""

    suite: PlannedSuite
    agent: AgentFacts
    settings: RunSettings
    panel: JudgePanel | None = None
    baseline: PlannedBaseline | None = None
    group: Group | None = None
    selection: TaskSelection | None = None
    scoring: int = FIRST_RULE
    lacking: list[str] = []

    @property
    def name(self) -> str:
        return f"{self.suite.suite_id}@{self.suite.version}"

    def task(self, task_id: str, place: int | None = None) -> Task | None:
        """One task of the suite, perhaps at a place that is known."""
        if place is not None and place < len(self.suite.tasks):
            task = msgspec.json.decode(self.suite.tasks[place], type=Task)
            if task.task_id == task_id:
                return task
        wanted, all_tasks = msgspec.json.encode(task_id), self.suite.tasks
        likely = (each for each in all_tasks if wanted in bytes(each))  # found sooner
        ids = (each for each in chain(likely, all_tasks) if _id_of(each) == task_id)
        found = next(ids, None)
        return None if found is None else msgspec.json.decode(found, type=Task)

    @cached_property
    def names(self) -> TaskNames:
        places = {_id_of(each): place for place, each in enumerate(self.suite.tasks)}
        return TaskNames(places, lambda task_id: self.task(task_id, places.get(task_id)))

    @cached_property
    def has_faults(self) -> bool:
        """Whether faults strike the tools of a task."""
        marked = (each for each in self.suite.tasks if b'"faults"' in bytes(each))
        return any(msgspec.json.decode(each, type=Task).faults for each in marked)

    def raw_tasks(self) -> dict[str, msgspec.Raw]:
        """The tasks as they were recorded, by their ids."""
        return {_id_of(each): each for each in self.suite.tasks}


class _Named(msgspec.Struct, rename="camel"):
    task_id: str


_decode_named = msgspec.json.Decoder(_Named).decode


def _id_of(task: msgspec.Raw) -> str:
    return _decode_named(task).task_id


class RunTotals(msgspec.Struct, frozen=True, rename="camel"):
    """What a completed run came to, and its tasks."""

    aggregate_score: float
    passed: bool
    tasks: list[TaskRow]
    total_cost_usd: float | None = None


def read_frame(log: EventLog, run_id: str) -> RunFrame:
    """The plan of a run; raises `DamagedEventLog` where there is none."""
    for event in log.read(run_id, limit=FRAME_EVENTS):
        if event.type == Planned.TYPE:
            return event.decode(RunFrame)  # type: ignore[type-var]
    raise DamagedEventLog(f"{log.place}: run {run_id} has no {Planned.TYPE} event")


def recorded_tasks(log: EventLog, run: RunFacts) -> TaskList | None:
    """The tasks of a completed run, from its last event; None of any other run."""
    if run.status != "completed":
        return None
    try:
        totals = recorded_summary(log.edges(run.run_id)[-1], RunTotals)
    except msgspec.DecodeError:
        return None
    return TaskList(totals.tasks, run.modes, totals)


class ScoreReader:
    """The tasks of a run without a summary: each time, it reads on from where it was."""

    def __init__(self, frame: RunFrame, run: RunFacts) -> None:
        self._rows = {name: TaskRow(name) for name in map(_id_of, frame.suite.tasks)}
        self._modes = run.modes
        self._last = -1

    def read(self, log: EventLog, run_id: str) -> TaskList:
        for event in log.read(run_id, (EvalScored.TYPE,), self._last):
            row = _scored_row(event)
            self._last = event.sequence
            self._rows[row.task_id] = row
        return TaskList(list(self._rows.values()), self._modes)


def _scored_row(event: Event) -> TaskRow:
    scored = event.decode(EvalScored)
    return TaskRow(scored.task_id, scored.score, scored.passed, scored.cost_usd, scored.latency_ms)


def one_task(log: EventLog, run: RunFacts, task_id: str) -> TaskList:
    """A list with one task of a run, by its score, without those of the others."""
    place = log.upkeep.scored_at(run.run_id, [task_id]).get(task_id)
    read = [] if place is None else log.read(run.run_id, (EvalScored.TYPE,), place - 1, 1)
    return TaskList([next(map(_scored_row, read), TaskRow(task_id))], run.modes)


# The events of one task.


def read_task_events(
    log: EventLog, run_id: str, task_id: str, repeat: int = 1, last: int | None = None
) -> list[Event]:
    """The events of a task's last attempts; `last` is where its score is, if it has one."""
    near = read_near_score(log, run_id, task_id, repeat, last)
    if near is not None:
        return near
    places = log.upkeep.sequences_of(run_id, [task_id]).get(task_id, ())
    return _read_at(log, run_id, task_id, repeat, places)


def read_events_of(log: EventLog, run_id: str, tasks: Sequence[Task]) -> dict[str, list[Event]]:
    """The same of several tasks, for which the run is searched once at most."""
    scored = log.upkeep.scored_at(run_id, [task.task_id for task in tasks])
    found, far = dict[str, list[Event]](), list[Task]()
    for task in tasks:
        name, last = task.task_id, scored.get(task.task_id)
        # Where one was invoked long before its score, as if traces were scored, all were.
        near = (
            None if far else read_near_score(log, run_id, name, task.repeat, last, _STEPS_BACK[:1])
        )
        if near is None:
            far.append(task)
        else:
            found[name] = near
    if far:
        places = log.upkeep.sequences_of(run_id, [task.task_id for task in far])
        for task in far:
            here = places.get(task.task_id, ())
            found[task.task_id] = _read_at(log, run_id, task.task_id, task.repeat, here)
    return found


def _read_at(
    log: EventLog, run_id: str, task_id: str, repeat: int, places: Sequence[int]
) -> list[Event]:
    found = [event for part in _ranges(places) for event in _read(log, run_id, task_id, *part)]
    return _until_begun(found, set(range(1, repeat + 1)), repeat)


def read_near_score(
    log: EventLog,
    run_id: str,
    task_id: str,
    repeat: int,
    last: int | None,
    steps: Sequence[int] = _STEPS_BACK,
) -> list[Event] | None:
    """The same, if all of it stands shortly before the score; None if it does not.

    The log has no index by task, but most tasks are scored soon after they began: they are read
    back from their scores, with what others wrote meanwhile.
    """
    end = log.facts(run_id).events - 1 if last is None else last
    missing = set(range(1, repeat + 1))
    parts: list[list[Event]] = []
    for step in steps:
        first = max(0, end - step + 1)
        parts.append(_until_begun(_read(log, run_id, task_id, first, end), missing, repeat))
        end = first - 1
        if not missing:
            return [event for part in reversed(parts) for event in part]
    return None


def _read(log: EventLog, run_id: str, task_id: str, first: int, last: int) -> list[Event]:
    """The events of a task from one sequence to another."""
    read = log.read(run_id, (), first - 1, last - first + 1)
    return [event for event in read if event.task_id == task_id]


def _ranges(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of the places that are close to each other, in order."""
    begin = 0
    for number, place in enumerate(places):
        if number + 1 == len(places) or places[number + 1] - place > _CLOSE:
            yield places[begin], place
            begin = number + 1


def _until_begun(events: list[Event], missing: set[int], repeat: int) -> list[Event]:
    """The events from the beginning of the first attempt that is still missing, if it is here."""
    for place in range(len(events) - 1, -1, -1):
        event = events[place]
        if event.type == InvocationStarted.TYPE:
            missing.discard(begun_repetition(event, repeat))
            if not missing:
                return events[place:]
    return events
