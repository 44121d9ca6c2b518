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
    Payload,
    Planned,
    ProviderUsage,
    RunFailure,
    RunStarted,
)
from evalwright.contracts.suite import Mode
from evalwright.engine.invocation import CutConversation, Repetition, TaskAnswer
from evalwright.engine.plan import Plan
from evalwright.engine.projection import RunState
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


class History(RunState):
    """The recorded facts of one run."""

    def __init__(self, run_id: str, plan: Plan, started_at_us: int) -> None:
        super().__init__({task.task_id for task in plan.suite.tasks if task.repeat > 1})
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
        self.awaiting: dict[str, list[TaskAnswer]] = {}  # that judges or checks have to look at
        self.conversations: dict[str, CutConversation] = {}  # that were cut off
        self.judged: dict[str, list[Judged]] = {}  # what they said so far
        self.repetitions: dict[str, list[Repetition]] = {}  # of tasks that are not all repeated
        self.is_new = True  # nothing was recorded before

    @property
    def status(self) -> str:
        """`completed`, `failed` or `cancelled` by the log; `open` while it has no end."""
        return self.end.type.removeprefix("run.") if self.end else "open"

    def failure(self) -> RunFailure | None:
        if self.end is None or self.end.type != RunFailure.TYPE:
            return None
        return self.end.decode(RunFailure)

    def add(self, event: Event) -> Payload | None:
        self.is_new = False
        task_id, tally = event.task_id or "", self.tally
        payload = super().add(event)
        match payload:
            case EvalScored():
                tally.add_score(payload)
            case ProviderUsage():
                if task_id not in self.attempts:
                    # of an attempt that the run before this one did not end
                    tally.start_again(task_id)
                is_verdict = self.plan.panel is not None and self.has_answer(task_id)
                tally.add_usage(payload, task_id, is_verdict=is_verdict)
                if event.at_us == self.started_at_us:  # taken over when the run began
                    self._know_unpriced()
            case Found():
                tally.add_findings(task_id, payload.findings)
            case InvocationStarted():
                tally.start_again(task_id)
            case InvocationCompleted():
                if payload.latency_ms is None:  # nobody was there to see it end
                    tally.add_cut_off(task_id)
                elif payload.outcome != "failed":
                    agent, seen = self.plan.agent, payload.coverage or NOTHING_OBSERVED
                    tally.add_answer(task_id, seen.claimed(agent.tools, agent.usage))
        return payload

    def end_repetition(self, task_id: str) -> None:
        super().end_repetition(task_id)
        self.tally.keep_findings(task_id)

    def take_over(self, events: Iterable[Event]) -> None:
        """Fold in the facts of another run, which this one goes on from."""
        for event in events:
            self.add(event)
        self._know_unpriced()

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
                history.add(event)
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
