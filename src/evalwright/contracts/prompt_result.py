"""The canonical result of evaluating one prompt with one model, once."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

SCHEMA_VERSION = "1.0.0"
RUBRIC_VERSION = "1.0.0"

Criterion = Literal[
    "clarity", "specificity", "actionability", "structure", "completeness", "safety"
]
ErrorCode = Literal[
    "unavailable_model",
    "permission_denied",
    "rate_limited",
    "timeout",
    "parse_error",
    "file_not_found",
    "invalid_input",
    "internal_error",
]
InputType = Literal["markdown", "prompt_yaml"]
Grade = Literal["Exceptional", "Proficient", "Competent", "Developing", "Inadequate"]
ComplexityTier = Literal["simple", "moderate", "complex", "reasoning"]
FindingSeverity = Literal["error", "warning", "info"]

WEIGHTS: dict[Criterion, float] = {
    "clarity": 0.25,
    "specificity": 0.20,
    "actionability": 0.20,
    "structure": 0.15,
    "completeness": 0.10,
    "safety": 0.10,
}
GRADES: tuple[tuple[float, Grade], ...] = (
    (90, "Exceptional"),
    (80, "Proficient"),
    (70, "Competent"),
    (60, "Developing"),
    (0, "Inadequate"),
)
Score = Annotated[float, Meta(ge=1, le=10)]
Percentage = Annotated[float, Meta(ge=0, le=100)]


def grade(percentage: float) -> Grade:
    """The grade of a percentage: the first whose bar it reaches."""
    return next(name for bar, name in GRADES if percentage >= bar)


class _ResultFields(msgspec.Struct, frozen=True, omit_defaults=False):
    """Base of the parts of a result: unknown is null, not applicable is left out."""


class Input(_ResultFields, frozen=True):
    """The file that was evaluated."""

    path: str
    type: str
    title: str | UnsetType = UNSET
    category: str | UnsetType = UNSET
    absolute_path: str | UnsetType = UNSET
    frontmatter: dict[str, Any] | UnsetType = UNSET


class ModelFacts(_ResultFields, frozen=True):
    """The model that judged; for tier 0 the linter."""

    name: str
    provider: str
    version: str | None = None
    parameters: dict[str, Any] | UnsetType = UNSET


class ExecutionFacts(_ResultFields, frozen=True):
    """How the evaluation went."""

    tier: Annotated[int, Meta(ge=0, le=7)]
    run_index: Annotated[int, Meta(ge=1)]
    total_runs: Annotated[int, Meta(ge=1)]
    duration_seconds: Annotated[float, Meta(ge=0)]
    status: Literal["success", "error"]
    tier_name: str | UnsetType = UNSET
    error: str | UnsetType | None = UNSET
    error_code: ErrorCode | UnsetType | None = UNSET
    retries: int | UnsetType = UNSET


class CriterionScore(_ResultFields, frozen=True):
    """A criterion's score with its weight and the reason."""

    score: Score
    weight: Annotated[float, Meta(ge=0, le=1)]
    reasoning: str


class Scores(_ResultFields, frozen=True):
    """The scores: `overall` from 1 to 10, the others in percent."""

    overall: Score
    rubric: dict[Criterion, CriterionScore | Score]
    structural: Percentage | None
    geval: Percentage | None
    overall_normalized: Percentage | UnsetType = UNSET

    def by_criterion(self) -> dict[Criterion, float]:
        return {
            name: each.score if isinstance(each, CriterionScore) else each
            for name, each in self.rubric.items()
        }


class Complexity(_ResultFields, frozen=True):
    """How much a prompt asks for."""

    tier: ComplexityTier
    score: Percentage


class Finding(_ResultFields, frozen=True):
    """One place where a rule of the linter applies."""

    rule: str
    severity: FindingSeverity
    criterion: Criterion
    line: Annotated[int, Meta(ge=1)]
    column: Annotated[int, Meta(ge=1)]
    message: str
    more: Annotated[int, Meta(ge=1)] | UnsetType = UNSET  # of the same rule, which are not listed


class CaseVerdict(_ResultFields, frozen=True):
    """What one evaluator said of one row of `testData`."""

    evaluator: str
    passed: bool
    score: float
    reason: str


class PromptCase(_ResultFields, frozen=True):
    """One row of `testData` of a `.prompt.yml`, run and evaluated."""

    row: int
    passed: bool
    completion: str
    verdicts: list[CaseVerdict]


class Details(_ResultFields, frozen=True, omit_defaults=True):
    """Details beyond the fields of the specification."""

    findings: list[Finding] = []
    cases: list[PromptCase] = []
    method: str | None = None  # how scores came about: probabilities, samples, or a plain score
    covered_mass: float | None = None  # of the token probabilities that were used
    judge_overall: float | None = None  # as the judge gave it, kept as a check
    cost_usd: float | None = None
    content_sha256: str | None = None  # of the file, to know whether it changed
    not_a_prompt: str | None = None  # what it is instead, such as `licence`; it never passes
    skipped: bool = False  # no prompt, and in a folder that was named: it counts as passed over
    notes: list[str] = []


class Metadata(_ResultFields, frozen=True):
    """What made the result."""

    evaluator_version: str
    rubric_version: str
    platform: str | UnsetType = UNSET
    hostname: str | UnsetType = UNSET


class PromptResult(_ResultFields, frozen=True):
    """One record: a file, a model, a run."""

    schema_version: str
    eval_id: str
    timestamp: str
    input: Input
    model: ModelFacts
    execution: ExecutionFacts
    scores: Scores | None
    summary: str | None
    passed: bool
    threshold: Percentage
    grade: Grade | None
    recommendations: list[str] | UnsetType = UNSET
    issues: list[str] | UnsetType = UNSET
    complexity: Complexity | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    details: Details | UnsetType = UNSET
