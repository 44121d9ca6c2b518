"""What a log says of the tasks of a run: attempts, what was done in each, what was said of it.

Events are put together here, for everything that reads them: as they come, all or those of the
types that are needed. A projection keeps them, and decodes nothing before somebody asks for it; a
`RunState` keeps none, for whoever follows a run of any length while it goes on.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from evalwright.contracts.coverage import Coverage, recorded_coverage
from evalwright.contracts.documents import without_collecting
from evalwright.contracts.events import (
    PAYLOADS,
    TERMINAL_TYPES,
    Checked,
    Decided,
    EvalScored,
    Event,
    Found,
    InvocationCompleted,
    InvocationStarted,
    Judged,
    P,
    Payload,
    Planned,
    ProviderUsage,
    Reasoned,
    RunPaused,
    RunResumed,
    RunStarted,
    ToolCalled,
    ToolReturned,
    UserSaid,
    WorldChanged,
    repetition_of,
)
from evalwright.contracts.run_plan import AgentFacts
from evalwright.contracts.suite import Task
from evalwright.contracts.summary import SafetyFinding

TRACE_TYPES = frozenset((Reasoned.TYPE, ToolCalled.TYPE, ToolReturned.TYPE))
INVOCATION_TYPES = (
    InvocationStarted.TYPE,
    *TRACE_TYPES,
    ProviderUsage.TYPE,
    UserSaid.TYPE,
    WorldChanged.TYPE,
    Decided.TYPE,
    InvocationCompleted.TYPE,
)
_MEANWHILE = frozenset((*TRACE_TYPES, ProviderUsage.TYPE, UserSaid.TYPE, WorldChanged.TYPE))
_OF_AGENT = frozenset((*TRACE_TYPES, Decided.TYPE, InvocationCompleted.TYPE))
_OF_STATE = frozenset(
    (
        *(InvocationStarted.TYPE, InvocationCompleted.TYPE, ProviderUsage.TYPE),
        *(Found.TYPE, Checked.TYPE, EvalScored.TYPE),
    )
)


def begun_repetition(event: Event, repeat: int) -> int:
    """Which repetition of a task the invocation is at that an event begins."""
    if repeat == 1:
        return 1
    return repetition_of(event.decode(InvocationStarted).invocation_id)


class RunState:
    """How far a run is, and where its tasks stand."""

    def __init__(self, repeated: Collection[str] = ()) -> None:
        self._repeated = repeated  # tasks that are invoked several times
        self.attempts: dict[str, int] = {}  # at a task, or at the repetition that it is at
        self.repetitions_begun: dict[str, int] = {}  # the last one of each repeated task
        self.open_invocations: dict[str, tuple[str, str]] = {}  # id -> (task, agent)
        self.failed: set[str] = set()  # tasks with an error in place of their last answer, or score
        self.scored: set[str] = set()
        self.is_paused = False
        self.end: Event | None = None

    def add(self, event: Event) -> Payload | None:
        """Go on with an event; gives its payload if it is one that says something of a task."""
        kind, task_id = event.type, event.task_id or ""
        if kind not in _OF_STATE:
            if kind in TERMINAL_TYPES:
                self.end = event
            elif kind in (RunPaused.TYPE, RunResumed.TYPE):
                self.is_paused = kind == RunPaused.TYPE
            return None
        payload = event.decode(PAYLOADS[kind])
        match payload:
            case InvocationStarted(invocation_id=attempt_id, agent_id=agent_id):
                self.attempts[task_id] = self.attempts.get(task_id, 0) + 1
                self.open_invocations[attempt_id] = (task_id, agent_id)
                if task_id in self._repeated:
                    self.repetitions_begun[task_id] = repetition_of(attempt_id)
            case InvocationCompleted():
                self.open_invocations.pop(payload.invocation_id, None)
                if payload.outcome == "failed":
                    self.failed.add(task_id)
                else:
                    self.failed.discard(task_id)
            case Checked():
                if payload.error is not None:
                    self.failed.add(task_id)
                if task_id in self._repeated:
                    self.end_repetition(task_id)
                    self.repetitions_begun[task_id] = payload.repetition  # rescored: all at the end
            case EvalScored():
                self.scored.add(task_id)
        return payload

    def end_repetition(self, task_id: str) -> None:
        """A repetition has its result, which stands whatever becomes of the next one."""
        self.attempts[task_id] = 0

    def has_answer(self, task_id: str) -> bool:
        """Whether the agent has answered in its last attempt at a task, so that judges follow."""
        asked = {task for task, _ in self.open_invocations.values()}
        return task_id in self.attempts and task_id not in asked


def kept_of_conversation(deeds: Sequence[Event]) -> list[Event]:
    """What of an attempt that was cut off is not asked for again: to the last word of somebody."""
    for count in range(len(deeds), 0, -1):
        event = deeds[count - 1]
        is_answer = event.type == Decided.TYPE and event.decode(Decided).turn is not None
        if is_answer or (event.type == UserSaid.TYPE and not event.decode(UserSaid).faults):
            return list(deeds[:count])
    return []


class TaskAttempt:
    """One invocation of the agent for a task, and what was said of its answer."""

    __slots__ = ("_ended", "completion", "decision", "deeds", "said")

    def __init__(self) -> None:
        self.deeds: list[Event] = []  # from the start of the invocation to its end
        self.said: list[Event] = []  # of the answer, with the usage of whoever judged it
        self.decision: Event | None = None
        self.completion: Event | None = None
        self._ended: InvocationCompleted | None = None

    @property
    def has_answer(self) -> bool:
        """Whether the invocation came to its end with an answer, or an error in its place."""
        return self.decision is not None and self.completion is not None

    @property
    def is_begun(self) -> bool:
        """Whether its start was recorded."""
        return bool(self.deeds) and self.deeds[0].type == InvocationStarted.TYPE

    @property
    def decided(self) -> Any:
        """What the agent answered; None if nothing."""
        return None if self.decision is None else self.decision.decode(Decided).decision

    @property
    def completed(self) -> InvocationCompleted | None:
        """How the invocation ended, if it did."""
        if self._ended is None and self.completion is not None:
            self._ended = self.completion.decode(InvocationCompleted)
        return self._ended

    @property
    def trace(self) -> list[Event]:
        """The calls of tools, their results, and what the agent thought."""
        return [event for event in self.deeds if event.type in TRACE_TYPES]

    @property
    def usages(self) -> list[ProviderUsage]:
        """What the agent used of models."""
        return [each for each in _decoded(self.deeds, ProviderUsage) if not each.is_of_user]

    @property
    def usages_of_user(self) -> list[ProviderUsage]:
        """What was used of models to play the user."""
        return [each for each in _decoded(self.deeds, ProviderUsage) if each.is_of_user]

    @property
    def usages_of_judges(self) -> list[ProviderUsage]:
        """What was used of models after the answer."""
        return _decoded(self.said, ProviderUsage)

    @property
    def usages_of_others(self) -> list[ProviderUsage]:
        """What users and judges used."""
        return [*self.usages_of_user, *self.usages_of_judges]

    @property
    def judged(self) -> list[Judged]:
        return _decoded(self.said, Judged)

    @property
    def findings(self) -> list[SafetyFinding]:
        """What speaks against the agent."""
        return [each for found in _decoded(self.said, Found) for each in found.findings]

    @property
    def checked(self) -> Checked | None:
        """What checks said of the answer, the last time."""
        event = next((each for each in reversed(self.said) if each.type == Checked.TYPE), None)
        return None if event is None else event.decode(Checked)

    def coverage(self, claims: AgentFacts) -> Coverage:
        """What was observed, or is claimed; of logs that do not say, what they hold."""
        completed = self.completed
        observed = completed.coverage if completed else None
        if observed is None:
            kinds = {event.type for event in self.deeds}
            observed = recorded_coverage(
                has_calls=ToolCalled.TYPE in kinds, has_usage=bool(self.usages)
            )
        return observed.claimed(claims.tools, claims.usage)


def _decoded(events: list[Event], kind: type[P]) -> list[P]:
    return [event.decode(kind) for event in events if event.type == kind.TYPE]


class ProjectedTask:
    """A task of a run, as far as its events say.

    A new attempt takes the place of the one before, unless it is another repetition.
    """

    __slots__ = ("_checks", "_score", "attempts", "current", "earlier", "task")

    def __init__(self, task: Task) -> None:
        self.task = task
        self.current = TaskAttempt()  # the last that was begun
        self.attempts: dict[int, TaskAttempt] = {}  # the last of each repetition
        self.earlier: list[TaskAttempt] = []  # all that were begun before the last one
        self._checks: list[Event] = []
        self._score: Event | None = None

    def add(self, event: Event) -> None:
        kind, current = event.type, self.current
        if kind in _MEANWHILE and current.completion is None:
            current.deeds.append(event)
        elif kind == EvalScored.TYPE:
            self._score = event
        elif kind == InvocationStarted.TYPE:
            continued: list[Event] = []
            if b'"continues"' in event.body and event.decode(InvocationStarted).continues:
                continued = kept_of_conversation(current.deeds)[1:]
                self.current = TaskAttempt()  # it goes on as the new one
            begun = self._begin(begun_repetition(event, self.task.repeat))
            begun.deeds = [event, *continued]
        elif kind in _OF_AGENT:
            # Of a task that is given up, it is decided after its last attempt has ended.
            is_given_up = kind == Decided.TYPE and current.is_begun
            if current.completion is not None and not is_given_up:
                current = self._begin(1)  # what began it was not recorded
            current.deeds.append(event)
            if kind == Decided.TYPE:
                current.decision = event
            elif kind == InvocationCompleted.TYPE:
                current.completion = event
        elif kind == Checked.TYPE:  # of a run that was scored again, all come at the end
            self._checks.append(event)
            number = event.decode(Checked).repetition if self.task.repeat > 1 else 1
            self.attempts.get(number, current).said.append(event)
        else:
            current.said.append(event)

    def _begin(self, number: int) -> TaskAttempt:
        if self.current.deeds or self.current.said:
            self.earlier.append(self.current)
        self.current = self.attempts[number] = TaskAttempt()
        return self.current

    @property
    def scored(self) -> EvalScored | None:
        return None if self._score is None else self._score.decode(EvalScored)

    @property
    def checks(self) -> list[Checked]:
        """What checks said, repetition by repetition."""
        return [event.decode(Checked) for event in self._checks]

    @property
    def repetitions(self) -> list[TaskAttempt]:
        """The last attempt at each repetition, in their order."""
        return [self.attempts[number] for number in sorted(self.attempts)] or [self.current]

    @property
    def all_attempts(self) -> list[TaskAttempt]:
        """Every attempt, in the order in which they were begun."""
        return [*self.earlier, self.current]


class RunProjection:
    """A run from its events; of its tasks, those that are wanted.

    Without tasks, they are those of the plan, which is among the first events.
    """

    def __init__(self, tasks: Iterable[Task] | None = None) -> None:
        self.started: Event | None = None
        self.planned: Planned | None = None
        self._has_tasks = tasks is not None
        self.tasks = {task.task_id: ProjectedTask(task) for task in tasks or ()}

    def add(self, event: Event) -> None:
        found = self.tasks.get(event.task_id or "")
        if found is not None:
            found.add(event)
        elif event.type == RunStarted.TYPE:
            self.started = event
        elif event.type == Planned.TYPE:
            self.planned = event.decode(Planned)
            if not self._has_tasks:
                self.tasks = {
                    each.task_id: ProjectedTask(each) for each in self.planned.suite.tasks
                }


def project_tasks(tasks: Iterable[Task], events: Iterable[Event]) -> dict[str, ProjectedTask]:
    """What events say of tasks, by their ids; those of other tasks are passed over."""
    projected = {task.task_id: ProjectedTask(task) for task in tasks}
    with without_collecting():
        for event in events:
            if (task := projected.get(event.task_id or "")) is not None:
                task.add(event)
    return projected
