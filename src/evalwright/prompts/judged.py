"""Evaluating prompts by models: every file with every judge in every run, records in order."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Protocol

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.prompt_result import RUBRIC_VERSION, ModelFacts, PromptResult
from evalwright.engine.clock import Clock
from evalwright.engine.workers import run_workers
from evalwright.prompts.document import Prompt
from evalwright.prompts.evaluate import (
    Emit,
    EvaluationSettings,
    Linted,
    new_run,
    unusable,
)
from evalwright.prompts.failure import EvaluationFailed
from evalwright.prompts.results import (
    Assessment,
    EvaluationRun,
    Failure,
    adds_up,
    by_threshold,
    failure,
    relinted,
    success,
    without_host_info,
)
from evalwright.prompts.sources import Source
from evalwright.scoring.summary import task_cost

Key = tuple[str, str, int]  # path, provider:model, run


class Evaluated(msgspec.Struct, frozen=True):
    """What a judge made of a prompt; the assessment lacks what the linter knows."""

    assessment: Assessment
    usages: Sequence[ProviderUsage] = ()
    retries: int = 0


class PanelJudge(Protocol):
    """Judges prompts with one model."""

    facts: ModelFacts

    async def judge(self, prompt: Prompt, run_index: int) -> Evaluated:
        """Judge a prompt once; raises `EvaluationFailed`."""


class BudgetSpent(Exception):
    """The budget is spent, or costs are unknown, and evaluations are left."""

    def __init__(self, spent_usd: float, left: int, *, unpriced: bool) -> None:
        self.unpriced = unpriced
        why = "a call has no known price" if unpriced else f"${spent_usd:.6g} spent"
        super().__init__(f"{why}, and {left} evaluations are left")


class JudgedEvaluation:
    """Tiers above 0: every judge judges every file in every run."""

    def __init__(
        self,
        files: Sequence[Linted],
        judges: Sequence[PanelJudge],
        settings: EvaluationSettings,
        clock: Clock,
        known: Mapping[Key, PromptResult],
        keep: Emit,
        emit: Emit,
    ) -> None:
        """`keep` gets each record as soon as it is made, `emit` gets all in order."""
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
        self._todo: list[int] = []
        self._next = 0
        self._done: dict[int, PromptResult] = {}
        self._emitted = 0
        self._spent = Decimal(0)
        self._unpriced = False

    async def run(self) -> None:
        """Evaluate all; raises `BudgetSpent` if some are left when the budget is spent."""
        for number, (file, judge, run) in enumerate(self._jobs):
            # A record that is still valid is handed on; it costs neither time nor money.
            known = self._known.get(job_key(file.source.path, judge.facts, run))
            if (
                known is not None
                and file.assessment is not None
                and not file.assessment.not_a_prompt
                and is_current(known, file.source, judge.facts, self._settings)
            ):
                self._finish(number, under(known, file.assessment, self._settings))
            else:
                self._todo.append(number)
        await run_workers(self._settings.concurrency, self._work)
        left = len(self._todo) - self._next
        if left:
            raise BudgetSpent(float(self._spent), left, unpriced=self._unpriced)

    async def _work(self) -> None:
        limit = self._settings.max_cost_usd
        while self._next < len(self._todo):
            if limit is not None and (self._spent >= Decimal(repr(limit)) or self._unpriced):
                return
            number = self._todo[self._next]
            self._next += 1
            self._finish(number, await self._guarded(*self._jobs[number]))

    async def _guarded(self, file: Linted, judge: PanelJudge, run: int) -> PromptResult:
        """A fault of ours is the error of one record, not the end of all."""
        try:
            return await self._evaluate(file, judge, run)
        except BadInput:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            made = new_run(file.source, judge.facts, self._settings, run, self._clock)
            reason = Failure("internal_error", f"{type(error).__name__}: {error}")
            return failure(made, reason, file.source.prompt)

    def _finish(self, number: int, result: PromptResult) -> None:
        """Hand records on in the order of the jobs, whichever ended first."""
        self._keep(result)
        self._done[number] = result
        while self._emitted in self._done:
            self._emit(self._done.pop(self._emitted))
            self._emitted += 1

    async def _evaluate(self, file: Linted, judge: PanelJudge, number: int) -> PromptResult:
        source, prompt, linted = file.source, file.source.prompt, file.assessment
        run = new_run(source, judge.facts, self._settings, number, self._clock)
        if prompt is None or linted is None:
            return unusable(run, source)
        if linted.not_a_prompt is not None:
            return success(run, prompt, linted)  # no model is asked about a licence
        started = self._clock.monotonic_s()
        try:
            made = await judge.judge(prompt, number)
        except EvaluationFailed as failed:
            cost = self._pay(failed.usages)
            reason = Failure(failed.code, failed.message, cost)
            return failure(self._timed(run, started, failed.retries), reason, prompt)
        found = msgspec.structs.replace(
            made.assessment,
            judged=True,
            structural=linted.structural,
            findings=linted.findings,
            complexity=linted.complexity,
            cost_usd=self._pay(made.usages),
        )
        return success(self._timed(run, started, made.retries), prompt, found)

    def _timed(self, run: EvaluationRun, started: float, retries: int) -> EvaluationRun:
        seconds = self._clock.monotonic_s() - started
        return msgspec.structs.replace(run, duration_seconds=seconds, retries=retries)

    def _pay(self, usages: Sequence[ProviderUsage]) -> float | None:
        """The cost, where it is known; what a cassette answers is not spent."""
        made = [usage for usage in usages if not usage.cache_hit]
        for usage in made:
            if usage.cost_estimate_usd is not None:
                self._spent += Decimal(repr(usage.cost_estimate_usd))
            elif usage.provider != "local" and (usage.input_tokens or usage.output_tokens):
                self._unpriced = True  # without tokens the provider reported no usage
        return task_cost(made)


def job_key(path: str, model: ModelFacts, run: int) -> Key:
    """What identifies a record: the file, the model and the run."""
    return path, f"{model.provider}:{model.name}", run


def is_current(
    result: PromptResult, source: Source, model: ModelFacts, settings: EvaluationSettings
) -> bool:
    """Whether an earlier record is still valid: same content, tier, rubric and judge."""
    if result.execution.status != "success" or result.execution.tier != settings.tier.number:
        return False
    details, metadata = result.details, result.metadata
    if isinstance(details, msgspec.UnsetType) or isinstance(metadata, msgspec.UnsetType):
        return False
    if not adds_up(result):
        return False
    same_judge = result.model.parameters == model.parameters
    same_rubric = metadata.rubric_version == RUBRIC_VERSION
    content = details.content_sha256
    return same_judge and same_rubric and content is not None and content == source.content_sha256


def under(result: PromptResult, linted: Assessment, settings: EvaluationSettings) -> PromptResult:
    """An earlier record with the threshold, runs and linter results of now."""
    execution = msgspec.structs.replace(result.execution, total_runs=settings.runs)
    now = msgspec.structs.replace(by_threshold(result, settings.threshold), execution=execution)
    return relinted(without_host_info(now), linted)
