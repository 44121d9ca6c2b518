"""Recorded answers are scored again: those of a run, or of traces that others recorded.

Nothing is invoked. The new run begins with the recorded answers as facts, so that it can be shown,
compared and resumed like any other; what judges have said of the same question and answer holds.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from evalwright.agents.protocol import AgentFailure, Invocation
from evalwright.contracts.errors import BadInput, DamagedEventLog
from evalwright.contracts.events import Event, Found, Judged, repetition_of
from evalwright.contracts.run_plan import AgentFacts, RunOptions, TaskSelection
from evalwright.contracts.suite import Suite, Task
from evalwright.engine.clock import Clock, SystemClock, new_run_id
from evalwright.engine.continuation import fill_in
from evalwright.engine.history import History, read_history
from evalwright.engine.isolation import PARTIAL, RESCORED
from evalwright.engine.judge_prompt import PROMPT_VERSION
from evalwright.engine.plan import Plan, is_judged, plan_run
from evalwright.engine.projection import (
    INVOCATION_TYPES,
    ProjectedTask,
    TaskAttempt,
    project_tasks,
)
from evalwright.engine.runner import Announce, Runner
from evalwright.engine.suites.loader import SuiteSubject
from evalwright.engine.task_work import RunResources
from evalwright.engine.verdict import Outcome
from evalwright.store.protocol import EventLog, NewEvent

MOST_NAMED = 5
_UNANSWERED = "without an answer"
# A task that was answered: its whole invocations, by repetition, and all that is known of it.
_Answered: TypeAlias = tuple[dict[int, TaskAttempt], ProjectedTask]


class RecordedAgent:
    """The agent of a run that is scored again: it has answered, and is not there to be asked."""

    allowed_tools: frozenset[str] | None = None
    is_outside = False
    reads_memory = True
    converses = True
    holds_state = False

    def __init__(self, facts: AgentFacts) -> None:
        self.agent_id = facts.agent_id
        self.ref = facts.ref
        self.model_class: str | None = facts.model_class

    async def invoke(self, invocation: Invocation) -> Any:
        message = f"task {invocation.task.task_id} has no recorded answer"
        raise AgentFailure("not_recorded", message)

    async def close(self) -> None:
        """Nothing to close."""


class Rescore(msgspec.Struct, frozen=True):
    """A run that is about to be scored again."""

    plan: Plan
    facts: list[Event]  # the recorded answers, and what judges said of them
    notices: list[str]
    missing: tuple[str, ...] = ()  # tasks that were to be answered, and were not

    def lacking(self, *reasons: str) -> "Rescore":
        """The same as a run that cannot pass, if there are reasons: what has no answer."""
        plan = msgspec.structs.replace(self.plan, lacking=[*reasons])
        return msgspec.structs.replace(self, plan=plan)

    async def run(
        self,
        log: EventLog,
        announce: Announce = lambda _: None,
        clock: Clock | None = None,
        resources: RunResources | None = None,
    ) -> Outcome:
        """Score every recorded answer, in a new run."""
        clock = clock or SystemClock()
        history = History(new_run_id(clock), self.plan, clock.now_us())
        history.take_over(self.facts)
        place = self.plan.traces or f"{log.place}: run {self.plan.rescored_from}"
        fill_in(history, self.facts, place)
        with log.claim(history.run_id):
            agent, resources = RecordedAgent(self.plan.agent), resources or RunResources()
            runner = Runner(log, agent, history, clock, resources)
            redact = (
                resources.surroundings.redactor.redact
            )  # what others recorded may hold anything
            runner.open(
                facts=[
                    NewEvent(each.type, each.task_id, each.at_us, redact(each.body))
                    for each in self.facts
                ]
            )
            await runner.settle()
            announce(history)
            return await runner.run()


def plan_rescore(
    log: EventLog, run_id: str, subject: SuiteSubject | None, name: str, options: RunOptions
) -> Rescore:
    """Pair recorded answers with the tasks of a suite; raises `BadInput` where nothing fits."""
    source = read_history(log, run_id)
    if source.end is None:
        raise BadInput(f"rescore: run {run_id} has not ended; resume it first")
    suite = subject.suite if subject else source.plan.suite
    answered = _answered_tasks(log, source)
    kept, left_out = _fitting(suite, source.plan.suite, answered)
    if not kept:
        raise BadInput(
            f"rescore: no task of {name} has an answer in run {run_id}: ids and inputs must be "
            "the same"
        )
    # The judges and modes are those of the run before, where they fit.
    before = source.plan
    modes = tuple(mode for mode in before.modes if mode in suite.modes and mode != "regression")
    part = msgspec.structs.replace(suite, tasks=kept)
    if not options.judges and before.panel is not None and is_judged(part, modes):
        panel = before.panel
        options = msgspec.structs.replace(
            options, judges=tuple(panel.judges), judge_samples=panel.samples
        )
    options = msgspec.structs.replace(
        options,
        modes=modes,
        embedding_model=options.embedding_model or before.settings.embedding_model,
        allow_mismatch=True,
        allow_self_judge=True,
    )
    where = subject.source if subject else before.source
    plan = plan_run(
        part, name, RecordedAgent(before.agent), options, source=where, is_recorded=True
    )
    tags = [tag for tag in [*before.tags, *plan.tags, RESCORED] if tag != PARTIAL]
    selection = None if subject else before.selection
    whole = selection.of if selection else len(suite.tasks)
    if len(kept) < whole:
        by = selection.by if selection else []
        selection = TaskSelection(whole, [*by, f"rescore {run_id}"])
        tags.append(PARTIAL)
    plan = msgspec.structs.replace(
        plan,
        agent=before.agent,
        tags=list(dict.fromkeys(tags)),
        selection=selection,
        rescored_from=run_id,
        lacking=[] if subject else before.lacking,
    )
    facts = [event for task in kept for event in _facts(answered[task.task_id], task, before)]
    notices = [
        f"left out, as {what}: {named_briefly(names)}" for what, names in left_out.items() if names
    ]
    return Rescore(plan, facts, notices, tuple(left_out[_UNANSWERED]))


def _answered_tasks(log: EventLog, source: History) -> dict[str, _Answered]:
    """The tasks with whole invocations, the last of each repetition, by their ids."""
    run_id, answered = source.run_id, {}
    events = log.read(run_id, (*INVOCATION_TYPES, Judged.TYPE, Found.TYPE))
    try:
        for task_id, task in project_tasks(source.plan.suite.tasks, events).items():
            whole = {
                repetition_of(end.invocation_id): attempt
                for attempt in task.all_attempts
                if (end := attempt.completed) is not None and end.latency_ms is not None
            }
            if whole:
                answered[task_id] = whole, task
    except (msgspec.MsgspecError, ValueError) as error:
        raise DamagedEventLog(f"{log.place}: run {run_id} cannot be read: {error!r}") from error
    return answered


def _fitting(
    suite: Suite, before: Suite, answered: dict[str, _Answered]
) -> tuple[list[Task], dict[str, list[str]]]:
    """The tasks that were answered, repeated as often as they were; and what is left out, as what.

    One that was to be repeated more often than it was has not been answered.
    """
    asked = {task.task_id: _asked(task) for task in before.tasks}
    worlds = {task.task_id: task.world for task in before.tasks}
    same: dict[tuple[str, str], bool] = {}  # whether two worlds are the same
    repeats = {task.task_id: task.repeat for task in before.tasks}
    wanted = {task.task_id for task in suite.tasks}
    new = [task.task_id for task in suite.tasks if task.task_id not in asked]
    removed = [task_id for task_id in asked if task_id not in wanted]
    kept, changed, unanswered = [], [], []
    for task in suite.tasks:
        if task.task_id not in asked:
            continue
        world, world_before = task.world, worlds[task.task_id]
        if world and (world, world_before) not in same:
            same[world, world_before] = suite.worlds[world] == before.worlds.get(world_before)
        if _asked(task) != asked[task.task_id] or not same.get((world, world_before), True):
            changed.append(task.task_id)
            continue
        made = len(answered[task.task_id][0]) if task.task_id in answered else 0
        if made < repeats[task.task_id]:
            unanswered.append(task.task_id)
        else:
            kept.append(task if task.repeat <= made else msgspec.structs.replace(task, repeat=made))
    return kept, {
        "new": new,
        "asked otherwise": changed,
        _UNANSWERED: unanswered,
        "removed": removed,
    }


def _asked(task: Task) -> Any:
    """What an agent met, besides its world: with other tools it might have answered otherwise."""
    return task.input, bool(task.turns), task.user, task.faults, task.fixtures


def named_briefly(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _facts(answered: _Answered, task: Task, before: Plan) -> Iterator[Event]:
    """The events that the new run begins with, in the order in which a run writes them."""
    whole, recorded = answered
    for number in sorted(whole)[: task.repeat]:
        yield from whole[number].deeds
    said = [event for attempt in recorded.all_attempts for event in attempt.said]
    if before.is_adversarial:  # what judges found is found again in what they said
        found = (event for event in said if event.type == Found.TYPE)
        yield from (event for event in found if event.decode(Found).source == "signals")
    if before.panel is not None and before.panel.prompt_version == PROMPT_VERSION:
        same_rubric = recorded.task.expected.rubric == task.expected.rubric
        for event in said:
            if event.type == Judged.TYPE and (
                same_rubric or event.decode(Judged).subject != "rubric"
            ):
                yield event
