"""All cases together: counts, significance, the verdict in one sentence, and what was compared."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from math import fsum
from typing import Any

import msgspec

from evalwright import __version__
from evalwright.contracts.amounts import percent
from evalwright.contracts.report import (
    GRAVE,
    ROOT_CAUSES,
    SEVERITIES,
    BothSides,
    Change,
    Delta,
    Item,
    Security,
    SecuritySummary,
    SeverityCounts,
    Significance,
    Summary,
)
from evalwright.scoring.statistics import PairedChange, paired_change
from evalwright.trace.model import Json

_TOP_KINDS = 10
_MOST_HELD = 1_000
_LAST_MS = 4_102_444_800_000  # the year 2100
# Part and name in the report, and the keys of run.json that say it.
_ENVIRONMENT = (
    ("agent", "name", ("agent_id", "agent", "agent_name")),
    ("agent", "version", ("agent_version",)),
    ("agent", "commit", ("agent_commit", "git_commit", "commit")),
    ("model", "provider", ("model_provider", "provider")),
    ("model", "id", ("model", "model_id")),
    ("model", "version", ("model_version",)),
    ("policies", "policy_version", ("policy_version",)),
    ("policies", "prompt_version", ("prompt_version",)),
    ("policies", "skills_version", ("skills_version",)),
    ("policies", "tool_schema_version", ("tool_schema_version", "tools_version")),
    ("policies", "config_hash", ("config_hash",)),
)


def blocks_shipping(summary: Summary) -> bool:
    """Whether there is any reason not to ship."""
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
    """What the summary needs to know of a case.

    A case is alarming when the new side has a grave signal of a kind that the baseline does not
    have; what asks for a gate is counted as that.
    """

    change: Change
    alarming: bool
    baseline: SideFacts
    new: SideFacts


def facts_of(item: Item) -> CaseFacts:
    """The facts of an item that the summary counts."""
    sides = []
    roots = (("baseline", item.baseline_pass, item.baseline_root),)
    for side, passed, root in (*roots, ("new", item.new_pass, item.new_root)):
        security: Security = getattr(item.security, side)
        failed = [each.name for each in getattr(item.failed_assertions, side)]
        sides.append(
            SideFacts(
                passed,
                "" if root is msgspec.UNSET else root,
                security.requires_gate_recommendation,
                "response" not in failed and "transport" not in failed,
                item.repeats is not msgspec.UNSET and getattr(item.repeats, side).flaky,
                tuple([(signal.kind, signal.severity) for signal in security.signals]),
                None if item.latency_ms is msgspec.UNSET else getattr(item.latency_ms, side),
                None if item.cost_usd is msgspec.UNSET else getattr(item.cost_usd, side),
            )
        )
    baseline, new = sides
    known = {kind for kind, _ in baseline.signals}
    grave = [kind for kind, severity in new.signals if severity in GRAVE and kind not in known]
    return CaseFacts(item.change, bool(grave) and not new.gated, baseline, new)


class Mean(msgspec.Struct):
    """The mean of any number of values, as exact as that of a list of them."""

    count: int = 0
    parts: list[float] = []  # their exact sum is that of all values

    def add(self, values: Sequence[float], count: int | None = None) -> None:
        """Take some values; or a few with the same sum as so many values."""
        self.count += len(values) if count is None else count
        self.parts += values
        if len(self.parts) > _MOST_HELD:
            # Few numbers with exactly the same sum: the rounded sum, then what rounding took away.
            found: list[float] = []
            while rest := fsum([*self.parts, *(-each for each in found)]):
                found.append(rest)
            self.parts = found

    def value(self) -> float:
        """The mean of the values so far, of which there is at least one."""
        return fsum(self.parts) / self.count


class SideTally(msgspec.Struct):
    """Counts of one side."""

    passed: int = 0
    gated: int = 0
    flaky: int = 0
    unanswered: int = 0
    with_signals: int = 0
    roots: Counter[str] = msgspec.field(default_factory=Counter)
    severities: Counter[str] = msgspec.field(default_factory=Counter)
    kinds: Counter[str] = msgspec.field(default_factory=Counter)
    latency: Mean = msgspec.field(default_factory=Mean)
    cost: Mean = msgspec.field(default_factory=Mean)

    def add(self, facts: Sequence[SideFacts]) -> None:
        """Count this side of some cases."""
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

    def merge(self, other: "SideTally") -> None:
        """Add the counts of another."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _COUNTERS:
            getattr(self, name).update(getattr(other, name))
        self.latency.add(other.latency.parts, other.latency.count)
        self.cost.add(other.cost.parts, other.cost.count)


_NUMBERS = ("passed", "gated", "flaky", "unanswered", "with_signals")
_COUNTERS = ("roots", "severities", "kinds")


class CaseTally(msgspec.Struct):
    """Counts cases as they come; the order does not matter."""

    cases: int = 0
    alarming: int = 0
    changes: Counter[str] = msgspec.field(default_factory=Counter)
    baseline: SideTally = msgspec.field(default_factory=SideTally)
    new: SideTally = msgspec.field(default_factory=SideTally)

    def add(self, facts: Sequence[CaseFacts]) -> None:
        """Count some cases."""
        self.cases += len(facts)
        self.alarming += sum([each.alarming for each in facts])
        self.changes.update([each.change for each in facts])
        self.baseline.add([each.baseline for each in facts])
        self.new.add([each.new for each in facts])

    def merge(self, other: "CaseTally") -> None:
        """Count the cases that another has counted."""
        self.cases += other.cases
        self.alarming += other.alarming
        self.changes.update(other.changes)
        self.baseline.merge(other.baseline)
        self.new.merge(other.new)

    def summary(self, *, is_same_run: bool = False) -> Summary:
        """The summary of all cases counted so far; of a run beside itself, it says just that."""
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
            root_cause_breakdown={cause: self.new.roots[cause] for cause in ROOT_CAUSES},
            root_cause_breakdown_baseline={
                cause: self.baseline.roots[cause] for cause in ROOT_CAUSES
            },
            security=self._security(),
            verdict=self._no_change(change) if is_same_run else self._verdict(change),
            significance=_significance(change) if change else msgspec.UNSET,
            latency_ms=_mean_delta(self.baseline.latency, self.new.latency),
            cost_usd=_mean_delta(self.baseline.cost, self.new.cost),
            flaky_cases=flaky if flaky.baseline or flaky.new else msgspec.UNSET,
        )

    def _security(self) -> SecuritySummary:
        counted: dict[str, Any] = {}
        for name, side in (("new", self.new), ("baseline", self.baseline)):
            ordered = sorted(side.kinds.items(), key=lambda entry: (-entry[1], entry[0]))
            counted |= {
                f"cases_with_signals_{name}": side.with_signals,
                f"signal_counts_{name}": SeverityCounts(
                    *(side.severities[severity] for severity in SEVERITIES)
                ),
                f"top_signal_kinds_{name}": tuple(kind for kind, _ in ordered[:_TOP_KINDS]),
                f"signal_kinds_{name}": dict(sorted(side.kinds.items())),
            }
        return SecuritySummary(total_cases=self.cases, **counted)

    def _no_change(self, change: PairedChange | None) -> str:
        rate = f", pass rate {percent(change.new_rate)}" if change else ""
        return f"No change: a run compared with itself ({self.cases:,} compared{rate})."

    def _verdict(self, change: PairedChange | None) -> str:
        if change is None:
            return "Nothing to compare: no cases."
        silent = 0 < self.cases == self.baseline.unanswered
        against = [
            *_count(self.changes["regression"], "got worse", "got worse"),
            *_count(self.new.gated, "asks for a gate", "ask for a gate"),
            *_count(self.alarming, "has a new severe signal", "have new severe signals"),
            *_count(self.new.unanswered, "has no answer", "have no answer"),
            *(["the baseline answered nothing"] if silent else []),
        ]
        rates = f"pass rate {percent(change.baseline_rate)} → {percent(change.new_rate)}"
        if against:
            return f"Do not ship yet: {', '.join(against)} ({self.cases:,} compared, {rates})."
        better, failing = self.changes["improvement"], self.changes["still_failing"]
        parts = [
            "no case got worse or asks for a gate",
            *_count(better, "got better", "got better"),
            *_count(failing, "fails as before", "fail as before"),
        ]
        return f"Nothing blocks shipping: {', '.join(parts)} ({self.cases:,} compared, {rates})."


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


def env_snapshot(baseline: dict[str, Json], new: dict[str, Json]) -> dict[str, Any]:
    """The new run's environment, the baseline's beside it, and what differs between them."""
    before, after = _environment(baseline), _environment(new)
    changed = [
        f"{part}.{name}"
        for part, name, _ in _ENVIRONMENT
        if before.get(part, {}).get(name) != after.get(part, {}).get(name)
    ]
    return {**after, "baseline": before, "changed": changed}


def subject_of(meta: dict[str, Json], snapshot: dict[str, Any]) -> str:
    """What a report is about, in a title: suite, agent and day of the new run, where known."""
    suite, started = meta.get("suite"), meta.get("started_at")
    parts = [
        suite.get("id") if isinstance(suite, dict) else None,
        snapshot.get("agent", {}).get("name"),
    ]
    if isinstance(started, int | float) and 0 < started < _LAST_MS:
        parts.append(datetime.fromtimestamp(started / 1000, UTC).date().isoformat())
    return ", ".join(part[:200] for part in parts if isinstance(part, str) and part)


def _environment(meta: dict[str, Json]) -> dict[str, Any]:
    provenance = meta.get("provenance")
    known = {**meta, **provenance} if isinstance(provenance, dict) else meta
    snapshot: dict[str, Any] = {"evaluator": {"version": __version__}}
    for part, name, keys in _ENVIRONMENT:
        value = next((known[key] for key in keys if isinstance(known.get(key), str)), None)
        if value is not None:
            snapshot.setdefault(part, {})[name] = value
    params = known.get("model_params")
    if isinstance(params, dict):
        snapshot.setdefault("model", {})["params"] = params
    runner = meta.get("runner")
    if isinstance(runner, dict):
        said = {
            key: runner[key]
            for key in ("name", "version", "commit")
            if isinstance(runner.get(key), str)
        }
        if said:
            snapshot["runner"] = said
    return snapshot
