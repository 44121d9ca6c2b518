"""Report Contract v1: the shapes of `compare-report.json`.

Absent fields are omitted, never null. What the contract reserves for later (`env_snapshot`,
`nondeterminism_sources`, `governance_preview`) is written; what goes beyond it is optional.
"""

from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

import msgspec

MACHINE_REPORT = "compare-report.json"

Severity: TypeAlias = Literal["low", "medium", "high", "critical"]
Confidence: TypeAlias = Literal["low", "medium", "high"]
# Those of the contract, and two of ours before `unknown`.
RootCause: TypeAlias = Literal[
    "format_violation",
    "wrong_tool_choice",
    "missing_required_data",
    "hallucination_signal",
    "tool_failure",
    "wrong_answer",
    "limit_exceeded",
    "unknown",
]
Recommendation: TypeAlias = Literal["none", "warn", "require_approval", "block"]
Change: TypeAlias = Literal["regression", "improvement", "still_failing", "still_passing"]
ToldChange: TypeAlias = Change | Literal["differs", "same"]

SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high", "critical")
GRAVE: tuple[Severity, ...] = ("high", "critical")
CONFIDENCES: tuple[Confidence, ...] = ("low", "medium", "high")
ROOT_CAUSES: tuple[RootCause, ...] = get_args(RootCause)

Side = TypeVar("Side")


class ReportFields(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of the report; fields that are at their default are omitted."""


class BothSides(msgspec.Struct, Generic[Side], frozen=True):
    """The same thing for the baseline and for the new run."""

    baseline: Side
    new: Side


class EvidenceRef(ReportFields, frozen=True):
    """Points at the event that proves a signal; `index` is its place in the case's `events`."""

    kind: Literal["tool_result", "retrieval_doc", "tool_call", "message", "final_output"]
    call_id: str | None = None
    id: str | None = None
    index: int | None = None


class SignalDetails(ReportFields, frozen=True):
    """Where to look. `provenance` gives the source of each suspicious field's value."""

    tool: str | None = None
    call_id: str | None = None
    action_id: str | None = None
    fields: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    provenance: dict[str, str] = {}
    rule: str | None = None
    notes: str | None = None


class Signal(msgspec.Struct, frozen=True):
    """One security-relevant observation in one trace."""

    kind: str
    severity: Severity
    confidence: Confidence
    title: str
    details: SignalDetails
    evidence_refs: tuple[EvidenceRef, ...]


class Suppressed(msgspec.Struct, frozen=True):
    """A signal that a suppression took out, with the reason it gives."""

    signal: Signal
    reason: str
    expires: str


class Integrity(msgspec.Struct, frozen=True):
    """The wire form of a trace's integrity."""

    status: Literal["ok", "partial", "broken"]
    issues: tuple[str, ...]


class Security(ReportFields, frozen=True, omit_defaults=False):
    """The signals of one side, and whether they ask for a gate."""

    signals: tuple[Signal, ...]
    requires_gate_recommendation: bool
    suppressed: tuple[Suppressed, ...] | msgspec.UnsetType = msgspec.UNSET


class FailedAssertion(ReportFields, frozen=True):
    """An expectation that did not hold."""

    name: str
    expected: Any
    actual: Any
    message: str
    cause: RootCause | msgspec.UnsetType = msgspec.UNSET  # if a check has another than usual


class Governance(msgspec.Struct, frozen=True):
    """What a runtime gate would do with this case, and why."""

    recommendation: Recommendation
    reason: str


class Divergence(ReportFields, frozen=True):
    """The first step at which the two traces part; an index is absent where a side has no step."""

    step: int
    reason: str
    baseline_index: int | None = None
    new_index: int | None = None
    baseline: str | None = None
    new: str | None = None
    turn: int | None = None  # of a conversation, from 1


class Delta(ReportFields, frozen=True):
    """A measure on both sides, where both recorded it."""

    baseline: float
    new: float
    change: float


class Repeats(ReportFields, frozen=True, omit_defaults=False):
    """How often a case was run on one side, and how often it passed."""

    runs: int
    passed: int
    flaky: bool
    response_hrefs: tuple[str, ...] = ()


class CountedVerdicts(msgspec.Struct, frozen=True):
    """How many verdicts of a run's own there are on a case, and how many of them say it passed."""

    runs: int
    passed: int


class Artifacts(ReportFields, frozen=True):
    """Links out of an item, all relative to the report directory."""

    replay_diff_href: str
    baseline_failure_body_href: str | None = None
    baseline_failure_meta_href: str | None = None
    new_failure_body_href: str | None = None
    new_failure_meta_href: str | None = None
    baseline_case_response_href: str | None = None
    new_case_response_href: str | None = None
    baseline_run_meta_href: str | None = None
    new_run_meta_href: str | None = None


class Item(msgspec.Struct, frozen=True):
    """One case, compared; `expected` is only written where nothing was expected of its answers."""

    case_id: str
    title: str
    baseline_pass: bool
    new_pass: bool
    change: Change
    preventable_by_policy: bool
    recommended_policy_rules: tuple[str, ...]
    trace_integrity: BothSides[Integrity]
    security: BothSides[Security]
    artifacts: Artifacts
    failed_assertions: BothSides[tuple[FailedAssertion, ...]]
    governance_preview: BothSides[Governance]
    nondeterminism_sources: BothSides[tuple[str, ...]]
    faults: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    baseline_root: RootCause | msgspec.UnsetType = msgspec.UNSET
    new_root: RootCause | msgspec.UnsetType = msgspec.UNSET
    first_divergence: Divergence | msgspec.UnsetType = msgspec.UNSET
    latency_ms: Delta | msgspec.UnsetType = msgspec.UNSET
    cost_usd: Delta | msgspec.UnsetType = msgspec.UNSET
    repeats: BothSides[Repeats] | msgspec.UnsetType = msgspec.UNSET
    verdicts: BothSides[CountedVerdicts] | msgspec.UnsetType = msgspec.UNSET
    paired_by: str | msgspec.UnsetType = msgspec.UNSET
    expected: Literal[False] | msgspec.UnsetType = msgspec.UNSET
    answer_differs: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    calls_differ: Literal[True] | msgspec.UnsetType = msgspec.UNSET

    @property
    def told_change(self) -> ToldChange:
        """How it changed, for people: what passes for want of anything expected is not judged."""
        if self.expected is not False or self.change != "still_passing":
            return self.change
        return "differs" if self.answer_differs is True or self.calls_differ is True else "same"


class PairingSummary(msgspec.Struct, frozen=True):
    """How many cases without a case id were paired in which way, and in words."""

    by: dict[str, int]
    unpaired_baseline: int
    unpaired_new: int
    note: str


class SeverityCounts(msgspec.Struct):
    """How many signals of each severity."""

    low: int = 0
    medium: int = 0
    high: int = 0
    critical: int = 0


class SecuritySummary(msgspec.Struct):
    """Signals over all cases."""

    total_cases: int
    cases_with_signals_new: int
    cases_with_signals_baseline: int
    signal_counts_new: SeverityCounts
    signal_counts_baseline: SeverityCounts
    top_signal_kinds_new: tuple[str, ...]
    top_signal_kinds_baseline: tuple[str, ...]
    signal_kinds_new: dict[str, int] = {}
    signal_kinds_baseline: dict[str, int] = {}


class Significance(msgspec.Struct, frozen=True):
    """Whether the change is more than chance: a paired, exact test, and what it says."""

    test: str
    cases: int
    baseline_rate: float
    new_rate: float
    difference: float
    confidence_interval: tuple[float, float]
    p_value: float
    significant: bool
    sentence: str = ""


class JudgedCases(msgspec.Struct, frozen=True):
    """The cases of which something was expected: how many there are, and how many passed."""

    cases: int
    baseline_pass: int
    new_pass: int


class Differing(msgspec.Struct, frozen=True):
    """How many cases have other answers, and how many other calls, than in the baseline."""

    answers: int
    calls: int


class Summary(msgspec.Struct, omit_defaults=False):
    """What one sentence, a dashboard or a gate needs."""

    total_cases: int
    baseline_pass: int
    new_pass: int
    regressions: int
    improvements: int
    gated_cases: int
    alarming_cases: int
    unanswered_cases: int
    unanswered_cases_baseline: int
    root_cause_breakdown: dict[str, int]
    root_cause_breakdown_baseline: dict[str, int]
    security: SecuritySummary
    verdict: str
    judged: JudgedCases
    differing: Differing
    new_signal_counts: SeverityCounts
    significance: Significance | msgspec.UnsetType = msgspec.UNSET
    latency_ms: Delta | msgspec.UnsetType = msgspec.UNSET
    cost_usd: Delta | msgspec.UnsetType = msgspec.UNSET
    flaky_cases: BothSides[int] | msgspec.UnsetType = msgspec.UNSET


class QualityFlags(msgspec.Struct, frozen=True):
    """Whether the folder on disk keeps the contract's promises."""

    self_contained: bool
    portable_paths: bool
    missing_assets_count: int
    path_violations_count: int
    missing_assets: tuple[str, ...]
    path_violations: tuple[str, ...]
    secrets_masked: bool


class PolicyRule(msgspec.Struct, frozen=True):
    """A rule that would have prevented a failure."""

    id: str
    title: str
    rationale: str
    remedy: str
