"""What a function asks for by the names of its parameters: the task, its input, or its fields."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import evalwright as ew

SUITE = {
    "evalwright": 1,
    "name": "capitals",
    "tasks": [
        {
            "id": "france",
            "input": {"question": "Capital of France?", "style": "short"},
            "checks": [{"equals": "Capital of France? short"}],
        }
    ],
}


async def later(question: str, style: str) -> str:
    return f"{question} {style}"


def with_default(question: str, style: str = "long", mood: str = "") -> str:
    return f"{question} {style}{mood}"


def of_its_own_name(request: Any) -> str:
    return f"{request.input['question']} {request.input['style']}"


def whole(input: dict[str, str]) -> str:  # noqa: A002 - the name is the point
    return " ".join(input.values())


def typed(given: dict[str, str]) -> str:
    return " ".join(given.values())


def both(task: Any, style: str) -> str:
    return f"{task.input['question']} {style}"


def bound(answer: str, task: Any) -> str:
    return f"{answer} {task.input['style']}"


@pytest.mark.parametrize(
    "agent",
    [
        later,
        with_default,
        of_its_own_name,
        whole,
        typed,
        both,
        partial(bound, "Capital of France?"),
    ],
)
def test_an_agent_is_called_with_what_its_parameters_name(
    agent: Callable[..., Any], tmp_path: Path
) -> None:
    run = ew.run(SUITE, agent=agent, db=tmp_path / "runs.db")
    assert run.passed, run.report()


def test_a_parameter_typed_as_text_is_the_input_that_is_a_text(tmp_path: Path) -> None:
    def answer(question: str) -> str:
        return question.upper()

    one = {"id": "france", "input": "Paris", "checks": [{"equals": "PARIS"}]}
    run = ew.run({**SUITE, "tasks": [one]}, agent=answer, db=tmp_path / "runs.db")
    assert run.passed, run.report()


def test_a_field_that_the_input_lacks_is_named(tmp_path: Path) -> None:
    def wants_more(question: str, carrier: str) -> str:
        return f"{question} {carrier}"

    told = "asks for carrier; the task's input has question, style: take the task alone"
    with pytest.raises(ew.EvalwrightError, match=told):
        ew.run(SUITE, agent=wants_more, db=tmp_path / "runs.db")


def test_a_task_that_is_taken_for_its_input_says_how_to_reach_it(tmp_path: Path) -> None:
    def mistaken(given: Any) -> Any:
        return given["question"]

    with pytest.raises(ew.EvalwrightError, match=r"write task\.input\['question'\]"):
        ew.run(SUITE, agent=mistaken, db=tmp_path / "runs.db")


def test_a_question_is_a_field_or_an_input_without_fields_and_never_the_whole_task() -> None:
    from types import SimpleNamespace

    from evalwright.agents.protocol import AgentFailure
    from evalwright.agents.python import _taking_a_task

    answer = _taking_a_task(lambda question: question)
    for given in ({"question": "Where is it?"}, "Where is it?"):
        assert answer(SimpleNamespace(turn=0, input=given)) == "Where is it?"
    with pytest.raises(AgentFailure, match="asks for question; the task's input has text"):
        answer(SimpleNamespace(turn=0, input={"text": "Where is it?"}))
