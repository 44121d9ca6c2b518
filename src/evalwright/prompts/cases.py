"""Running a `.prompt.yml`: every row of its test data through its messages and its evaluators."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from evalwright.contracts.errors import BadInput, MissingKey
from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.jsonvalue import stringify
from evalwright.contracts.prompt_result import CaseVerdict, ErrorCode, PromptCase
from evalwright.engine.workers import run_workers
from evalwright.models.protocol import ChatMessage, Model, ModelError, Reply, Request
from evalwright.prompts.evaluators import (
    COMPLETION,
    RATINGS,
    asked_shorter,
    built_in_request,
    compare,
    llm_request,
    needs_expected,
    read_choice,
)
from evalwright.prompts.failure import EvaluationFailed, error_code
from evalwright.prompts.prompt_yaml import (
    BuiltInEvaluator,
    Choice,
    Evaluator,
    LlmEvaluator,
    PromptFile,
    Row,
    StringEvaluator,
    fill,
    placeholders,
)
from evalwright.prompts.results import Failure

ROWS_AT_ONCE = 4
MOST_ASKS = 3  # of a judge whose replies are cut off
MOST_LISTED = 10  # rows in a note
INPUT = "input"  # what the built-in judges read of a row
EXPECTED = "expected"

_UNFINISHED = {
    "refusal": "is a refusal",
    "length": "was cut off at the limit of its length",
    "filtered": "was cut off by the provider's content filter",
}

# A model by its name, None where its provider is no more; raises `BadInput`.
# Whoever gives it closes the models.
Models = Callable[[str], Model | None]


class CaseRun(msgspec.Struct, frozen=True):
    """The cases of a file in the order of its rows, what they cost, and what a reader must know."""

    cases: list[PromptCase]
    usages: list[ProviderUsage]
    notes: list[str]
    retries: int = 0


async def run_cases(
    file: PromptFile,
    subject: Model,
    judge: Model | None,
    models: Models | None = None,
    run_index: int = 1,
) -> CaseRun:
    """Run all rows; raises `EvaluationFailed`, with all that was spent, when a model fails.

    An `llm` evaluator is judged by the model that it names, where there are `models`, else by
    `judge`. The run's number is the seed, so that every run makes new requests.
    """
    if not file.rows:
        return CaseRun([], [], ["the file has no testData, so no case was run"])
    # Rows that a built-in judge could not compare are refused before anything is spent.
    built_in = (each for each in file.evaluators if isinstance(each, BuiltInEvaluator))
    comparing = next((each for each in built_in if needs_expected(each)), None)
    for at, values in enumerate(file.rows):
        if comparing is not None and values.get(EXPECTED) is None:
            message = (
                f"{file.source}: $.testData[{at}]: `expected` is missing, which "
                f"{comparing.uses} compares with (add it to the row)"
            )
            raise EvaluationFailed("invalid_input", message)
    named = _named_judges(file, models)
    judges: list[Model | None] = []
    for evaluator in file.evaluators:
        found = None
        if not isinstance(evaluator, StringEvaluator):
            found = named.get(_model_id(evaluator) or "", judge)
            if found is None:
                message = (
                    f"{file.source}: evaluator {evaluator.name!r} needs a judge, and none was "
                    "named (name a model that judges)"
                )
                raise EvaluationFailed("unavailable_model", message)
        judges.append(found)
    rows = [_RowRun(file, number, row, run_index) for number, row in enumerate(file.rows, 1)]
    await _run_all(rows, subject, judges)
    usages = [usage for row in rows for usage in row.usages]
    retries = sum(row.retries for row in rows)
    for row in rows:
        if row.failure is not None:
            raise EvaluationFailed(row.failure.code, row.failure.message, usages, retries)
    cases = [row.case for row in rows if row.case is not None]
    notes = [*_notes(file, named), *(note for row in rows for note in row.notes)]
    return CaseRun(cases, usages, notes, retries)


async def _run_all(
    rows: Sequence["_RowRun"], subject: Model, judges: Sequence[Model | None]
) -> None:
    """Run some rows at once; after a failure those under way end, and no other begins."""
    waiting = iter(rows)
    failed = False

    async def work() -> None:
        nonlocal failed
        for row in waiting:
            if failed:
                return
            await row.run(subject, judges)
            if row.failure is not None:
                failed = True

    await run_workers(ROWS_AT_ONCE, work)


class _RowRun:
    """One row: the case it made, or why it made none, and what was spent on it."""

    def __init__(self, file: PromptFile, number: int, row: Row, run_index: int) -> None:
        self.case: PromptCase | None = None
        self.failure: Failure | None = None
        self.usages: list[ProviderUsage] = []
        self.retries = 0
        self.notes: list[str] = []
        self._file = file
        self._number = number
        self._row = row
        self._run_index = run_index

    async def run(self, subject: Model, judges: Sequence[Model | None]) -> None:
        try:
            parameters = self._file.parameters
            said = ((one.role, fill(one.content, self._row)) for one in self._file.messages)
            request = Request(
                tuple(ChatMessage(role, content) for role, content in said),
                output=self._file.output,
                temperature=parameters.temperature,
                top_p=parameters.top_p,
                max_tokens=parameters.max_tokens,
            )
            reply = await self._ask(subject, request, "model")
            if reply.finish in _UNFINISHED:
                self.notes.append(f"row {self._number}: the completion {_UNFINISHED[reply.finish]}")
            completion = reply.text.strip()
            verdicts = [
                await self._verdict(evaluator, judge, completion)
                for evaluator, judge in zip(self._file.evaluators, judges, strict=True)
            ]
            passed = all(verdict.passed for verdict in verdicts)
            self.case = PromptCase(self._number, passed, completion, verdicts)
        except EvaluationFailed as failed:
            self.failure = Failure(failed.code, failed.message)

    async def _verdict(
        self, evaluator: Evaluator, judge: Model | None, completion: str
    ) -> CaseVerdict:
        if isinstance(evaluator, StringEvaluator):
            return compare(evaluator, self._row, completion)
        assert judge is not None, "judges are found before anything is run"
        choices: Sequence[Choice] = RATINGS
        if isinstance(evaluator, LlmEvaluator):
            choices = evaluator.choices
            request = llm_request(evaluator, self._row, completion)
        else:
            asked = ""
            if INPUT in self._row:
                asked = stringify(self._row[INPUT])
            elif of_user := [one for one in self._file.messages if one.role == "user"]:
                asked = fill(of_user[-1].content, self._row)
            expected = stringify(self._row.get(EXPECTED, ""))
            request = built_in_request(evaluator, asked, expected, completion)
        who = f"evaluator {evaluator.name!r}, judge"
        reply = await self._ask(judge, request, who)
        for _ in range(MOST_ASKS - 1):
            if reply.finish != "length":
                break
            request = asked_shorter(request, reply)
            reply = await self._ask(judge, request, who)
            self.retries += 1
        if reply.finish in _UNFINISHED:
            message = f"{who} {judge.name}: the reply {_UNFINISHED[reply.finish]}"
            raise self._failed("parse_error", message)
        return read_choice(evaluator.name, choices, reply.text)

    async def _ask(self, model: Model, request: Request, who: str) -> Reply:
        seeded = msgspec.structs.replace(request, seed=self._run_index)
        try:
            reply = await model.ask(seeded)
        except ModelError as error:
            self.retries += error.retries
            if error.usage is not None:
                self.usages.append(error.usage)
            raise self._failed(error_code(error), f"{who} {model.name}: {error.message}") from error
        self.usages.append(reply.usage)
        self.retries += reply.retries
        return reply

    def _failed(self, code: ErrorCode, message: str) -> EvaluationFailed:
        return EvaluationFailed(code, f"{self._file.source}: row {self._number}: {message}")


def _named_judges(file: PromptFile, models: Models | None) -> dict[str, Model]:
    """The models that evaluators name, by their names, as far as they are still offered."""
    wanted = {_model_id(each): each.name for each in reversed(file.evaluators)}
    if models is None:
        return {}
    loaded = {
        name: load_named(models, name, f"{file.source}: evaluator {evaluator!r}")
        for name, evaluator in wanted.items()
        if name is not None
    }
    return {name: model for name, model in loaded.items() if model is not None}


def _model_id(evaluator: Evaluator) -> str | None:
    return evaluator.model_id if isinstance(evaluator, LlmEvaluator) else None


def load_named(models: Models, name: str, where: str) -> Model | None:
    """A model that a file names; raises `EvaluationFailed`."""
    if name.startswith("scripted:") or name.lower().endswith(".gguf"):
        # A prompt must bring neither its own judge nor its answers.
        message = f"{where}: a file is not a model that a prompt may name; name a model"
        raise EvaluationFailed("invalid_input", message)
    try:
        return models(name)
    except BadInput as error:
        message = f"{where}: {error}"
        code: ErrorCode = (
            "permission_denied" if isinstance(error, MissingKey) else "unavailable_model"
        )
        raise EvaluationFailed(code, message) from error


def _notes(file: PromptFile, named: Mapping[str, Model]) -> Iterable[str]:
    if not file.evaluators:
        yield "the file has no evaluators, so every case passed"
    for evaluator in file.evaluators:
        if isinstance(evaluator, LlmEvaluator):
            if COMPLETION not in placeholders(evaluator.prompt):
                yield (
                    f"evaluator {evaluator.name!r}: its prompt has no {{{{completion}}}}, "
                    "so the judge did not see what it judged"
                )
            if evaluator.model_id and evaluator.model_id not in named:
                yield (
                    f"evaluator {evaluator.name!r}: judged by the run's judge, "
                    f"not {evaluator.model_id}"
                )
    # Placeholders without a value, and in which rows; they were sent unfilled.
    used = [name for message in file.messages for name in placeholders(message.content)]
    for evaluator in file.evaluators:
        if isinstance(evaluator, StringEvaluator):
            used += placeholders(evaluator.value)
        elif isinstance(evaluator, LlmEvaluator):
            used += [name for name in placeholders(evaluator.prompt) if name != COMPLETION]
    for name in dict.fromkeys(used):
        rows = [number for number, row in enumerate(file.rows, 1) if name not in row]
        if not rows:
            continue
        where = f"row {', '.join(map(str, rows[:MOST_LISTED]))}"
        if len(rows) == len(file.rows):
            where = "any row"
        elif len(rows) > MOST_LISTED:
            where += f" and {len(rows) - MOST_LISTED} others"
        yield f"{{{{{name}}}}} has no value in {where}; it was left as it is"
