"""All cases together: counts, significance, the verdict in one sentence, and what was compared."""

from collections import Counter
from collections.abc import Callable, Sequence
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
    Differing,
    Item,
    JudgedCases,
    Security,
    SecuritySummary,
    SeverityCounts,
    Significance,
    Summary,
)
from evalwright.contracts.short_names import agent_name, suite_name
from evalwright.scoring.chance import ChangeTally, Passes
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


def blocks_shipping(summary: Summary) -> bool | None:
    """Whether there is any reason not to ship; None where nothing was expected of any case."""
    if summary.total_cases and not summary.judged.cases:
        return None
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

    `new_signals` are the severities of signals of kinds that the baseline does not have. A case is
    alarming when one of them is grave; what asks for a gate is counted as that.
    """

    case_id: str
    change: Change
    expected: bool
    answer_differs: bool
    calls_differ: bool
    passes: Passes
    alarming: bool
    new_signals: tuple[str, ...]
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
    # How often it passed on both sides: by own verdicts, else by its responses.
    counted = item.repeats if item.verdicts is msgspec.UNSET else item.verdicts
    if counted is msgspec.UNSET:
        passes = Passes(int(item.baseline_pass), 1, int(item.new_pass), 1)
    else:
        before, after = counted.baseline, counted.new
        passes = Passes(before.passed, before.runs, after.passed, after.runs)
    known = {kind for kind, _ in baseline.signals}
    fresh = tuple([severity for kind, severity in new.signals if kind not in known])
    return CaseFacts(
        item.case_id,
        item.change,
        item.expected is not False,
        item.answer_differs is True,
        item.calls_differ is True,
        passes,
        not new.gated and any(each in GRAVE for each in fresh),
        fresh,
        baseline,
        new,
    )


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


class CasesTally(msgspec.Struct):
    """How some cases changed: their results, their answers and calls, and new signals."""

    cases: int = 0
    answers_differ: int = 0
    calls_differ: int = 0
    changes: Counter[str] = msgspec.field(default_factory=Counter)
    chance: ChangeTally = msgspec.field(default_factory=ChangeTally)
    new_signals: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, facts: Sequence[CaseFacts]) -> None:
        """Count some cases."""
        self.cases += len(facts)
        self.answers_differ += sum([each.answer_differs for each in facts])
        self.calls_differ += sum([each.calls_differ for each in facts])
        self.changes.update([each.change for each in facts])
        self.chance.add([(each.case_id, each.passes) for each in facts])
        self.new_signals.update([severity for each in facts for severity in each.new_signals])

    def merge(self, other: "CasesTally") -> None:
        """Add the counts of another."""
        self.cases += other.cases
        self.answers_differ += other.answers_differ
        self.calls_differ += other.calls_differ
        self.changes.update(other.changes)
        self.chance.merge(other.chance)
        self.new_signals.update(other.new_signals)

    def in_words(self) -> str:
        """In which answers and calls differ, and new grave signals; empty if none."""
        told = [f"answers differ in {self.answers_differ:,}"] if self.answers_differ else []
        if self.calls_differ:
            told.append(f"calls {'' if told else 'differ '}in {self.calls_differ:,}")
        counts = [(self.new_signals[severity], severity) for severity in reversed(GRAVE)]
        told += [f"{n:,} new {severity} signal{'s' * (n > 1)}" for n, severity in counts if n]
        return ", ".join(told)


class CaseTally(msgspec.Struct):
    """Counts cases as they come; the order does not matter. The unjudged are counted apart."""

    alarming: int = 0
    judged: CasesTally = msgspec.field(default_factory=CasesTally)
    unjudged: CasesTally = msgspec.field(default_factory=CasesTally)
    baseline: SideTally = msgspec.field(default_factory=SideTally)
    new: SideTally = msgspec.field(default_factory=SideTally)

    @property
    def cases(self) -> int:
        """How many cases were counted."""
        return self.judged.cases + self.unjudged.cases

    def add(self, facts: Sequence[CaseFacts]) -> None:
        """Count some cases."""
        self.alarming += sum([each.alarming for each in facts])
        self.judged.add([each for each in facts if each.expected])
        self.unjudged.add([each for each in facts if not each.expected])
        self.baseline.add([each.baseline for each in facts])
        self.new.add([each.new for each in facts])

    def merge(self, other: "CaseTally") -> None:
        """Count the cases that another has counted."""
        self.alarming += other.alarming
        self.judged.merge(other.judged)
        self.unjudged.merge(other.unjudged)
        self.baseline.merge(other.baseline)
        self.new.merge(other.new)

    def _changed(self, change: Change) -> int:
        return self.judged.changes[change] + self.unjudged.changes[change]

    def summary(self, *, is_same_run: bool = False, name_of: Callable[[str], str] = str) -> Summary:
        """The summary of all cases counted so far; of a run beside itself, it says just that.

        `name_of` tells by which name people know a case.
        """
        judged, other = self.judged, self.unjudged
        change = paired_change(
            judged.changes["still_passing"],
            judged.changes["regression"],
            judged.changes["improvement"],
            judged.changes["still_failing"],
        )
        both = judged.changes["still_passing"]
        passed = both + judged.changes["regression"], both + judged.changes["improvement"]
        signals = judged.new_signals + other.new_signals
        flaky = BothSides(self.baseline.flaky, self.new.flaky)
        verdict = self._verdict(change)
        if is_same_run:
            rate = f", pass rate {percent(change.new_rate)}" if change else ""
            verdict = f"No change: a run compared with itself ({self.cases:,} compared{rate})."
        significance: Significance | msgspec.UnsetType = msgspec.UNSET
        if change is not None:
            chance = judged.chance.verdict().named(name_of)
            significance = Significance(
                test="of how often each case passed, exact, two-sided; interval: Newcombe, 95 %",
                cases=change.cases,
                baseline_rate=change.baseline_rate,
                new_rate=change.new_rate,
                difference=change.difference,
                confidence_interval=(change.low, change.high),
                p_value=chance.p_value,
                significant=chance.is_worse or chance.is_better,
                sentence=chance.sentence,
            )
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
        return Summary(
            total_cases=self.cases,
            baseline_pass=self.baseline.passed,
            new_pass=self.new.passed,
            regressions=self._changed("regression"),
            improvements=self._changed("improvement"),
            gated_cases=self.new.gated,
            alarming_cases=self.alarming,
            unanswered_cases=self.new.unanswered,
            unanswered_cases_baseline=self.baseline.unanswered,
            root_cause_breakdown={cause: self.new.roots[cause] for cause in ROOT_CAUSES},
            root_cause_breakdown_baseline={
                cause: self.baseline.roots[cause] for cause in ROOT_CAUSES
            },
            security=SecuritySummary(total_cases=self.cases, **counted),
            verdict=verdict,
            judged=JudgedCases(judged.cases, *passed),
            differing=Differing(
                judged.answers_differ + other.answers_differ,
                judged.calls_differ + other.calls_differ,
            ),
            new_signal_counts=SeverityCounts(*(signals[severity] for severity in SEVERITIES)),
            significance=significance,
            latency_ms=_mean_delta(self.baseline.latency, self.new.latency),
            cost_usd=_mean_delta(self.baseline.cost, self.new.cost),
            flaky_cases=flaky if flaky.baseline or flaky.new else msgspec.UNSET,
        )

    def _verdict(self, change: PairedChange | None) -> str:
        if not self.cases:
            return "Nothing to compare: no cases."
        silent = 0 < self.cases == self.baseline.unanswered
        unanswered = [
            *_count(self.new.unanswered, "has no answer", "have no answer"),
            *(["the baseline answered nothing"] if silent else []),
        ]
        worse = _count(self._changed("regression"), "got worse", "got worse")
        gated = _count(self.new.gated, "asks for a gate", "ask for a gate")
        if change is None:
            cases = "1 case" if self.cases == 1 else f"{self.cases:,} cases"
            told = ", ".join(filter(None, [self.unjudged.in_words(), *worse, *gated, *unanswered]))
            told = told or "answers and calls are the same"
            told = f"{told[:1].upper()}{told[1:]}"
            return f"Cannot tell: nothing was expected of {cases}. {told}."
        against = [
            *worse,
            *gated,
            *_count(self.alarming, "has a new severe signal", "have new severe signals"),
            *unanswered,
        ]
        rates = f"pass rate {percent(change.baseline_rate)} → {percent(change.new_rate)}"
        compared = f"{self.judged.cases:,} compared, {rates}"
        if self.unjudged.cases:
            apart = self.unjudged.in_words() or "answers and calls are the same"
            compared += f"; nothing was expected of {self.unjudged.cases:,} more: {apart}"
        if against:
            return f"Do not ship yet: {', '.join(against)} ({compared})."
        better, failing = self._changed("improvement"), self._changed("still_failing")
        parts = [
            "no case got worse or asks for a gate",
            *_count(better, "got better", "got better"),
            *_count(failing, "fails as before", "fail as before"),
            *_count(self.new.flaky, "is flaky", "are flaky"),
        ]
        found = "No regression" if failing or self.new.flaky else "Nothing blocks shipping"
        return f"{found}: {', '.join(parts)} ({compared})."


def _count(number: int, one: str, many: str) -> list[str]:
    if not number:
        return []
    return [f"1 case {one}" if number == 1 else f"{number:,} cases {many}"]


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
    suite, started, provenance = meta.get("suite"), meta.get("started_at"), meta.get("provenance")
    suite_id = suite.get("id") if isinstance(suite, dict) else None
    agent = snapshot.get("agent", {}).get("name")
    ref = provenance.get("agent_ref") if isinstance(provenance, dict) else None
    parts: list[Json] = [
        suite_name(suite_id) if isinstance(suite_id, str) else None,
        agent and agent_name(agent, ref if isinstance(ref, str) else ""),
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
