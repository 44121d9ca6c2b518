"""Evaluating prompts by the linter alone, and what all tiers share."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.prompt_result import Finding, ModelFacts, PromptResult
from evalwright.contracts.times import iso_time
from evalwright.engine.clock import Clock, SystemClock
from evalwright.prompts.complexity import complexity
from evalwright.prompts.document_signs import PASSED_OVER
from evalwright.prompts.lint import ALL_RULES, Linter, Selection, document_kind, selection
from evalwright.prompts.results import (
    Assessment,
    EvaluationRun,
    Failure,
    assessed_document,
    failure,
    success,
)
from evalwright.prompts.rules.prompt_text import Reading
from evalwright.prompts.sources import PromptSearch, Source, find_files, read_source
from evalwright.prompts.structural import structural_scores
from evalwright.prompts.tiers import TIERS, Tier

NO_TASK = "PE201"
LINTER = ModelFacts("evalwright-lint", "static")
DEFAULT_THRESHOLD = 70.0
MOST_TOGETHER = 16  # files
_LARGE = 200_000  # characters of files that are linted together

Emit = Callable[[PromptResult], None]


class EvaluationSettings(msgspec.Struct, frozen=True):
    """How prompts are evaluated."""

    tier: Tier = TIERS[0]
    threshold: float = DEFAULT_THRESHOLD
    runs: int = 1
    concurrency: int = 8
    max_cost_usd: float | None = None
    selection: Selection = ALL_RULES


class Linted(NamedTuple):
    """A file with what the linter says of it; None where there is no prompt in it."""

    source: Source
    assessment: Assessment | None
    seconds: float = 0.0  # that the linter took


def lint_files(
    paths: Sequence[Path],
    *,
    threshold: float = DEFAULT_THRESHOLD,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    all_kinds: bool = False,
) -> list[PromptResult]:
    """Tier 0 of the prompts in files and folders, in the order of their paths.

    `select` and `ignore` name rules; `all_kinds` also takes other formats, agents and instructions
    out of folders. A file that cannot be read gives a result with the status `error`; an unknown
    rule, and paths without any prompt, are `BadInput`.
    """
    if not 0 <= threshold <= 100:
        raise BadInput("threshold: must be a number from 0 to 100")
    settings = EvaluationSettings(threshold=threshold, selection=selection(select, ignore))
    found = find_files(paths, PromptSearch(all_kinds))
    files = lint_each(map(read_source, found), settings.selection)
    return list(evaluate_structure(files, settings, SystemClock()))


def lint_each(sources: Iterable[Source], selected: Selection) -> Iterator[Linted]:
    """What the linter says of every file; some rules look at the library as a whole.

    A few at a time, and the first alone: of ten thousand files no more need be held, and what is
    known of one is not kept back for long.
    """
    linter = Linter(selected)
    most = 1
    batch: list[Source] = []
    size = 0
    for source in sources:
        batch.append(source)
        size += 0 if source.prompt is None else len(source.prompt.text)
        if len(batch) >= most or size >= _LARGE:
            yield from _linted_together(batch, size, linter)
            batch, size, most = [], 0, min(2 * most, MOST_TOGETHER)
    yield from _linted_together(batch, size, linter)


def _linted_together(batch: list[Source], size: int, linter: Linter) -> Iterator[Linted]:
    """What the linter says of some files; the time it took is shared out by their lengths."""
    began = time.perf_counter()
    outcomes = iter(linter.lint([each.prompt for each in batch if each.prompt is not None]))
    linted = []
    for source in batch:
        assessment = None
        try:
            if source.prompt is not None:
                assessment = _assessment(source, next(outcomes))
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the evaluation
            message = f"the linter failed: {type(error).__name__}: {error}"
            reason = Failure("internal_error", message)
            source = msgspec.structs.replace(source, prompt=None, failure=reason)  # noqa: PLW2901
        linted.append((source, assessment))
    seconds = (time.perf_counter() - began) / max(1, size)  # for each character
    for source, assessment in linted:
        taken = 0.0 if source.prompt is None else seconds * len(source.prompt.text)
        yield Linted(source, assessment, taken)


def _assessment(source: Source, outcome: tuple[Reading, list[Finding]] | Exception) -> Assessment:
    if isinstance(outcome, Exception):
        raise outcome
    reading, findings = outcome
    document = document_kind(reading)
    if document is not None:
        skipped = document in PASSED_OVER and not source.named
        if document in PASSED_OVER:  # rules about prompts say nothing about it
            findings = [each for each in findings if each.rule == NO_TASK]
        elif document == "no_instructions":  # nobody can tell: what is grave counts all the same
            findings = [each for each in findings if each.severity == "error"]
        return assessed_document(document, findings, skipped=skipped)
    scores = structural_scores(reading, findings)
    return Assessment(
        rubric=scores.rubric,
        summary=scores.summary,
        structural=scores.percentage,
        advice=scores.advice,
        findings=findings,
        complexity=complexity(reading.prompt, reading.lowered_body),
    )


def evaluate_structure(
    files: Iterable[Linted], settings: EvaluationSettings, clock: Clock
) -> Iterator[PromptResult]:
    """Tier 0: the linter alone."""
    for file in files:
        run = new_run(file.source, LINTER, settings, 1, clock, file.seconds)
        if file.assessment is None:
            yield unusable(run, file.source)
        else:
            assert file.source.prompt is not None
            yield success(run, file.source.prompt, file.assessment)


def new_run(
    source: Source,
    model: ModelFacts,
    settings: EvaluationSettings,
    number: int,
    clock: Clock,
    seconds: float = 0.0,
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
        run_index=number,
        total_runs=settings.runs,
        duration_seconds=seconds,
        threshold=settings.threshold,
        content_sha256=source.content_sha256,
    )


def unusable(run: EvaluationRun, source: Source) -> PromptResult:
    """The record of a file without a prompt."""
    assert source.failure is not None
    return failure(run, source.failure)
