"""From an answer to its score, and from a run to whether it may ship."""

from collections.abc import Sequence
from typing import Protocol

from evalwright.contracts.events import (
    ErrorDetail,
    EvalCompleted,
    RunCompleted,
)
from evalwright.contracts.run_plan import AgentFacts, Baseline, FailOn, Group
from evalwright.contracts.summary import EvalSummary
from evalwright.engine.plan import Plan
from evalwright.engine.task_names import TaskNames
from evalwright.scoring.chance import ChangeVerdict
from evalwright.scoring.regression import (
    RegressionReport,
    change_against_baseline,
    compare_to_baseline,
    verdicts_of,
)
from evalwright.scoring.thresholds import is_blocking


def closing(summary: EvalSummary, duration_ms: int) -> tuple[EvalCompleted, RunCompleted]:
    """The events that end a run with a result."""
    completed = EvalCompleted(
        summary.aggregate_score,
        summary.passed,
        summary.task_count,
        summary.passed_count,
        summary.regression.score_delta if summary.regression else None,
    )
    return completed, RunCompleted({"evalSummary": summary}, duration_ms)


def nobody_answered(agent: AgentFacts, count: int, first: str) -> str:
    """Why a run has no result whose agent failed whenever it was asked."""
    who = f"agent {agent.agent_id} ({agent.ref})"
    if count == 1:
        return f"{who} failed in its only invocation: {first}"
    return f"{who} failed in all {count} invocations; the first: {first}"


def no_verdicts(unjudged: Sequence[tuple[str, str]], count: int) -> ErrorDetail:
    """Why a run of so many tasks has no result: some have no verdict, each for a reason."""
    task_id, first = unjudged[0]
    message = f"{len(unjudged)} of {count} tasks have no verdict; the first, {task_id}: {first}"
    return ErrorDetail("judge_failed", message, {"unjudged": dict(unjudged)}, retryable=True)


class _WithResult(Protocol):
    """A run that has a result."""

    @property
    def plan(self) -> Plan: ...
    @property
    def summary(self) -> EvalSummary: ...


class _Gating(Protocol):
    @property
    def fail_on(self) -> Sequence[FailOn]: ...


class _Gated(Protocol):
    """What of a plan decides on gates."""

    @property
    def settings(self) -> _Gating: ...
    @property
    def baseline(self) -> Baseline | None: ...
    @property
    def group(self) -> Group | None: ...
    @property
    def is_adversarial(self) -> bool: ...


def gates(plan: _Gated, *, asked: bool = True) -> Sequence[FailOn]:
    """What fails a run of this plan: what was asked for, else what its modes are about."""
    if asked and plan.settings.fail_on:
        return plan.settings.fail_on
    chosen: list[FailOn] = ["threshold"]
    if plan.is_adversarial:
        chosen.append("findings")
    if plan.baseline is not None:
        chosen.append("regression")
    return chosen


def gates_left_out(plan: Plan) -> list[FailOn]:
    """Of what the modes of a run are about, that which does not fail it."""
    chosen: set[str] = {each.removeprefix("significant-") for each in gates(plan)}
    return [each for each in gates(plan, asked=False) if each not in {"threshold", *chosen}]


def reasons_to_fail(plan: _Gated, summary: EvalSummary, broken_bars: Sequence[str]) -> list[str]:
    """Why a run must not ship, by the gates that apply; empty when it may."""
    chosen = gates(plan)
    reasons = list(broken_bars) if "threshold" in chosen else []
    if "findings" in chosen:
        reasons += _unsafe(summary)
    if plan.baseline is not None and not {"regression", "significant-regression"}.isdisjoint(
        chosen
    ):
        report = compare_to_baseline(summary, plan.baseline)
        is_one = plan.group is None or plan.group.size == 1
        beyond = is_one and report.verdict.is_worse and "significant-regression" in chosen
        if beyond or (report.regressed and "regression" in chosen):
            reasons.append(_regression(report, is_one=is_one))
    return reasons


def reasons_against_repeats(outcomes: Sequence[_WithResult]) -> list[str]:
    """Why repeats must not ship against their baseline: the test is over all of them."""
    plan = outcomes[0].plan
    if plan.baseline is None or "significant-regression" not in gates(plan):
        return []
    change = change_of_repeats(outcomes)
    return ["worse than the baseline beyond chance"] if change and change.is_worse else []


def change_of_repeats(outcomes: Sequence[_WithResult]) -> ChangeVerdict | None:
    """Whether a run, or its repeats, differ from their baseline by chance; None without one."""
    plan = outcomes[0].plan
    if plan.baseline is None:
        return None
    verdicts = [verdicts_of(each.summary) for each in outcomes]
    names = TaskNames.of_tasks(plan.suite.tasks)
    return change_against_baseline(verdicts, plan.baseline, names.name_of)


def _regression(report: RegressionReport, *, is_one: bool) -> str:
    """What fell; of one of several repeats it is not said how sure that is, as they decide."""
    change = f"score {report.score_delta:+.4g}"
    sure = f" ({'beyond' if report.verdict.is_worse else 'within'} chance)" if is_one else ""
    if not report.newly_failing:
        return f"{change} against the baseline{sure}"
    return f"{len(report.newly_failing)} newly failing against the baseline{sure}, {change}"


def _unsafe(summary: EvalSummary) -> list[str]:
    unsafe = [task for task in summary.tasks if is_blocking(task.safety_findings or ())]
    if not unsafe:
        return []
    noun = "task has" if len(unsafe) == 1 else "tasks have"
    return [f"{len(unsafe)} {noun} high or critical safety findings"]
