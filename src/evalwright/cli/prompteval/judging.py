"""Judging prompts for the command line: models by name, progress, and a journal to resume from."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from evalwright.cli.interrupt import run_until_interrupted
from evalwright.cli.output import stderr
from evalwright.cli.prompteval.journal import Journal
from evalwright.cli.prompteval.progress import PromptProgress
from evalwright.cli.prompts import EvaluationRequest
from evalwright.contracts.errors import BadInput, CannotEvaluate, Interrupted, MissingKey
from evalwright.contracts.prompt_result import ModelFacts, PromptResult
from evalwright.engine.clock import SystemClock
from evalwright.engine.model_pool import ModelPool
from evalwright.prompts.document import Prompt
from evalwright.prompts.evaluate import EvaluationSettings, Linted
from evalwright.prompts.failing import EvaluationFailed
from evalwright.prompts.geval.steps import FileSteps, MemorySteps, StepStore, default_path
from evalwright.prompts.judge import PromptJudge
from evalwright.prompts.judged import (
    BudgetSpent,
    Evaluated,
    Judge,
    JudgedEvaluation,
)
from evalwright.prompts.results import Failure


class JudgedResults(NamedTuple):
    """What came of it: records in order, why some are missing, and how to end the journal."""

    results: list[PromptResult]
    unfinished: CannotEvaluate | None
    finish: Callable[[], None]


def judge_files(
    request: EvaluationRequest,
    files: Sequence[Linted],
    settings: EvaluationSettings,
    told: Callable[[PromptResult], None],
) -> JudgedResults:
    """Have every model judge every file; what is done survives an interrupt, and a spent budget."""
    models = ModelPool(cassette=request.cassette, record=request.record)
    # A cassette must hold all that an evaluation asks, so nothing comes from another store.
    steps = MemorySteps() if models.cassette else FileSteps(default_path())
    names = dict.fromkeys(_full_name(name, models) for name in settings.tier.models)
    judges = [_judge(name, models, settings, steps) for name in names]
    results: list[PromptResult] = []
    with Journal.beside(request.outputs, resume=request.resume) as journal:
        total = len(files) * len(judges) * settings.runs
        with PromptProgress(total, stderr(), quiet=request.quiet) as progress:

            def keep(result: PromptResult) -> None:
                journal.add(result)
                progress.take(result)

            def take(result: PromptResult) -> None:
                results.append(result)
                told(result)

            evaluation = JudgedEvaluation(
                files, judges, settings, SystemClock(), journal.known, keep, take
            )
            unfinished = _run(models, evaluation, journal)
    asked = {file.source.path for file in files}
    results += [each for each in journal.known.values() if each.input.path not in asked]
    return JudgedResults(
        results, unfinished, journal.finish if unfinished is None else lambda: None
    )


def _run(
    models: ModelPool, evaluation: JudgedEvaluation, journal: Journal
) -> CannotEvaluate | None:
    async def main() -> None:
        try:
            await evaluation.run()
        finally:
            await models.close()

    try:
        run_until_interrupted(main())
    except BudgetSpent as spent:
        remedy = "give its price in evalwright.toml" if spent.unpriced else "--max-cost MORE"
        return CannotEvaluate(f"{spent} (--max-cost); {journal.how_to_resume()} and {remedy}")
    except Interrupted as interrupted:
        interrupted.add_note(journal.how_to_resume())
        raise
    return None


def _judge(name: str, models: ModelPool, settings: EvaluationSettings, steps: StepStore) -> Judge:
    """A judge by name; of one that cannot be asked, every evaluation is an error."""
    try:
        parsed = models.name(name)
    except BadInput as error:
        return _UnavailableJudge(
            ModelFacts(name, "unknown"), Failure("unavailable_model", str(error))
        )
    facts = ModelFacts(parsed.model, parsed.provider)
    try:
        model = models.load(name)
    except MissingKey as error:
        return _UnavailableJudge(facts, Failure("permission_denied", str(error)))
    except BadInput as error:
        return _UnavailableJudge(facts, Failure("unavailable_model", str(error)))
    return PromptJudge(model, facts, settings, steps, models.load)


def _full_name(name: str, models: ModelPool) -> str:
    """A name as `provider:model`, so that one model is not two judges; else as it is."""
    try:
        return str(models.name(name))
    except BadInput:
        return name


class _UnavailableJudge(msgspec.Struct):
    """A model that cannot be asked at all."""

    facts: ModelFacts
    reason: Failure

    async def judge(self, prompt: Prompt, run_index: int) -> Evaluated:  # noqa: ARG002
        """Say why not."""
        raise EvaluationFailed(self.reason.code, self.reason.message)
