"""Evaluating prompts by the linter alone, and what all tiers share."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import uuid4

import msgspec

from evalwright.contracts.events import iso_time
from evalwright.contracts.prompt_result import Finding, ModelFacts, PromptResult
from evalwright.engine.clock import Clock
from evalwright.prompts.complexity import complexity
from evalwright.prompts.lint import Linter, Selection
from evalwright.prompts.results import Assessment, EvaluationRun, Failure, failure, success
from evalwright.prompts.sources import Source
from evalwright.prompts.structural import StructuralResult, structural_scores
from evalwright.prompts.tiers import Tier

LINTER = ModelFacts("evalwright-lint", "static")

Emit = Callable[[PromptResult], None]


class EvaluationSettings(msgspec.Struct, frozen=True):
    """How prompts are evaluated."""

    tier: Tier
    threshold: float = 70.0
    runs: int = 1
    concurrency: int = 8
    max_cost_usd: float | None = None
    selection: Selection = Selection()


class Linted(NamedTuple):
    """A file with what the linter says of it."""

    source: Source
    findings: Sequence[Finding]
    structural: StructuralResult | None
    seconds: float = 0.0  # that the linter took


def lint_sources(sources: Sequence[Source], selection: Selection) -> list[Linted]:
    """What the linter says of every file; some rules look at the library as a whole."""
    linter = Linter(selection)
    return [_linted(source, linter) for source in sources]


def _linted(source: Source, linter: Linter) -> Linted:
    if source.prompt is None:
        return Linted(source, (), None)
    began = time.perf_counter()
    try:
        findings = linter.lint(source.prompt)
        scores = structural_scores(source.prompt, findings)
        return Linted(source, findings, scores, time.perf_counter() - began)
    except Exception as error:  # noqa: BLE001 - a fault of ours must not take the library with it
        reason = Failure("internal_error", f"the linter failed: {type(error).__name__}: {error}")
        broken = msgspec.structs.replace(source, prompt=None, failure=reason)
        return Linted(broken, (), None)


def evaluate_structure(
    files: Sequence[Linted], settings: EvaluationSettings, clock: Clock, emit: Emit
) -> None:
    """Tier 0: the linter alone."""
    for file in files:
        attempt = new_attempt(file.source, LINTER, settings, 1, clock)
        if file.structural is None:
            emit(unusable(attempt, file.source))
            continue
        assert file.source.prompt is not None
        took = msgspec.structs.replace(attempt, duration_seconds=file.seconds)
        emit(success(took, file.source.prompt, by_linter(file)))


def by_linter(file: Linted) -> Assessment:
    """What the linter knows of a prompt."""
    assert file.structural is not None
    assert file.source.prompt is not None
    return Assessment(
        rubric=file.structural.rubric,
        summary=file.structural.summary,
        structural=file.structural.percentage,
        findings=file.findings,
        complexity=complexity(file.source.prompt),
    )


def new_attempt(
    source: Source, model: ModelFacts, settings: EvaluationSettings, run: int, clock: Clock
) -> EvaluationRun:
    """An evaluation that begins now."""
    return EvaluationRun(
        eval_id=str(uuid4()),
        timestamp=iso_time(clock.now_us()),
        path=source.path,
        type=source.type,
        model=model,
        tier=settings.tier.number,
        tier_name=settings.tier.name,
        run_index=run,
        total_runs=settings.runs,
        duration_seconds=0.0,
        threshold=settings.threshold,
        content_sha256=source.content_sha256,
    )


def unusable(attempt: EvaluationRun, source: Source) -> PromptResult:
    """The record of a file that holds no prompt."""
    assert source.failure is not None
    return failure(attempt, source.failure)
