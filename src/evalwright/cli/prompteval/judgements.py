"""Judging prompts for the command line: progress, interrupts, and a journal to resume from."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import UnsetType

from evalwright.cli.output import Streams, run_until_interrupted, warn
from evalwright.cli.prompteval.journal import Journal
from evalwright.cli.prompts import EvaluationRequest
from evalwright.contracts.errors import CannotEvaluate, Interrupted
from evalwright.contracts.prompt_result import PromptResult
from evalwright.engine.clock import SystemClock
from evalwright.engine.session import ModelPool
from evalwright.models.config import Config
from evalwright.prompts.evaluate import EvaluationSettings, Linted
from evalwright.prompts.judge import load_judges
from evalwright.prompts.judged import BudgetSpent, JudgedEvaluation
from evalwright.reports.run.progress import progress_for


class JudgedResults(NamedTuple):
    """What came of it: records in order, why some are missing, and how to end the journal."""

    results: list[PromptResult]
    unfinished: CannotEvaluate | None
    finish: Callable[[], None]


def judge_files(
    request: EvaluationRequest,
    files: Sequence[Linted],
    settings: EvaluationSettings,
    emit: Callable[[PromptResult], None],
    config: Config,
) -> JudgedResults:
    """Have every model judge every file; what is done survives an interrupt, and a spent budget."""
    models = ModelPool(
        config,
        request.cassette,
        record=request.record,
        timeout_s=request.model_timeout_s,
        notify=warn,
    )
    judges = load_judges(models, settings)
    results: list[PromptResult] = []
    with Journal.next_to(request.outputs, resume=request.resume) as journal:
        total = len(files) * len(judges) * settings.runs
        with progress_for(Streams.err, total, quiet=request.quiet, noun="evaluations") as progress:

            def keep(result: PromptResult) -> None:
                journal.add(result)
                details = result.details
                progress.count(
                    passed=result.passed,
                    is_error=result.execution.status == "error",
                    cost_usd=None if isinstance(details, UnsetType) else details.cost_usd,
                )

            def add(result: PromptResult) -> None:
                results.append(result)
                emit(result)

            evaluation = JudgedEvaluation(
                files, judges, settings, SystemClock(), journal.known, keep, add
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
