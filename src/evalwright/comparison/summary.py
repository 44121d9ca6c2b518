"""All cases together: counts, significance, and the verdict in one sentence."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import fsum
from operator import attrgetter
from typing import Any

import msgspec

from evalwright.contracts.report import (
    GRAVE,
    ROOT_CAUSES,
    SEVERITIES,
    BothSides,
    Change,
    Delta,
    Item,
    SecuritySummary,
    SeverityCounts,
    Significance,
    Summary,
)
from evalwright.scoring.statistics import PairedChange, paired_change

_TOP_KINDS = 10
_MOST_HELD = 1_000


def speaks_against(summary: Summary) -> bool:
    """Whether anything at all speaks against shipping."""
    silent = 0 < summary.total_cases == summary.unanswered_cases_baseline
    return silent or any(
        (
            summary.regressions,
            summary.gated_cases,
            summary.alarming_cases,
            summary.unanswered_cases,
        )
    )


class SideFacts(msgspec.Struct, frozen=True):
    """What the summary needs to know of one side of a case."""

    passed: bool
    root: str
    gated: bool
    answered: bool
    flaky: bool
    signals: tuple[tuple[str, str], ...]
    latency_ms: float | None
    cost_usd: float | None


class CaseFacts(msgspec.Struct, frozen=True):
    """What the summary needs to know of a case."""

    change: Change
    baseline: SideFacts
    new: SideFacts

    @property
    def alarming(self) -> bool:
        """Whether the new side has a grave signal of a kind that the baseline has not.

        What asks for a gate is counted as that.
        """
        if self.new.gated or not self.new.signals:
            return False
        known = {kind for kind, _ in self.baseline.signals}
        return any(severity in GRAVE and kind not in known for kind, severity in self.new.signals)


def facts_of(item: Item) -> CaseFacts:
    """The facts of an item that the summary counts."""
    return CaseFacts(
        item.change,
        _side_facts(item, _BASELINE, item.baseline_root, passed=item.baseline_pass),
        _side_facts(item, _NEW, item.new_root, passed=item.new_pass),
    )


_BASELINE, _NEW = attrgetter("baseline"), attrgetter("new")


def _side_facts(
    item: Item, of: Callable[[object], Any], root: str | msgspec.UnsetType, *, passed: bool
) -> SideFacts:
    """The facts of the side that `of` takes out of what holds both."""
    security, latency, cost = of(item.security), item.latency_ms, item.cost_usd
    failed = [each.name for each in of(item.failed_assertions)]
    return SideFacts(
        passed,
        "" if root is msgspec.UNSET else root,
        security.requires_gate_recommendation,
        "response" not in failed and "transport" not in failed,
        item.repeats is not msgspec.UNSET and of(item.repeats).flaky,
        tuple([(signal.kind, signal.severity) for signal in security.signals]),
        None if latency is msgspec.UNSET else of(latency),
        None if cost is msgspec.UNSET else of(cost),
    )


class Mean:
    """The mean of any number of values, as exact as that of a list of them."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: list[float] = []  # their exact sum is that of all values

    def add(self, values: Sequence[float]) -> None:
        """Take some values."""
        self.count += len(values)
        self._hold(values)

    def merge(self, other: "Mean") -> None:
        """Take all values of another mean."""
        self.count += other.count
        self._hold(other._parts)

    def _hold(self, parts: Sequence[float]) -> None:
        self._parts += parts
        if len(self._parts) > _MOST_HELD:
            self._parts = _shortened(self._parts)

    def value(self) -> float:
        """The mean of the values so far, of which there is at least one."""
        return fsum(self._parts) / self.count


def _shortened(parts: list[float]) -> list[float]:
    """A few numbers with exactly the same sum: the rounded sum, then what rounding took away."""
    found: list[float] = []
    while rest := fsum([*parts, *(-each for each in found)]):
        found.append(rest)
    return found


class _SideTally:
    def __init__(self) -> None:
        self.passed = self.gated = self.flaky = self.unanswered = self.with_signals = 0
        self.roots: Counter[str] = Counter()
        self.severities: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.latency = Mean()
        self.cost = Mean()

    def add(self, facts: Sequence[SideFacts]) -> None:
        self.passed += sum([each.passed for each in facts])
        self.gated += sum([each.gated for each in facts])
        self.flaky += sum([each.flaky for each in facts])
        self.unanswered += sum([not each.answered for each in facts])
        self.with_signals += sum([bool(each.signals) for each in facts])
        self.roots.update([each.root for each in facts if each.root])
        signals = [signal for each in facts for signal in each.signals]
        self.kinds.update([kind for kind, _ in signals])
        self.severities.update([severity for _, severity in signals])
        self.latency.add([each.latency_ms for each in facts if each.latency_ms is not None])
        self.cost.add([each.cost_usd for each in facts if each.cost_usd is not None])

    def merge(self, other: "_SideTally") -> None:
        self.passed += other.passed
        self.gated += other.gated
        self.flaky += other.flaky
        self.unanswered += other.unanswered
        self.with_signals += other.with_signals
        self.roots.update(other.roots)
        self.kinds.update(other.kinds)
        self.severities.update(other.severities)
        self.latency.merge(other.latency)
        self.cost.merge(other.cost)

    def breakdown(self) -> dict[str, int]:
        return {cause: self.roots[cause] for cause in ROOT_CAUSES}

    def counts(self) -> SeverityCounts:
        return SeverityCounts(*(self.severities[severity] for severity in SEVERITIES))

    def top_kinds(self) -> tuple[str, ...]:
        ordered = sorted(self.kinds.items(), key=lambda entry: (-entry[1], entry[0]))
        return tuple(kind for kind, _ in ordered[:_TOP_KINDS])


class Tally:
    """Counts cases as they come; the order does not matter."""

    def __init__(self) -> None:
        self.cases = 0
        self.alarming = 0
        self.changes: Counter[str] = Counter()
        self.baseline = _SideTally()
        self.new = _SideTally()

    def add(self, facts: Sequence[CaseFacts]) -> None:
        """Count some cases."""
        self.cases += len(facts)
        self.alarming += sum([each.alarming for each in facts])
        self.changes.update([each.change for each in facts])
        self.baseline.add([each.baseline for each in facts])
        self.new.add([each.new for each in facts])

    def merge(self, other: "Tally") -> None:
        """Count the cases that another has counted."""
        self.cases += other.cases
        self.alarming += other.alarming
        self.changes.update(other.changes)
        self.baseline.merge(other.baseline)
        self.new.merge(other.new)

    def summary(self) -> Summary:
        """The summary of all cases counted so far."""
        change = paired_change(
            self.changes["still_passing"],
            self.changes["regression"],
            self.changes["improvement"],
            self.changes["still_failing"],
        )
        flaky = BothSides(self.baseline.flaky, self.new.flaky)
        return Summary(
            total_cases=self.cases,
            baseline_pass=self.baseline.passed,
            new_pass=self.new.passed,
            regressions=self.changes["regression"],
            improvements=self.changes["improvement"],
            gated_cases=self.new.gated,
            alarming_cases=self.alarming,
            unanswered_cases=self.new.unanswered,
            unanswered_cases_baseline=self.baseline.unanswered,
            root_cause_breakdown=self.new.breakdown(),
            root_cause_breakdown_baseline=self.baseline.breakdown(),
            security=self._security(),
            verdict=self._verdict(change),
            significance=_significance(change) if change else msgspec.UNSET,
            latency_ms=_mean_delta(self.baseline.latency, self.new.latency),
            cost_usd=_mean_delta(self.baseline.cost, self.new.cost),
            flaky_cases=flaky if flaky.baseline or flaky.new else msgspec.UNSET,
        )

    def _is_baseline_silent(self) -> bool:
        return 0 < self.cases == self.baseline.unanswered

    def _security(self) -> SecuritySummary:
        return SecuritySummary(
            total_cases=self.cases,
            cases_with_signals_new=self.new.with_signals,
            cases_with_signals_baseline=self.baseline.with_signals,
            signal_counts_new=self.new.counts(),
            signal_counts_baseline=self.baseline.counts(),
            top_signal_kinds_new=self.new.top_kinds(),
            top_signal_kinds_baseline=self.baseline.top_kinds(),
            signal_kinds_new=dict(sorted(self.new.kinds.items())),
            signal_kinds_baseline=dict(sorted(self.baseline.kinds.items())),
        )

    def _verdict(self, change: PairedChange | None) -> str:
        if change is None:
            return "Nothing to compare: there is no case."
        against = [
            *_count(self.changes["regression"], "got worse", "got worse"),
            *_count(self.new.gated, "asks for a gate", "ask for a gate"),
            *_count(self.alarming, "has a new grave signal", "have new grave signals"),
            *_count(self.new.unanswered, "has no answer", "have no answer"),
            *(["the baseline answered nothing"] if self._is_baseline_silent() else []),
        ]
        rates = f"pass rate {change.baseline_rate:.1%} → {change.new_rate:.1%}"
        if against:
            return f"Do not ship yet: {', '.join(against)} ({self.cases:,} compared, {rates})."
        better, failing = self.changes["improvement"], self.changes["still_failing"]
        parts = [
            "no case got worse or asks for a gate",
            *_count(better, "got better", "got better"),
            *_count(failing, "fails as before", "fail as before"),
        ]
        return f"Nothing speaks against it: {', '.join(parts)} ({self.cases:,} compared, {rates})."


def _count(number: int, one: str, many: str) -> list[str]:
    if not number:
        return []
    return [f"1 case {one}" if number == 1 else f"{number:,} cases {many}"]


def _significance(change: PairedChange) -> Significance:
    return Significance(
        test="McNemar, exact, two-sided; interval: Newcombe, 95 %",
        cases=change.cases,
        baseline_rate=change.baseline_rate,
        new_rate=change.new_rate,
        difference=change.difference,
        confidence_interval=(change.low, change.high),
        p_value=change.p_value,
        significant=change.significant,
    )


def _mean_delta(baseline: Mean, new: Mean) -> Delta | msgspec.UnsetType:
    if not baseline.count or not new.count:
        return msgspec.UNSET
    before, after = baseline.value(), new.value()
    return Delta(before, after, after - before)
