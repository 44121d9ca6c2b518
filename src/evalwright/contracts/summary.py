"""EvalSummary: the content-free scorecard of a run."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from evalwright.contracts.suite import Closed, ModelClass, Score

# \Z and not $, which in Python also matches before a newline at the end.
SuiteId = Annotated[str, Meta(pattern=r"^[a-z0-9.-]+\.evals\.[a-z0-9-]+\Z")]
Version = Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+\Z")]
TaskId = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]*\Z")]


class SafetyFinding(Closed, frozen=True):
    """A category and a severity, never an excerpt."""

    kind: str
    severity: Literal["low", "medium", "high", "critical"]


class TaskResult(Closed, frozen=True):
    """The result of one task."""

    task_id: TaskId
    score: Score
    passed: bool
    cost_usd: float | None = None
    latency_ms: int | None = None
    schema_valid: bool | None = None
    safety_findings: list[SafetyFinding] | None = None


class Regression(Closed, frozen=True):
    """The change against a baseline run."""

    baseline_run_id: str
    score_delta: float
    diff_ref: str | None = None


class EvalSummary(Closed, frozen=True):
    """The scorecard that a gate reads."""

    suite_id: SuiteId
    suite_version: Version
    aggregate_score: Score
    passed: bool
    task_count: int
    passed_count: int
    tasks: list[TaskResult]
    evaluated_model_class: ModelClass | None = None
    total_cost_usd: float | None = None
    regression: Regression | None = None


def to_json(summary: EvalSummary | list[EvalSummary]) -> bytes:
    """A summary, or those of repeats, as indented JSON: the bytes that commands print as JSON."""
    return msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"
