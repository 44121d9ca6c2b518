"""Evaluating prompts by models: every file with every judge in every run, records in order."""

import asyncio
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Protocol

import msgspec

from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.prompt_result import RUBRIC_VERSION, ModelFacts, PromptResult
from evalwright.engine.clock import Clock
from evalwright.prompts.document import Prompt
from evalwright.prompts.evaluate import Emit, Linted, Settings, by_linter, new_attempt, unusable
from evalwright.prompts.failing import EvaluationFailed
from evalwright.prompts.results import (
    Assessment,
    Attempt,
    Failure,
    by_threshold,
    failure,
    success,
)
from evalwright.prompts.sources import Source
from evalwright.scoring.summary import task_cost

Key = tuple[str, str, int]  # path, provider:model, run


class Evaluated(msgspec.Struct, frozen=True):
    """What a judge made of a prompt; the assessment lacks what the linter knows."""

    assessment: Assessment
    usages: Sequence[ProviderUsage] = ()
    retries: int = 0


class Judge(Protocol):
    """Judges prompts with one model."""

    facts: ModelFacts

    async def judge(self, prompt: Prompt, run_index: int) -> Evaluated:
        """Judge a prompt once; raises `EvaluationFailed`."""


class BudgetSpent(Exception):
    """The budget is spent or cannot be watched over, and evaluations are left."""

    def __init__(self, spent_usd: float, left: int, *, unpriced: bool) -> None:
        self.unpriced = unpriced
        why = "a call has no known price" if unpriced else f"${spent_usd:.6g} are spent"
        super().__init__(f"{why}, and {left} evaluations are left")


class JudgedEvaluation:
    """Tiers above 0: every judge judges every file in every run."""

    def __init__(
        self,
        files: Sequence[Linted],
        judges: Sequence[Judge],
        settings: Settings,
        clock: Clock,
        known: Mapping[Key, PromptResult],
        keep: Emit,
        emit: Emit,
    ) -> None:
        """`keep` is told of each record as soon as it is made, `emit` of all in order."""
        self._settings = settings
        self._clock = clock
        self._known = known
        self._keep = keep
        self._emit = emit
        self._jobs = [
            (file, judge, run)
            for file in files
            for judge in judges
            for run in range(1, settings.runs + 1)
        ]
        self._next = 0
        self._done: dict[int, PromptResult] = {}
        self._emitted = 0
        self._spent = Decimal(0)
        self._unpriced = False

    async def run(self) -> None:
        """Evaluate all; raises `BudgetSpent` when some are left and nothing to spend."""
        workers = [asyncio.create_task(self._work()) for _ in range(self._settings.concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        left = len(self._jobs) - self._next
        if left:
            raise BudgetSpent(float(self._spent), left, unpriced=self._unpriced)

    async def _work(self) -> None:
        while self._next < len(self._jobs) and self._has_money():
            number = self._next
            self._next += 1
            self._finish(number, await self._evaluate(*self._jobs[number]))

    def _has_money(self) -> bool:
        limit = self._settings.max_cost_usd
        return limit is None or (self._spent < Decimal(repr(limit)) and not self._unpriced)

    def _finish(self, number: int, result: PromptResult) -> None:
        """Hand records on in the order of the jobs, whichever ended first."""
        self._keep(result)
        self._done[number] = result
        while self._emitted in self._done:
            self._emit(self._done.pop(self._emitted))
            self._emitted += 1

    async def _evaluate(self, file: Linted, judge: Judge, run: int) -> PromptResult:
        source, prompt = file.source, file.source.prompt
        known = self._known.get(job_key(source.path, judge.facts, run))
        if known is not None and is_current(known, source, judge.facts, self._settings):
            self._spent += _recorded_cost(known)
            return under(known, self._settings)
        attempt = new_attempt(source, judge.facts, self._settings, run, self._clock)
        if prompt is None:
            return unusable(attempt, source)
        started = self._clock.monotonic_s()
        try:
            made = await judge.judge(prompt, run)
        except EvaluationFailed as failed:
            cost = self._pay(failed.usages)
            reason = Failure(failed.code, failed.message, cost)
            timed = msgspec.structs.replace(self._timed(attempt, started), retries=failed.retries)
            return failure(timed, reason, prompt)
        found = self._with_linter(file, made)
        timed = msgspec.structs.replace(self._timed(attempt, started), retries=made.retries)
        return success(timed, prompt, found)

    def _timed(self, attempt: Attempt, started: float) -> Attempt:
        seconds = self._clock.monotonic_s() - started
        return msgspec.structs.replace(attempt, duration_seconds=seconds)

    def _with_linter(self, file: Linted, made: Evaluated) -> Assessment:
        linted = by_linter(file)
        return msgspec.structs.replace(
            made.assessment,
            judged=True,
            structural=linted.structural,
            findings=linted.findings,
            complexity=linted.complexity,
            cost_usd=self._pay(made.usages),
        )

    def _pay(self, usages: Sequence[ProviderUsage]) -> float | None:
        """The cost, where it is known; what a cassette answers is not spent."""
        for usage in usages:
            if usage.cache_hit:
                continue
            if usage.cost_estimate_usd is None:
                self._unpriced = True
            else:
                self._spent += Decimal(repr(usage.cost_estimate_usd))
        return task_cost(usages)


def job_key(path: str, model: ModelFacts, run: int) -> Key:
    """What tells the records of one evaluation apart."""
    return path, f"{model.provider}:{model.name}", run


def is_current(result: PromptResult, source: Source, model: ModelFacts, settings: Settings) -> bool:
    """Whether a record that was made before still stands: same content, tier, rubric and judge."""
    if result.execution.status != "success" or result.execution.tier != settings.tier.number:
        return False
    details, metadata = result.details, result.metadata
    if isinstance(details, msgspec.UnsetType) or isinstance(metadata, msgspec.UnsetType):
        return False
    same_judge = result.model.parameters == model.parameters
    same_rubric = metadata.rubric_version == RUBRIC_VERSION
    content = details.content_sha256
    return same_judge and same_rubric and content is not None and content == source.content_sha256


def under(result: PromptResult, settings: Settings) -> PromptResult:
    """A record that was made before, by the threshold and the number of runs of now."""
    execution = msgspec.structs.replace(result.execution, total_runs=settings.runs)
    return msgspec.structs.replace(by_threshold(result, settings.threshold), execution=execution)


def _recorded_cost(result: PromptResult) -> Decimal:
    details = result.details
    cost = None if isinstance(details, msgspec.UnsetType) else details.cost_usd
    return Decimal(repr(cost or 0.0))
