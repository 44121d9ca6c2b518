"""Judging prompts for the command line: models by name, progress, and a journal to resume from."""

import os
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
from evalwright.contracts.redaction import Redactor
from evalwright.engine.clock import SystemClock
from evalwright.models.cassette import Cassette
from evalwright.models.config import load_config
from evalwright.models.endpoints import known_providers
from evalwright.models.load import Providers
from evalwright.models.names import parse_name
from evalwright.models.protocol import Model
from evalwright.models.secrets import known_secrets
from evalwright.prompts.document import Prompt
from evalwright.prompts.evaluate import EvaluationSettings, Linted
from evalwright.prompts.failing import EvaluationFailed
from evalwright.prompts.geval.steps import FileSteps, MemorySteps, default_path
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
    bench = _Bench(request, settings)
    results: list[PromptResult] = []
    with Journal.beside(request.outputs, resume=request.resume) as journal:
        total = len(files) * len(bench.judges) * settings.runs
        with PromptProgress(total, stderr(), quiet=request.quiet) as progress:

            def keep(result: PromptResult) -> None:
                journal.add(result)
                progress.take(result)

            def take(result: PromptResult) -> None:
                results.append(result)
                told(result)

            evaluation = JudgedEvaluation(
                files, bench.judges, settings, SystemClock(), journal.known, keep, take
            )
            unfinished = _run(bench, evaluation, journal)
    asked = {file.source.path for file in files}
    results += [each for each in journal.known.values() if each.input.path not in asked]
    return JudgedResults(
        results, unfinished, journal.finish if unfinished is None else lambda: None
    )


def _run(bench: "_Bench", evaluation: JudgedEvaluation, journal: Journal) -> CannotEvaluate | None:
    async def main() -> None:
        try:
            await evaluation.run()
        finally:
            await bench.close()

    try:
        run_until_interrupted(main())
    except BudgetSpent as spent:
        remedy = "give its price in evalwright.toml" if spent.unpriced else "--max-cost MORE"
        return CannotEvaluate(f"{spent} (--max-cost); {journal.how_to_resume()} and {remedy}")
    except Interrupted as interrupted:
        interrupted.add_note(journal.how_to_resume())
        raise
    return None


class _Bench:
    """The judges, by the names that the user gave."""

    def __init__(self, request: EvaluationRequest, settings: EvaluationSettings) -> None:
        self._config = load_config()
        redactor = Redactor(known_secrets(self._config, os.environ))
        self._cassette = (
            Cassette(request.cassette, request.record, redactor.redact_text)
            if request.cassette is not None
            else None
        )
        self._providers = Providers(self._config)
        self._settings = settings
        self._opened: dict[str, Model] = {}
        # A cassette must hold all that an evaluation asks, so nothing comes from another store.
        self._steps = MemorySteps() if self._cassette else FileSteps(default_path())
        self.judges: list[Judge] = [
            self._judge(name) for name in dict.fromkeys(map(self._full_name, settings.tier.models))
        ]

    def _full_name(self, name: str) -> str:
        """A name as `provider:model`, so that one model is not two judges; else as it is."""
        try:
            return str(parse_name(name, known_providers(self._config)))
        except BadInput:
            return name

    def _judge(self, name: str) -> Judge:
        """A judge by name; of one that cannot be asked, every evaluation is an error."""
        try:
            parsed = parse_name(name, known_providers(self._config))
        except BadInput as error:
            return _UnavailableJudge(
                ModelFacts(name, "unknown"), Failure("unavailable_model", str(error))
            )
        facts = ModelFacts(parsed.model, parsed.provider)
        try:
            model = self._load(name)
        except MissingKey as error:
            return _UnavailableJudge(facts, Failure("permission_denied", str(error)))
        except BadInput as error:
            return _UnavailableJudge(facts, Failure("unavailable_model", str(error)))
        return PromptJudge(model, facts, self._settings, self._steps, self._load)

    def _load(self, name: str) -> Model:
        if name not in self._opened:
            self._opened[name] = self._providers.load(name, self._cassette)
        return self._opened[name]

    async def close(self) -> None:
        """Let go of connections and of the cassette."""
        for model in self._opened.values():
            await model.close()
        if self._cassette is not None:
            self._cassette.close()


class _UnavailableJudge(msgspec.Struct):
    """A model that cannot be asked at all."""

    facts: ModelFacts
    reason: Failure

    async def judge(self, prompt: Prompt, run_index: int) -> Evaluated:  # noqa: ARG002
        """Say why not."""
        raise EvaluationFailed(self.reason.code, self.reason.message)
