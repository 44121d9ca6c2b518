"""The outcome of a run, and whether it may ship."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from evalwright.contracts.run_plan import Baseline, FailOn, Group
from evalwright.contracts.summary import EvalSummary
from evalwright.engine.history import History
from evalwright.engine.plan import Plan
from evalwright.engine.task_names import TaskNames
from evalwright.scoring.chance import ChangeVerdict
from evalwright.scoring.regression import (
    change_against_baseline,
    compare_to_baseline,
    verdicts_of,
)
from evalwright.scoring.thresholds import Cost, is_blocking


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended: its summary, the bars it did not reach, and why it must not ship."""

    run_id: str
    plan: Plan
    summary: EvalSummary
    broken_bars: list[str]
    reasons: list[str]
    users: Cost = Cost()  # what playing them has cost

    @classmethod
    def of(cls, history: History) -> "Outcome":
        """The outcome of a run whose tasks all have their scores."""
        plan, tally = history.plan, history.tally
        summary = tally.summary(history.run_id, plan.baseline)
        broken = tally.broken_bars()
        reasons = reasons_to_fail(plan, summary, broken)
        return cls(history.run_id, plan, summary, broken, reasons, tally.users)


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
        unsafe = sum(is_blocking(task.safety_findings or ()) for task in summary.tasks)
        noun = "task has" if unsafe == 1 else "tasks have"
        reasons += [f"{unsafe} {noun} high or critical safety findings"] if unsafe else []
    if plan.baseline is not None and not {"regression", "significant-regression"}.isdisjoint(
        chosen
    ):
        report = compare_to_baseline(summary, plan.baseline)
        is_one = plan.group is None or plan.group.size == 1
        beyond = is_one and report.verdict.is_worse and "significant-regression" in chosen
        if beyond or (report.regressed and "regression" in chosen):
            change = f"score {report.score_delta:+.4g}"
            # Of one of several repeats it is not said how sure that is, as they decide.
            sure = "beyond" if report.verdict.is_worse else "within"
            where = f"against the baseline ({sure} chance)" if is_one else "against the baseline"
            failing = len(report.newly_failing)
            said = f"{failing} newly failing {where}, {change}" if failing else f"{change} {where}"
            reasons.append(said)
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
