"""From what was found out about a prompt to its record."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import UNSET, UnsetType

from evalwright import __version__
from evalwright.contracts.prompt_result import (
    RUBRIC_VERSION,
    SCHEMA_VERSION,
    WEIGHTS,
    Complexity,
    Criterion,
    CriterionScore,
    Details,
    ErrorCode,
    ExecutionFacts,
    Finding,
    Input,
    Metadata,
    ModelFacts,
    PromptCase,
    PromptResult,
    Scores,
    grade,
)
from evalwright.prompts.document import Prompt
from evalwright.prompts.document_signs import DESCRIPTIONS, DocumentKind

DIGITS = 4  # of scores; more would be noise
_LOWEST_SCORE = 1.0
_REMEDY = "Move it out of the prompts, or write what a model is to do."
_EXACT_WEIGHTS = {name: Decimal(repr(weight)) for name, weight in WEIGHTS.items()}


class Assessment(msgspec.Struct, frozen=True):
    """What was found out about a prompt: a score and a reason for each criterion, and more."""

    rubric: Mapping[Criterion, tuple[float, str]]
    summary: str
    structural: float | None
    judged: bool = False  # by a model; the linter alone makes no `geval`
    advice: Mapping[Criterion, str] = {}  # what to change, with an example
    findings: Sequence[Finding] = ()
    cases: Sequence[PromptCase] = ()
    complexity: Complexity | None = None
    method: str | None = None
    covered_mass: float | None = None
    judge_overall: float | None = None
    cost_usd: float | None = None
    notes: Sequence[str] = ()
    not_a_prompt: DocumentKind | None = None  # what the file is instead; it never passes then
    skipped: bool = False


class Failure(msgspec.Struct, frozen=True):
    """Why there is no assessment."""

    code: ErrorCode
    message: str
    cost_usd: float | None = None


class EvaluationRun(msgspec.Struct, frozen=True):
    """One evaluation of one file: which, when, how long it took."""

    eval_id: str
    timestamp: str
    path: str
    type: str
    model: ModelFacts
    tier: int
    tier_name: str
    run_index: int
    total_runs: int
    duration_seconds: float
    threshold: float
    retries: int = 0
    content_sha256: str | None = None


def weighted_mean(scores: Mapping[Criterion, float]) -> float:
    """The mean of the criteria by their weights, exact in decimal."""
    parts = (weight * Decimal(repr(scores[name])) for name, weight in _EXACT_WEIGHTS.items())
    return float(sum(parts, Decimal(0)))


def success(run: EvaluationRun, prompt: Prompt, found: Assessment) -> PromptResult:
    """The record of an evaluation that was made."""
    scores = {name: score for name, (score, _) in found.rubric.items()}
    score = round(weighted_mean(scores), DIGITS)
    percentage = round(score * 10, DIGITS)
    by_criterion = {name: round(scores[name] * 10, DIGITS) for name in WEIGHTS}
    return PromptResult(
        schema_version=SCHEMA_VERSION,
        eval_id=run.eval_id,
        timestamp=run.timestamp,
        input=Input(
            path=prompt.path,
            type=prompt.type,
            title=prompt.title,
            category=prompt.category,
            frontmatter=UNSET if prompt.frontmatter is None else prompt.frontmatter,
        ),
        model=run.model,
        execution=_execution(run, None),
        scores=Scores(
            overall=score,
            overall_normalized=percentage,
            rubric={
                name: CriterionScore(
                    round(found.rubric[name][0], DIGITS), weight, found.rubric[name][1]
                )
                for name, weight in WEIGHTS.items()
            },
            structural=found.structural,
            geval=percentage if found.judged else None,
        ),
        summary=found.summary,
        passed=found.not_a_prompt is None
        and percentage >= run.threshold
        and all(case.passed for case in found.cases),
        threshold=run.threshold,
        grade=grade(percentage),
        recommendations=recommendations(by_criterion, run.threshold, found.advice)
        if found.not_a_prompt is None
        else [f"{found.summary} {_REMEDY}"],
        issues=_issues(found.findings, found.cases),
        complexity=found.complexity or UNSET,
        metadata=Metadata(__version__, RUBRIC_VERSION),
        details=Details(
            findings=list(found.findings),
            cases=list(found.cases),
            method=found.method,
            covered_mass=found.covered_mass,
            judge_overall=found.judge_overall,
            cost_usd=found.cost_usd,
            content_sha256=run.content_sha256,
            notes=[*prompt.notes, *found.notes],
            not_a_prompt=found.not_a_prompt,
            skipped=found.skipped,
        ),
    )


def failure(run: EvaluationRun, reason: Failure, prompt: Prompt | None = None) -> PromptResult:
    """The record of an evaluation that could not be made; it never passes."""
    return PromptResult(
        schema_version=SCHEMA_VERSION,
        eval_id=run.eval_id,
        timestamp=run.timestamp,
        input=Input(
            path=run.path,
            type=run.type,
            title=prompt.title if prompt else UNSET,
            category=prompt.category if prompt else UNSET,
        ),
        model=run.model,
        execution=_execution(run, reason),
        scores=None,
        summary=None,
        passed=False,
        threshold=run.threshold,
        grade=None,
        metadata=Metadata(__version__, RUBRIC_VERSION),
        details=Details(cost_usd=reason.cost_usd, content_sha256=run.content_sha256),
    )


def assessed_document(
    kind: DocumentKind, findings: Sequence[Finding], *, skipped: bool
) -> Assessment:
    """What there is to say of a file that is no prompt: the lowest score, and why."""
    reason = f"Not a prompt but {DESCRIPTIONS[kind]}."
    return Assessment(
        rubric=dict.fromkeys(WEIGHTS, (_LOWEST_SCORE, reason)),
        summary=reason,
        structural=_LOWEST_SCORE * 10,
        findings=findings,
        not_a_prompt=kind,
        skipped=skipped,
    )


def by_threshold(result: PromptResult, threshold: float) -> PromptResult:
    """A successful record as it would be with another threshold."""
    assert result.scores is not None
    details = Details() if isinstance(result.details, UnsetType) else result.details
    percentage = round(result.scores.overall * 10, DIGITS)
    scores = result.scores.by_criterion()
    by_criterion = {name: round(scores[name] * 10, DIGITS) for name in WEIGHTS}
    return msgspec.structs.replace(
        result,
        threshold=threshold,
        passed=details.not_a_prompt is None
        and percentage >= threshold
        and all(case.passed for case in details.cases),
        recommendations=recommendations(by_criterion, threshold),
    )


def is_skipped(result: PromptResult) -> bool:
    """Whether a file is no prompt, and was passed over in a folder."""
    return not isinstance(result.details, UnsetType) and result.details.skipped


def adds_up(result: PromptResult) -> bool:
    """Whether the overall score and the grade of a record follow from its criteria."""
    if result.scores is None:
        return False
    right = round(weighted_mean(result.scores.by_criterion()), DIGITS)
    return result.scores.overall == right and result.grade == grade(round(right * 10, DIGITS))


def relinted(result: PromptResult, linted: Assessment) -> PromptResult:
    """A record with what the linter says now in place of what it said then."""
    assert result.scores is not None
    details = Details() if isinstance(result.details, UnsetType) else result.details
    return msgspec.structs.replace(
        result,
        scores=msgspec.structs.replace(result.scores, structural=linted.structural),
        issues=_issues(linted.findings, details.cases),
        complexity=linted.complexity or UNSET,
        details=msgspec.structs.replace(details, findings=list(linted.findings)),
    )


def without_host_info(result: PromptResult) -> PromptResult:
    """A record that says nothing of the machine it was made on."""
    metadata = result.metadata
    if not isinstance(metadata, UnsetType):
        metadata = msgspec.structs.replace(metadata, platform=UNSET, hostname=UNSET)
    source = msgspec.structs.replace(result.input, absolute_path=UNSET)
    return msgspec.structs.replace(result, input=source, metadata=metadata)


def minimal(result: PromptResult) -> PromptResult:
    """The required fields alone."""
    replace = msgspec.structs.replace
    execution = replace(result.execution, tier_name=UNSET)
    if result.execution.status == "success":
        execution = replace(execution, error=UNSET, error_code=UNSET, retries=UNSET)
    scores = result.scores
    if scores is not None:
        plain: dict[Criterion, CriterionScore | float] = {**scores.by_criterion()}
        scores = replace(scores, rubric=plain, overall_normalized=UNSET)
    return replace(
        result,
        input=replace(result.input, frontmatter=UNSET, absolute_path=UNSET),
        model=replace(result.model, parameters=UNSET),
        execution=execution,
        scores=scores,
        recommendations=UNSET,
        issues=UNSET,
        complexity=UNSET,
        metadata=UNSET,
        details=UNSET,
    )


def with_host_info(result: PromptResult) -> PromptResult:
    """The record with the file's absolute path and the names of machine and platform."""
    import platform
    import socket

    replace = msgspec.structs.replace
    absolute = UNSET if result.input.path == "-" else str(Path(result.input.path).absolute())
    metadata = Metadata(__version__, RUBRIC_VERSION, platform.system(), socket.gethostname())
    return replace(result, input=replace(result.input, absolute_path=absolute), metadata=metadata)


def _execution(run: EvaluationRun, reason: Failure | None) -> ExecutionFacts:
    return ExecutionFacts(
        tier=run.tier,
        tier_name=run.tier_name,
        run_index=run.run_index,
        total_runs=run.total_runs,
        duration_seconds=round(run.duration_seconds, 3),
        status="error" if reason else "success",
        error=reason.message if reason else None,
        error_code=reason.code if reason else None,
        retries=run.retries,
    )


def recommendations(
    percentages: Mapping[Criterion, float],
    threshold: float,
    advice: Mapping[Criterion, str] = MappingProxyType({}),
) -> list[str]:
    """What to improve: every criterion below the threshold, the worst first.

    Where it is known what to change, that is said; a judge gives reasons of its own instead.
    """
    low = [(value, name) for name, value in percentages.items() if value < threshold]
    low.sort(key=lambda entry: entry[0])
    return [
        f"{advice[name]} ({name} {percent(value, threshold)})"
        if name in advice
        else f"Improve {name}: currently {percent(value, threshold)} ({grade(value)})"
        for value, name in low
    ]


def percent(value: float, bar: float | None = None) -> str:
    """A percentage with at most one decimal; rounding never lifts it over a grade or the bar."""
    shown = round(value, 1)
    if shown > value and (
        grade(shown) != grade(value) or (bar is not None and value < bar <= shown)
    ):
        shown = round(shown - 0.1, 1)
    return f"{shown:g}%"


def _issues(findings: Sequence[Finding], cases: Sequence[PromptCase]) -> list[str]:
    issues = [f"line {each.line}: {each.message} ({each.rule})" for each in findings]
    for case in cases:
        if not case.passed:
            failed = (each for each in case.verdicts if not each.passed)
            reasons = "; ".join(f"{each.evaluator}: {each.reason}" for each in failed)
            issues.append(f"test case {case.row} failed: {reasons}")
    return issues
