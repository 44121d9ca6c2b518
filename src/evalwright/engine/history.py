"""What a log already says about a run: read once, before it is resumed or shown."""

from collections.abc import Iterable

import msgspec

from evalwright.contracts.coverage import NOTHING_OBSERVED
from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    Checked,
    EvalScored,
    EvalStarted,
    Event,
    Found,
    InvocationCompleted,
    InvocationStarted,
    Judged,
    Planned,
    ProviderUsage,
    RunFailure,
    RunStarted,
)
from evalwright.contracts.suite import Mode
from evalwright.engine.invocation import Repetition, TaskAnswer
from evalwright.engine.plan import Plan
from evalwright.engine.provenance import recorded_provenance
from evalwright.scoring.summary import Tally
from evalwright.store.protocol import EventLog

_FACTS = (
    RunStarted.TYPE,
    EvalStarted.TYPE,
    Planned.TYPE,
    EvalScored.TYPE,
    InvocationStarted.TYPE,
    InvocationCompleted.TYPE,
    ProviderUsage.TYPE,
    Found.TYPE,
    Checked.TYPE,
    *TERMINAL_TYPES,
)


class History:
    """The recorded facts of one run."""

    def __init__(self, run_id: str, plan: Plan, started_at_us: int) -> None:
        self.run_id = run_id
        self.plan = plan
        self.started_at_us = started_at_us
        self.tally = Tally(
            plan.suite,
            plan.agent.model_class,
            looks_for_findings=plan.is_adversarial,
            is_recorded=plan.is_recorded,
            scoring=plan.scoring,
            lacking=plan.lacking,
        )
        self.scored: set[str] = set()
        self._repeated = {task.task_id for task in plan.suite.tasks if task.repeat > 1}
        self.attempts: dict[str, int] = {}
        self.open_invocations: dict[str, tuple[str, str]] = {}  # id -> (task, agent)
        self.awaiting: dict[str, list[TaskAnswer]] = {}  # that judges or checks have to look at
        self.judged: dict[str, list[Judged]] = {}  # what they said so far
        self.repetitions: dict[str, list[Repetition]] = {}  # of tasks that are not all repeated
        self.end: Event | None = None
        self.is_new = True  # nothing was recorded before

    @property
    def status(self) -> str:
        """`completed`, `failed` or `cancelled` by the log; `open` while it has no end."""
        return self.end.type.removeprefix("run.") if self.end else "open"

    def failure(self) -> RunFailure | None:
        if self.end is None or self.end.type != RunFailure.TYPE:
            return None
        return self.end.decode(RunFailure)

    def take(self, event: Event) -> None:
        self.is_new = False
        task_id = event.task_id or ""
        match event.type:
            case EvalScored.TYPE:
                self.tally.add_score(event.decode(EvalScored))
                self.scored.add(task_id)
            case ProviderUsage.TYPE:
                if (
                    task_id not in self.attempts
                ):  # of an attempt that the run before this one did not end
                    self.tally.start_again(task_id)
                is_verdict = self.plan.panel is not None and self._has_answer(task_id)
                self.tally.add_usage(event.decode(ProviderUsage), task_id, is_verdict=is_verdict)
                if event.at_us == self.started_at_us:  # taken over when the run began
                    self._know_unpriced()
            case Checked.TYPE if task_id in self._repeated:
                self.end_repetition(task_id)
            case Found.TYPE:
                self.tally.add_findings(task_id, event.decode(Found).findings)
            case InvocationStarted.TYPE:
                opened = event.decode(InvocationStarted)
                self.tally.start_again(task_id)
                self.attempts[task_id] = self.attempts.get(task_id, 0) + 1
                self.open_invocations[opened.invocation_id] = (task_id, opened.agent_id)
            case InvocationCompleted.TYPE:
                closed = event.decode(InvocationCompleted)
                self.open_invocations.pop(closed.invocation_id, None)
                if closed.latency_ms is None:  # nobody was there to see it end
                    self.tally.add_cut_off(task_id)
                elif closed.outcome != "failed":
                    agent, seen = self.plan.agent, closed.coverage or NOTHING_OBSERVED
                    self.tally.add_answer(task_id, seen.claimed(agent.tools, agent.usage))
            case kind if kind in TERMINAL_TYPES:
                self.end = event

    def end_repetition(self, task_id: str) -> None:
        """A repetition has its result, which stands whatever becomes of the next one."""
        self.attempts[task_id] = 0
        self.tally.keep_findings(task_id)

    def take_over(self, events: Iterable[Event]) -> None:
        """Fold in the facts of another run, which this one goes on from."""
        for event in events:
            self.take(event)
        self._know_unpriced()

    def _has_answer(self, task_id: str) -> bool:
        """Whether the agent has answered, and judges are asked."""
        asked = {task for task, _ in self.open_invocations.values()}
        return task_id in self.attempts and task_id not in asked

    def _know_unpriced(self) -> None:
        """Whoever goes on with a run knows of its calls without a price."""
        spending = self.tally.spending
        spending.unpriced_before, spending.unpriced_verdicts = spending.unpriced, 0


def read_history(log: EventLog, run_id: str) -> History:
    """Read everything about a run that resuming it needs."""
    return history_of(run_id, log.read(run_id, _FACTS), log.place)


def history_of(run_id: str, events: Iterable[Event], place: str) -> History:
    """The recorded facts of a run, from its events in order."""
    history, frame = None, {}
    try:
        for event in events:
            if history is not None:
                history.take(event)
            else:
                frame[event.type] = event
                if event.type == Planned.TYPE:
                    planned = frame[Planned.TYPE].decode(Planned)
                    modes: list[Mode] = frame[EvalStarted.TYPE].decode(EvalStarted).modes
                    started = frame[RunStarted.TYPE].decode(RunStarted)
                    history = History(
                        run_id,
                        Plan(
                            suite=planned.suite,
                            modes=modes,
                            agent=planned.agent,
                            settings=planned.settings,
                            tags=started.tags or [],
                            panel=planned.panel,
                            baseline=planned.baseline,
                            group=planned.group,
                            origin=planned.origin,
                            source=planned.source,
                            selection=planned.selection,
                            rescored_from=(started.metadata or {}).get("rescoredFrom"),
                            traces=(started.metadata or {}).get("scoredTraces"),
                            provenance=recorded_provenance(started.metadata),
                            scoring=planned.scoring,
                            lacking=planned.lacking or [],
                        ),
                        frame[RunStarted.TYPE].at_us,
                    )
    except (msgspec.MsgspecError, KeyError) as error:
        raise DamagedEventLog(f"{place}: run {run_id} cannot be read: {error!r}") from error
    if history is None:
        raise DamagedEventLog(f"{place}: run {run_id} has no {Planned.TYPE} event")
    return history
