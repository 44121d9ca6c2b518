"""Judging prompts for the command line: progress, interrupts, and a journal to resume from."""

import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from types import TracebackType
from typing import NamedTuple, Self, TextIO

from msgspec import UnsetType

from evalwright.cli.output import Streams, run_until_interrupted, warn
from evalwright.cli.prompteval.journal import Journal
from evalwright.cli.prompts import EvaluationRequest
from evalwright.contracts.amounts import dollars
from evalwright.contracts.errors import CannotEvaluate, Interrupted
from evalwright.contracts.prompt_result import PromptResult
from evalwright.engine.clock import SystemClock
from evalwright.engine.session import ModelPool
from evalwright.models.config import Config
from evalwright.prompts.evaluate import EvaluationSettings, Linted
from evalwright.prompts.judge import load_judges
from evalwright.prompts.judged import BudgetSpent, JudgedEvaluation

LINE_EVERY_SECONDS = 5.0
BAR = 20


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
        with PromptProgress(total, Streams.err, quiet=request.quiet) as progress:

            def keep(result: PromptResult) -> None:
                journal.add(result)
                progress.add(result)

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


class PromptProgress:
    """One line that is rewritten on a terminal; elsewhere a line now and then."""

    def __init__(self, total: int, stream: TextIO, *, quiet: bool) -> None:
        self._total = total
        self._stream = stream
        self._quiet = quiet
        self._rewrites = stream.isatty()
        self._done = 0
        self._passed = 0
        self._errors = 0
        self._cost = Decimal(0)
        self._began = time.monotonic()
        self._said_at = self._began

    def add(self, result: PromptResult) -> None:
        """Count a record."""
        self._done += 1
        self._passed += result.passed
        self._errors += result.execution.status == "error"
        details = result.details
        if not isinstance(details, UnsetType) and details.cost_usd is not None:
            self._cost += Decimal(repr(details.cost_usd))
        now = time.monotonic()
        if self._rewrites or now - self._said_at >= LINE_EVERY_SECONDS:
            self._said_at = now
            self._say()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._rewrites and self._done and not self._quiet:
            self._stream.write("\n")

    def line(self) -> str:
        """The progress in one line."""
        filled = BAR * self._done // self._total
        bar = "█" * filled + "░" * (BAR - filled)
        facts = [f"{bar} {self._done}/{self._total} evaluations", f"{self._passed} passed"]
        if self._errors:
            facts.append(f"{self._errors} {'error' if self._errors == 1 else 'errors'}")
        if self._cost:
            facts.append(dollars(float(self._cost)))
        left = self._total - self._done
        if left:
            pace = (time.monotonic() - self._began) / self._done
            facts.append(f"about {round(pace * left)} s left")
        return " · ".join(facts)

    def _say(self) -> None:
        if self._quiet:
            return
        if self._rewrites:
            self._stream.write(f"\r\x1b[2K{self.line()}")
        else:
            self._stream.write(f"{self.line()}\n")
        self._stream.flush()
