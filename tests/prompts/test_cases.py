"""Running a `.prompt.yml`: rows become cases, and a model that fails is never a pass."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import ProviderUsage
from evalwright.models.prices import Tokens
from evalwright.models.protocol import ChatMessage, Model, ModelError, OutputSchema, Request
from evalwright.models.scripted import ScriptedModel, ScriptedReply
from evalwright.models.transport import NoConnection
from evalwright.prompts.cases import ROWS_AT_ONCE, CaseRun, run_cases
from evalwright.prompts.evaluators import CHOICE_TOKENS
from evalwright.prompts.failure import EvaluationFailed
from evalwright.prompts.prompt_yaml import PromptFile, parse_prompt_yaml, placeholders

BESIDE = Path(__file__).parents[3] / "shared" / "data"  # beside the repository, never in it
LIBRARY = Path(os.environ.get("PROMPT_DATA", BESIDE / "prompts")) / "library" / "testing"
POLITE: dict[str, Any] = {
    "name": "polite",
    "llm": {
        "prompt": "Is this polite? {{completion}}",
        "choices": [{"choice": "yes", "score": 1}, {"choice": "no", "score": 0}],
    },
}


def a_file(*rows: Any, evaluators: Any = (), **fields: Any) -> PromptFile:
    document = {
        "messages": [
            {"role": "system", "content": "Be {{tone}}."},
            {"role": "user", "content": "Greet {{name}}."},
        ],
        "testData": list(rows),
        "evaluators": list(evaluators),
        **fields,
    }
    return parse_prompt_yaml(yaml.safe_dump(document), "greet.prompt.yml")


class Recorder:
    """A scripted model that keeps what it was asked."""

    def __init__(self, answer: Callable[[Request], Any] | str, name: str = "subject") -> None:
        self.asked: list[Request] = []
        self._answer = answer
        self.model = ScriptedModel(name, self._reply)

    def _reply(self, request: Request) -> Any:
        self.asked.append(request)
        return self._answer if isinstance(self._answer, str) else self._answer(request)


def run(file: PromptFile, subject: Recorder, judge: Recorder | None = None, **more: Any) -> CaseRun:
    return asyncio.run(run_cases(file, subject.model, judge and judge.model, **more))


def failure(
    file: PromptFile, subject: Recorder, judge: Recorder | None = None, **more: Any
) -> EvaluationFailed:
    with pytest.raises(EvaluationFailed) as caught:
        run(file, subject, judge, **more)
    return caught.value


def last(request: Request) -> str:
    return request.messages[-1].content


def failing_for(name: str, error: ModelError) -> Recorder:
    def answer(request: Request) -> str:
        if name in last(request):
            raise error
        return "Hello"

    return Recorder(answer)


ANN = {"tone": "kind", "name": "Ann"}
BOB = {"tone": "kind", "name": "Bob"}


def test_every_row_goes_through_the_messages() -> None:
    subject = Recorder(lambda request: f"  {last(request)}\n")
    made = run(a_file(ANN, {"tone": ["a", 1], "name": "{{tone}}"}), subject)
    assert [case.completion for case in made.cases] == ["Greet Ann.", "Greet {{tone}}."]
    assert [case.row for case in made.cases] == [1, 2]
    assert subject.asked[1].messages == (
        ChatMessage("system", 'Be ["a",1].'),
        ChatMessage("user", "Greet {{tone}}."),
    )


def test_the_parameters_and_the_format_of_the_file_are_asked_for() -> None:
    subject = Recorder("{}")
    parameters = {"max_tokens": 50, "temperature": 0.3, "topP": 0.9}
    file = a_file(ANN, modelParameters=parameters, responseFormat="json_object")
    run(file, subject, run_index=3)
    asked = subject.asked[0]
    assert (asked.max_tokens, asked.temperature, asked.top_p, asked.seed) == (50, 0.3, 0.9, 3)
    assert asked.output == OutputSchema("response", {"type": "object"})


def test_a_case_passes_when_all_evaluators_pass() -> None:
    evaluators = [
        {"name": "hello", "string": {"startsWith": "hello"}},
        {"name": "named", "string": {"contains": "{{name}}"}},
    ]
    made = run(a_file(ANN, BOB, evaluators=evaluators), Recorder("Hello Ann"))
    assert [case.passed for case in made.cases] == [True, False]
    assert [verdict.passed for verdict in made.cases[1].verdicts] == [True, False]
    assert made.cases[1].verdicts[1].evaluator == "named"
    assert made.notes == []


def test_without_test_data_no_case_is_run() -> None:
    subject = Recorder("Hello")
    made = run(a_file(evaluators=[POLITE]), subject)
    assert made == CaseRun([], [], ["the file has no testData, so no case was run"])
    assert subject.asked == []


def test_without_evaluators_cases_are_run_and_pass_with_a_note() -> None:
    made = run(a_file(ANN), Recorder("Hello"))
    assert [(case.passed, case.verdicts) for case in made.cases] == [(True, [])]
    assert made.notes == ["the file has no evaluators, so every case passed"]


def test_a_judge_answers_with_one_of_the_choices() -> None:
    judge = Recorder(lambda request: "No." if "Off with you" in last(request) else "Yes.", "judge")
    subject = Recorder(lambda request: "Off with you" if "Bob" in last(request) else "Hello")
    made = run(a_file(ANN, BOB, evaluators=[POLITE]), subject, judge, run_index=2)
    assert [case.passed for case in made.cases] == [True, False]
    assert made.cases[1].verdicts[0].reason == 'the judge chose "no"'
    assert {request.seed for request in judge.asked} == {2}
    assert len(made.usages) == 4


def test_a_judge_that_the_evaluator_names_is_loaded_once_and_judges() -> None:
    named = Recorder("yes", "named")
    names: list[str] = []

    def models(name: str) -> Model:
        names.append(name)
        return named.model

    judging = {**POLITE, "llm": {**POLITE["llm"], "modelId": "openai/gpt-4o"}}
    judge = Recorder("no", "judge")
    file = a_file(ANN, BOB, evaluators=[judging, {**judging, "name": "again"}, POLITE])
    made = run(file, Recorder("Hello"), judge, models=models)
    assert names == ["openai/gpt-4o"]
    assert [verdict.passed for verdict in made.cases[0].verdicts] == [True, True, False]
    assert (len(named.asked), len(judge.asked)) == (4, 2)


def test_a_named_judge_that_cannot_be_loaded_fails_before_anything_is_spent() -> None:
    def models(name: str) -> Model:
        raise BadInput(f"model {name!r}: there is no key")

    judging = {**POLITE, "llm": {**POLITE["llm"], "modelId": "openai:o1"}}
    subject = Recorder("Hello")
    failed = failure(a_file(ANN, evaluators=[judging]), subject, Recorder("yes"), models=models)
    assert failed.code == "unavailable_model"
    assert failed.message == (
        "greet.prompt.yml: evaluator 'polite': model 'openai:o1': there is no key"
    )
    assert subject.asked == []


def test_a_judge_whose_provider_is_no_more_is_replaced_by_that_of_the_run_and_a_note_says_so() -> (
    None
):
    judging = {**POLITE, "llm": {**POLITE["llm"], "modelId": "openai/gpt-4o"}}
    file = a_file(ANN, evaluators=[judging])
    made = run(file, Recorder("Hello"), Recorder("yes"), models=lambda _: None)
    assert made.cases[0].passed
    assert made.notes == ["evaluator 'polite': judged by the run's judge, not openai/gpt-4o"]


def test_where_no_models_can_be_loaded_the_judge_of_the_run_judges_and_a_note_says_so() -> None:
    judging = {**POLITE, "llm": {**POLITE["llm"], "modelId": "openai/gpt-4o"}}
    made = run(a_file(ANN, evaluators=[judging]), Recorder("Hello"), Recorder("yes"))
    assert made.cases[0].passed
    assert made.notes == ["evaluator 'polite': judged by the run's judge, not openai/gpt-4o"]


@pytest.mark.parametrize("evaluator", [POLITE, {"uses": "github/fluency"}])
def test_an_evaluator_without_any_judge_fails_before_anything_is_spent(evaluator: Any) -> None:
    subject = Recorder("Hello")
    failed = failure(a_file(ANN, evaluators=[evaluator]), subject)
    assert failed.code == "unavailable_model"
    assert "needs a judge" in failed.message
    assert subject.asked == []


def test_a_built_in_judge_is_shown_the_input_of_the_row_or_what_the_user_said() -> None:
    judge = Recorder("4", "judge")
    file = a_file({**ANN, "input": {"q": 1}}, BOB, evaluators=[{"uses": "github/relevance"}])
    made = run(file, Recorder("Hello"), judge)
    shown = [last(request) for request in judge.asked]
    assert '>>>\n{"q":1}\n<<<END INPUT' in shown[0]
    assert ">>>\nGreet Bob.\n<<<END INPUT" in shown[1]
    assert [case.verdicts[0].score for case in made.cases] == [0.75, 0.75]
    assert made.cases[0].verdicts[0].evaluator == "github/relevance"


def test_a_built_in_judge_that_compares_needs_something_expected_in_every_row() -> None:
    subject = Recorder("Hello")
    file = a_file({**ANN, "expected": "Hi"}, BOB, evaluators=[{"uses": "github/similarity"}])
    failed = failure(file, subject, Recorder("5"))
    assert failed.code == "invalid_input"
    assert failed.message == (
        "greet.prompt.yml: $.testData[1]: `expected` is missing, which github/similarity "
        "compares with (add it to the row)"
    )
    assert subject.asked == []
    whole = a_file({**ANN, "expected": "Hi"}, evaluators=[{"uses": "github/similarity"}])
    assert run(whole, subject, Recorder("5")).cases[0].passed


@pytest.mark.parametrize("code", ["rate_limited", "timeout", "permission_denied", "invalid_input"])
def test_a_model_that_fails_for_a_row_fails_the_file_and_what_was_spent_is_kept(code: Any) -> None:
    failed = failure(a_file(ANN, BOB), failing_for("Bob", ModelError(code, "no luck")))
    assert failed.code == code
    assert failed.message == "greet.prompt.yml: row 2: model scripted:subject: no luck"
    assert len(failed.usages) == 1


def test_a_call_that_failed_and_was_paid_for_is_counted() -> None:
    error = ModelError("parse_error", "no JSON")
    error.usage = ProviderUsage("scripted", "subject", 7, 0, cost_estimate_usd=0.5)
    failed = failure(a_file(ANN), failing_for("Ann", error))
    assert list(failed.usages) == [error.usage]


def test_a_model_that_nobody_answers_for_is_an_internal_error() -> None:
    def answer(_: Request) -> str:
        raise ModelError("unavailable_model", "no connection") from NoConnection("refused")

    assert failure(a_file(ANN), Recorder(answer)).code == "internal_error"


def test_a_judge_that_fails_fails_the_file_and_the_completion_is_paid_for() -> None:
    def answer(_: Request) -> str:
        raise ModelError("rate_limited", "slow down")

    failed = failure(a_file(ANN, evaluators=[POLITE]), Recorder("Hello"), Recorder(answer, "judge"))
    assert failed.code == "rate_limited"
    assert failed.message == (
        "greet.prompt.yml: row 1: evaluator 'polite', judge scripted:judge: slow down"
    )
    assert len(failed.usages) == 1


@pytest.mark.parametrize(
    ("finish", "told", "asks"), [("refusal", "a refusal", 1), ("length", "cut off", 3)]
)
def test_a_judge_that_refuses_or_is_cut_off_again_and_again_gave_no_verdict(
    finish: Any, told: str, asks: int
) -> None:
    judge = Recorder(lambda _: ScriptedReply(text="yes", finish=finish), "judge")
    failed = failure(a_file(ANN, evaluators=[POLITE]), Recorder("Hello"), judge)
    assert failed.code == "parse_error"
    assert told in failed.message
    assert len(failed.usages) == 1 + asks


def test_a_judge_whose_reply_runs_on_is_asked_for_the_choice_alone_and_every_call_counts() -> None:
    replies = iter([ScriptedReply(text="I think " * 900, finish="length"), "yes"])
    judge = Recorder(lambda _: next(replies), "judge")
    made = run(a_file(ANN, evaluators=[POLITE]), Recorder("Hello"), judge)
    assert made.cases[0].passed
    first, again = judge.asked
    assert first.max_tokens == CHOICE_TOKENS
    assert [message.role for message in again.messages[2:]] == ["assistant", "user"]
    assert len(again.messages[2].content) < 500
    assert "with the choice alone" in again.messages[3].content
    assert (len(made.usages), made.retries) == (3, 1)


@pytest.mark.parametrize(("finish", "told"), [("refusal", "is a refusal"), ("length", "was cut")])
def test_a_completion_that_is_refused_or_cut_off_is_judged_as_it_is_and_told(
    finish: Any, told: str
) -> None:
    evaluators = [{"string": {"equals": "No"}}]
    made = run(
        a_file(ANN, evaluators=evaluators),
        Recorder(lambda _: ScriptedReply(text="No", finish=finish)),
    )
    assert made.cases[0].passed
    assert made.notes[0].startswith(f"row 1: the completion {told}")


def test_what_has_no_value_is_sent_as_it_is_and_told() -> None:
    subject = Recorder("Hello")
    evaluators = [{"string": {"contains": "{{greeting}}"}}]
    made = run(a_file(ANN, {"name": "Bob"}, evaluators=evaluators), subject)
    assert subject.asked[1].messages[0].content == "Be {{tone}}."
    assert made.notes == [
        "{{tone}} has no value in row 2; it was left as it is",
        "{{greeting}} has no value in any row; it was left as it is",
    ]


def test_a_judge_that_is_not_shown_the_completion_is_told() -> None:
    blind = {"name": "blind", "llm": {**POLITE["llm"], "prompt": "Polite?"}}
    made = run(a_file(ANN, evaluators=[blind]), Recorder("Hello"), Recorder("yes"))
    (note,) = made.notes
    assert note.startswith("evaluator 'blind': its prompt has no {{completion}}, so the judge")


def test_cases_keep_the_order_of_the_rows_whichever_ends_first() -> None:
    ended: list[str] = []
    first_may_end = asyncio.Event()

    async def answer(request: Request) -> ScriptedReply:
        name = last(request).removeprefix("Greet ").removesuffix(".")
        if name == "0":
            await first_may_end.wait()
        if name == "5":
            first_may_end.set()
        ended.append(name)
        return ScriptedReply(text=name, tokens=Tokens(int(name), 0))

    rows = [{"tone": "kind", "name": str(n)} for n in range(8)]
    made = run(a_file(*rows), Recorder(answer))
    assert ended.index("0") > ended.index("5")
    assert [case.completion for case in made.cases] == [str(n) for n in range(8)]
    assert [usage.input_tokens for usage in made.usages] == list(range(8))


def test_only_some_rows_are_under_way_at_once_and_none_begins_after_a_failure() -> None:
    async def answer(_: Request) -> str:
        await asyncio.sleep(0)
        raise ModelError("timeout", "too slow")

    subject = Recorder(answer)
    failed = failure(a_file(*[ANN] * 50), subject)
    assert failed.message.startswith("greet.prompt.yml: row 1: ")
    assert len(subject.asked) == ROWS_AT_ONCE


def test_a_fault_of_ours_does_not_pass_for_one_of_the_model() -> None:
    def answer(_: Request) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(a_file(ANN, BOB), Recorder(answer))


@pytest.fixture(scope="module")
def library() -> list[PromptFile]:
    if not LIBRARY.exists():
        pytest.skip(f"the prompt library is not here ({LIBRARY.name}); PROMPT_DATA names it")
    paths = [
        path
        for path in sorted(LIBRARY.rglob("*.prompt.yml"))
        if not {"archive", "_archive"} & set(path.relative_to(LIBRARY).parts)
    ]
    return [parse_prompt_yaml(path.read_text("utf-8"), path.name) for path in paths]


def test_the_files_of_a_real_library_are_read(library: list[PromptFile]) -> None:
    assert len(library) == 13
    assert all(file.rows for file in library)
    assert sum(file.parameters.max_tokens is not None for file in library) == 12
    assert sum(bool(file.evaluators) for file in library) == 12


def test_the_files_of_a_real_library_leave_nothing_undefined(library: list[PromptFile]) -> None:
    for file in library:
        used = {name for message in file.messages for name in placeholders(message.content)}
        assert used
        assert all(used <= row.keys() for row in file.rows)


def test_the_files_of_a_real_library_are_run(library: list[PromptFile]) -> None:
    words = '"scores" "overall_score" "grade" "pass" "reasoning" "safety" "summary"'
    for file in library:
        for reply, passes in ((words, True), ("", not file.evaluators)):
            made = run(file, Recorder(reply))
            assert len(made.cases) == len(made.usages) == len(file.rows)
            assert {case.passed for case in made.cases} == {passes}
            assert not any("has no value" in note for note in made.notes)
