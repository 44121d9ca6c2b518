"""One case, compared: both sides judged, aligned, and turned into the report's item."""

from collections.abc import Sequence
from datetime import date
from typing import Literal, TypeVar

import msgspec

from evalwright.comparison.alignment import AlignedStep
from evalwright.comparison.cases import Case
from evalwright.comparison.divergence import first_divergence
from evalwright.comparison.gate import Gate, gate, governance
from evalwright.comparison.nondeterminism import nondeterminism_sources
from evalwright.comparison.policy import recommended_rules
from evalwright.comparison.root_cause import root_cause
from evalwright.comparison.side import Checked, Judged, SideResult, judge_side
from evalwright.contracts.report import (
    Artifacts,
    BothSides,
    Change,
    Delta,
    Governance,
    Item,
    Repeats,
    Security,
    Signal,
    Suppressed,
)
from evalwright.signals.suppression import Suppressions
from evalwright.trace.model import Trace

_Value = TypeVar("_Value")


class Hrefs(msgspec.Struct, frozen=True):
    """Where the parts of an item stand in the report directory."""

    artifacts: Artifacts
    repeats: BothSides[tuple[str, ...]] = BothSides((), ())


class GatedSide(msgspec.Struct, frozen=True):
    """A side with its suppressions applied and its gate decided."""

    result: SideResult
    signals: tuple[Signal, ...]
    suppressed: tuple[Suppressed, ...]
    gate: Gate
    governance: Governance


class Comparison(msgspec.Struct, frozen=True):
    """Both sides of a case."""

    case: Case
    baseline: GatedSide
    new: GatedSide
    change: Change

    def item(self, hrefs: Hrefs, steps: Sequence[AlignedStep], faults: Sequence[str]) -> Item:
        """The report's item."""
        baseline, new = self.baseline, self.new
        rules = recommended_rules(new.result.failures, new.gate.signals)
        return Item(
            case_id=self.case.id,
            title=self.case.title,
            baseline_pass=baseline.result.passed,
            new_pass=new.result.passed,
            change=self.change,
            baseline_root=_present(root_cause(baseline.result.failures)),
            new_root=_present(root_cause(new.result.failures)),
            preventable_by_policy=bool(rules),
            recommended_policy_rules=rules,
            trace_integrity=BothSides(baseline.result.integrity, new.result.integrity),
            security=BothSides(_security(baseline), _security(new)),
            artifacts=hrefs.artifacts,
            failed_assertions=BothSides(baseline.result.failures, new.result.failures),
            governance_preview=BothSides(baseline.governance, new.governance),
            nondeterminism_sources=BothSides(_chance(baseline), _chance(new)),
            faults=_present(tuple(faults) or None),
            first_divergence=_present(first_divergence(steps)),
            latency_ms=_present(_latency(baseline, new)),
            cost_usd=_present(delta(_cost(baseline), _cost(new))),
            repeats=_present(_repeats(self, hrefs)),
        )


def compare_case(
    case: Case,
    baseline: Sequence[Checked],
    new: Sequence[Checked],
    suppressions: Suppressions,
    today: date,
) -> Comparison:
    """Judge both sides of a case; the new side is seen beside the baseline's trace."""
    before = judge_side(case, baseline, None)
    after = judge_side(case, new, _usable(before.shown))
    regression = before.passed and not after.passed
    return Comparison(
        case,
        _gated(case, before, "baseline", suppressions, today, regression=False),
        _gated(case, after, "new", suppressions, today, regression=regression),
        _change(before, after),
    )


def _usable(judged: Judged) -> Trace | None:
    """The baseline's trace, if it shows what the agent does."""
    return judged.trace if judged.trace.events and judged.trace.failure is None else None


def _gated(
    case: Case,
    result: SideResult,
    side: Literal["baseline", "new"],
    suppressions: Suppressions,
    today: date,
    *,
    regression: bool,
) -> GatedSide:
    signals, suppressed = suppressions.apply(result.signals, case.id, side, today)
    risky = result.proposes_high_risk
    decided = gate(signals, risky_action=risky, regression=regression)
    ruling = governance(
        decided, signals, result.integrity, risky_action=risky, regression=regression
    )
    return GatedSide(result, signals, suppressed, decided, ruling)


def _change(before: SideResult, after: SideResult) -> Change:
    if before.passed:
        return "still_passing" if after.passed else "regression"
    return "improvement" if after.passed else "still_failing"


def _security(side: GatedSide) -> Security:
    suppressed = side.suppressed or msgspec.UNSET
    return Security(side.signals, side.gate.required, suppressed)


def _chance(side: GatedSide) -> tuple[str, ...]:
    return nondeterminism_sources(side.result.shown.trace, repeats_disagree=side.result.flaky)


def _repeats(comparison: Comparison, hrefs: Hrefs) -> BothSides[Repeats] | None:
    before, after = comparison.baseline.result, comparison.new.result
    if before.runs == after.runs == 1:
        return None
    return BothSides(
        Repeats(before.runs, before.passes, before.flaky, hrefs.repeats.baseline),
        Repeats(after.runs, after.passes, after.flaky, hrefs.repeats.new),
    )


def _latency(baseline: GatedSide, new: GatedSide) -> Delta | None:
    """The durations, where both sides recorded theirs; else the spans of their events."""
    before, after = baseline.result.shown, new.result.shown
    recorded = delta(before.trace.usage.duration_ms, after.trace.usage.duration_ms)
    return recorded or delta(_span(before), _span(after))


def _span(judged: Judged) -> float | None:
    times = [time for time in judged.trace.times if time is not None]
    if not judged.timed or len(times) < 2 or judged.trace.failure is not None:
        return None
    return max(times) - min(times)


def _cost(side: GatedSide) -> float | None:
    return side.result.shown.trace.usage.cost_usd


def delta(baseline: float | None, new: float | None) -> Delta | None:
    """A measure of both sides, where both have it."""
    if baseline is None or new is None:
        return None
    return Delta(baseline, new, new - baseline)


def _present(value: _Value | None) -> _Value | msgspec.UnsetType:
    return msgspec.UNSET if value is None else value
