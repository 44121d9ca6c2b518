"""A run task by task, read from its log: what was asked, answered, checked, spent and found."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from evalwright.attacks.derived import is_derived
from evalwright.contracts import amounts
from evalwright.contracts.coverage import PARTS
from evalwright.contracts.documents import without_collecting
from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import (
    CONTENT_FREE,
    Checked,
    Decided,
    EvalScored,
    Event,
    Judged,
    Planned,
    ProviderUsage,
)
from evalwright.contracts.run_plan import AgentFacts
from evalwright.contracts.suite import Task
from evalwright.contracts.summary import SafetyFinding
from evalwright.contracts.verdicts import UNTOLD, CheckResult
from evalwright.engine.checks import unsafe_check
from evalwright.engine.projection import (
    ProjectedTask,
    RunProjection,
    TaskAttempt,
    project_tasks,
)
from evalwright.engine.task_names import TaskName, TaskNames, called
from evalwright.scoring.golden import PASSING_GOLDEN_SCORE, explain_difference
from evalwright.scoring.rubric import all_votes, criterion_name
from evalwright.scoring.summary import task_cost
from evalwright.scoring.thresholds import is_blocking, mean


class TaskUsage(msgspec.Struct, frozen=True, rename="camel"):
    """What the agent took for a task; the cost is null where a price, or the usage, is unknown."""

    calls: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    cost_usd: float | None


class CheckRecord(msgspec.Struct, frozen=True):
    """One check of an answer, with every field that there is."""

    check: str
    passed: bool
    score: float
    expected: Any
    actual: Any
    reason: str
    weight: float | UnsetType = UNSET  # where it is not 1
    turn: int | UnsetType = UNSET  # of a conversation, where it is about one answer of several


class AttemptRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One answer to a task: of a task that is repeated there are several."""

    passed: bool | None
    score: float | None
    output: Any
    checks: list[CheckRecord]
    latency_ms: int | None
    error: dict[str, Any] | UnsetType = UNSET
    check_score: float | UnsetType = UNSET  # the mean of its checks, whether it passed or not
    coverage: dict[str, str | None] | UnsetType = UNSET  # as of a task


class AttackRecord(msgspec.Struct, frozen=True, rename="camel"):
    """Which task is attacked, how, and what came of it."""

    task_id: str
    strategy: str
    result: str


class TaskRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One task of a run, as `show --tasks --json` prints it.

    What has no score yet is neither passed nor failed. Of a repeated task, the answer is the first
    that came out as the task did; `repetitions` has all of them.
    """

    task_id: str
    passed: bool | None
    score: float | None
    title: str
    input: Any
    output: Any
    checks: list[CheckRecord]
    usage: TaskUsage
    latency_ms: int | None
    findings: list[SafetyFinding]
    error: dict[str, Any] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    repetitions: list[AttemptRecord] | UnsetType = UNSET
    # By part: how it was observed, or null; `lost` says why calls are not, where some were.
    coverage: dict[str, str | None] | UnsetType = UNSET
    check_score: float | UnsetType = UNSET  # the mean of its checks, whether it passed or not
    attack: AttackRecord | UnsetType = UNSET  # of a suite that was derived from another one

    @property
    def called(self) -> TaskName:
        return called(self.task_id, self.title)

    @property
    def checks_in_words(self) -> str:
        """What part of its checks passed, where some did not; empty where that says nothing."""
        passed = sum(check.passed for check in self.checks)
        if passed == len(self.checks) or len(self.checks) == 1:
            return ""
        return f"checks {passed:,} of {len(self.checks):,} passed"

    @property
    def checks_on_pages(self) -> str:
        """The same with their mean, where that is not the score."""
        said = self.checks_in_words
        if not said or self.check_score is UNSET or self.check_score == self.score:
            return said
        return f"{said}, check score {amounts.score(self.check_score)}"


class ReadTask(NamedTuple):
    """A task and how its answer came about: the events between question and answer, the judges.

    Of a conversation, which has several answers, they are all events.
    """

    record: TaskRecord
    trace: Sequence[Event]
    judged: Sequence[Judged]
    criteria: Mapping[str, str]  # of a rubric, by the names that judges know them by


class RunReading(NamedTuple):
    """A run as reports of its tasks see it; `is_masked` where something in it was a secret."""

    run_id: str
    started: Event
    planned: Planned
    tasks: Sequence[ReadTask]
    events: Sequence[Event]
    is_masked: bool
    shows_secrets: bool


def read_tasks(events: Iterable[Event], *, show_secrets: bool) -> RunReading:
    """Read a run from its events; secrets are masked before anything is made of them."""
    kept: list[Event] = []
    is_masked = False
    mask = None if show_secrets else _mask()
    run = RunProjection()
    with without_collecting():
        for event in events:
            shown = event if mask is None else _masked(event, mask)
            is_masked = is_masked or shown is not event
            kept.append(shown)
            run.add(shown)
        if run.started is None or run.planned is None:
            raise DamagedEventLog(f"the run has no {Planned.TYPE} event")
        planned = run.planned
        names = TaskNames.of_tasks(planned.suite.tasks, is_masked=True)
        tasks = [
            _task_reading(task, planned.agent, names.of(task_id).title)
            for task_id, task in run.tasks.items()
        ]
        if is_derived(planned.suite.suite_id):
            # The tasks with what came of the attacks among them
            from evalwright.reports.run.attack_table import attack_results, recorded_outcomes

            outcomes = recorded_outcomes(planned.suite.tasks, [task.record for task in tasks])
            results = attack_results(planned.suite.suite_id, outcomes)
            attacks = {
                task_id: AttackRecord(attack.task_id, attack.strategy, result)
                for task_id, (attack, result) in results.items()
            }
            tasks = [
                task._replace(
                    record=replace(task.record, attack=attacks.get(task.record.task_id, UNSET))
                )
                for task in tasks
            ]
    return RunReading(
        run.started.run_id, run.started, planned, tasks, kept, is_masked, show_secrets
    )


def read_task(
    task: Task, events: Iterable[Event], agent: AgentFacts
) -> tuple[ReadTask, list[Event]]:
    """Read one task from its events, which come back as they may be shown: with secrets masked.

    `agent` is that of the run, with what is claimed of it.
    """
    mask = _mask()
    shown = msgspec.json.decode(mask(msgspec.json.encode(task)), type=Task)
    kept = [_masked(event, mask) for event in events]
    title = TaskNames.of_tasks([shown], is_masked=True).of(task.task_id).title
    [found] = project_tasks([shown], kept).values()
    return _task_reading(found, agent, title), kept


def _masked(event: Event, mask: Callable[[bytes], bytes]) -> Event:
    """The event with secrets masked; the same where it holds none."""
    if event.type in CONTENT_FREE:
        return event
    body = mask(event.body)
    if body is event.body:
        return event
    if event.type == Checked.TYPE:
        # Checks without reasons that may quote a part of a secret, which nobody can know as one
        said, shown = msgspec.json.decode(event.body), msgspec.json.decode(body)
        for before, after in zip(said["checks"], shown["checks"], strict=True):
            if any(
                before.get(side) != after.get(side) for side in ("expected", "actual", "reason")
            ):
                after["reason"] = UNTOLD if after.get("reason") else ""
        body = msgspec.json.encode(shown)
    return replace(event, body=body)


def _mask() -> Callable[[bytes], bytes]:
    from evalwright.signals.masking import mask_bytes  # with every detector of secrets

    return lambda body: mask_bytes(body, personal=False)


def _attempt_record(
    attempt: TaskAttempt, task: Task, scored: EvalScored | None, claims: AgentFacts
) -> AttemptRecord:
    """The attempt as it is shown; its score is its own where it has one."""
    decision, completed, checked = attempt.decided, attempt.completed, attempt.checked
    failed = completed is not None and completed.outcome == "failed"
    error = decision.get("error") if failed and isinstance(decision, dict) else None
    output = decision if error is None else (error.get("details") or {}).get("answer")
    if checked is not None and checked.error is not None:
        error = msgspec.to_builtins(checked.error)
    if checked is not None:
        checks = [_check_record(each) for each in checked.checks]
    else:
        checks = [] if error else _portable_checks(attempt, task, output, scored)
    check_score: float | UnsetType = UNSET
    if error is None and checked is not None:
        check_score = checked.score if checked.check_score is None else checked.check_score
    coverage: dict[str, str | None] | UnsetType = UNSET
    if completed is not None:
        found = attempt.coverage(claims)
        coverage = {part: getattr(found, part) for part in PARTS}
        if found.lost is not None:
            coverage["lost"] = found.lost
    own = checked or scored
    return AttemptRecord(
        None if own is None else own.passed,
        None if own is None else own.score,
        output,
        checks,
        None if completed is None else completed.latency_ms,
        UNSET if error is None else error,
        check_score,
        coverage,
    )


def _portable_checks(
    attempt: TaskAttempt, task: Task, output: Any, scored: EvalScored | None
) -> list[CheckRecord]:
    """What a match, a rubric and findings say of an answer, as checks do."""
    checks = []
    if (match := task.expected.match) is not None and scored is not None:
        passed = scored.score == PASSING_GOLDEN_SCORE
        reason = "" if passed else explain_difference(output, match.strategy, match.value)
        found = match.strategy, passed, scored.score, match.value, output, reason
        checks.append(CheckRecord(*found))
    if task.expected.rubric:
        judged = attempt.judged
        votes = all_votes("rubric", judged)
        for number, criterion in enumerate(task.expected.rubric, 1):
            if given := votes.get(name := criterion_name(number)):
                met = 2 * sum(given) > len(given)
                reasons = (  # that speak for the outcome
                    verdict.reason
                    for answer in judged
                    if answer.subject == "rubric"
                    for verdict in answer.verdicts
                    if verdict.question == name and verdict.met == met
                )
                score, reason = sum(given) / len(given), next(reasons, "")
                weight = UNSET if criterion.weight == 1 else criterion.weight
                wanted = criterion.criterion
                checks.append(CheckRecord("judge", met, score, wanted, output, reason, weight))
    findings = attempt.findings
    if is_blocking(findings):
        checks.append(_check_record(unsafe_check(findings)))
    return checks


def _task_reading(found: ProjectedTask, claims: AgentFacts, title: str) -> ReadTask:
    task, scored, attempts = found.task, found.scored, found.repetitions
    records = [_attempt_record(attempt, task, scored, claims) for attempt in attempts]
    verdict = None if scored is None else scored.passed
    alike = (place for place, each in enumerate(records) if each.passed == verdict)
    place = next(alike, len(records) - 1)
    shown = records[place]
    means = [each.check_score for each in records if each.check_score is not UNSET]
    record = TaskRecord(
        task.task_id,
        verdict,
        None if scored is None else scored.score,
        title,
        task.input,
        shown.output,
        shown.checks,
        _usage([usage for each in attempts for usage in each.usages], shown.coverage),
        shown.latency_ms if scored is None else scored.latency_ms,
        [finding for each in attempts for finding in each.findings],
        shown.error,
        task.tags or UNSET,
        records if task.repeat > 1 else UNSET,
        shown.coverage,
        mean(means) if means else UNSET,
    )
    rubric = enumerate(task.expected.rubric or (), 1)
    criteria = {criterion_name(number): each.criterion for number, each in rubric}
    told = attempts[place]
    answers = (each.decode(Decided) for each in told.deeds if each.type == Decided.TYPE)
    is_talk = any(each.turn is not None for each in answers)
    trace = [*told.deeds, *told.said] if is_talk else told.trace
    return ReadTask(record, trace, told.judged, criteria)


def _usage(
    usages: Sequence[ProviderUsage], coverage: dict[str, str | None] | UnsetType
) -> TaskUsage:
    if not usages:
        is_unknown = coverage is not UNSET and coverage["usage"] is None
        return msgspec.structs.replace(_NO_USAGE, cost_usd=None) if is_unknown else _NO_USAGE
    given, taken = sum(u.input_tokens for u in usages), sum(u.output_tokens for u in usages)
    total = sum(u.total_tokens or u.input_tokens + u.output_tokens for u in usages)
    return TaskUsage(len(usages), given, taken, total, task_cost(usages))


_NO_USAGE = TaskUsage(0, 0, 0, 0, 0.0)


def _check_record(result: CheckResult) -> CheckRecord:
    return CheckRecord(
        result.check,
        result.passed,
        result.score,
        result.expected,
        result.actual,
        result.reason,
        UNSET if result.weight == 1 else result.weight,
        UNSET if result.turn is None else result.turn,
    )
