"""The report's item of a compared case."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from evalwright.comparison.alignment import AlignedStep, first_divergence
from evalwright.comparison.cases import Case
from evalwright.comparison.expectations import root_cause
from evalwright.comparison.gate import gate, governance, recommended_rules
from evalwright.comparison.side import SideResult, nondeterminism_sources
from evalwright.contracts.report import (
    Artifacts,
    BothSides,
    Change,
    Delta,
    Item,
    Repeats,
    Security,
)

_Value = TypeVar("_Value")

_CHANGES: dict[tuple[bool, bool], Change] = {
    (True, True): "still_passing",
    (True, False): "regression",
    (False, True): "improvement",
    (False, False): "still_failing",
}


class CaseLinks(msgspec.Struct, frozen=True):
    """Where the files of a case are in the report directory."""

    artifacts: Artifacts
    repeats: BothSides[tuple[str, ...]] = BothSides((), ())


def item_of(
    case: Case,
    sides: BothSides[SideResult],
    steps: Sequence[AlignedStep],
    links: CaseLinks,
    faults: Sequence[str],
) -> Item:
    """The report's item of a case whose sides are judged and whose steps are aligned."""
    old, new = sides.baseline, sides.new
    worse = old.passed and not new.passed
    old_gate = gate(old.signals, old.actions, regression=False)
    new_gate = gate(new.signals, new.actions, regression=worse)
    rules = recommended_rules(new.failures, new_gate.signals)
    repeats = None
    if old.runs > 1 or new.runs > 1:
        repeats = BothSides(
            Repeats(old.runs, old.passes, old.flaky, links.repeats.baseline),
            Repeats(new.runs, new.passes, new.flaky, links.repeats.new),
        )
    costs = old.shown.trace.usage.cost_usd, new.shown.trace.usage.cost_usd
    return Item(
        case_id=case.id,
        title=case.title,
        baseline_pass=old.passed,
        new_pass=new.passed,
        change=_CHANGES[old.passed, new.passed],
        baseline_root=_present(root_cause(old.failures)),
        new_root=_present(root_cause(new.failures)),
        preventable_by_policy=bool(rules),
        recommended_policy_rules=rules,
        trace_integrity=BothSides(old.integrity, new.integrity),
        security=BothSides(
            Security(old.signals, old_gate.required, old.suppressed or msgspec.UNSET),
            Security(new.signals, new_gate.required, new.suppressed or msgspec.UNSET),
        ),
        artifacts=links.artifacts,
        failed_assertions=BothSides(old.failures, new.failures),
        governance_preview=BothSides(
            governance(old_gate, old.signals, old.integrity, regression=False),
            governance(new_gate, new.signals, new.integrity, regression=worse),
        ),
        nondeterminism_sources=BothSides(nondeterminism_sources(old), nondeterminism_sources(new)),
        faults=_present(tuple(faults) or None),
        first_divergence=_present(first_divergence(steps)),
        latency_ms=_present(_latency(old, new)),
        cost_usd=_present(_delta(*costs)),
        repeats=_present(repeats),
    )


def _latency(baseline: SideResult, new: SideResult) -> Delta | None:
    """The durations, where both sides recorded theirs; else the spans of their events."""
    usages = baseline.shown.trace.usage, new.shown.trace.usage
    recorded = _delta(usages[0].duration_ms, usages[1].duration_ms)
    return recorded or _delta(_span(baseline), _span(new))


def _span(side: SideResult) -> float | None:
    trace = side.shown.trace
    times = [time for time in trace.times if time is not None]
    if not side.shown.timed or len(times) < 2 or trace.failure is not None:
        return None
    return max(times) - min(times)


def _delta(baseline: float | None, new: float | None) -> Delta | None:
    """A measure of both sides, where both have it."""
    if baseline is None or new is None:
        return None
    return Delta(baseline, new, new - baseline)


def _present(value: _Value | None) -> _Value | msgspec.UnsetType:
    return msgspec.UNSET if value is None else value
