"""Scripted models: rules in a file or a function, and always the same answer."""

import json
from pathlib import Path
from typing import Any

import pytest
from asking import a_request, a_tool_conversation, ask, failure, load
from hypothesis import given
from model_strategies import requests

from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.models.config import Config, OwnPrice
from evalwright.models.load import load_model
from evalwright.models.protocol import (
    ChatMessage,
    ModelError,
    OutputSchema,
    Reply,
    Request,
    ToolUse,
)
from evalwright.models.scripted import ScriptedModel, ScriptedReply, parse_rules

RULES = """
- when: {last_tool: look_up, contains: lost}
  reply: It is lost.
- when: {user_contains: refund, turn: 1}
  reply: Let me see.
  tool_calls:
    - {name: look_up, arguments: {id: A-17}}
    - {name: look_up}
- when: {matches: '^Where is \\w-\\d+'}
  json: {status: shipped}
- when: {system_contains: judge}
  refusal: I will not judge.
- when: {output: verdict}
  json: true
- when: {contains: down}
  error: rate_limited
- when: {contains: tokens}
  reply: counted
  reasoning: one, two
  tokens: {input: 7, output: 9}
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "model.yaml"
    path.write_text(RULES)
    return path


def said(script: Path, request: Request) -> Reply:
    return ask(load(f"scripted:{script}"), request)


def test_the_first_rule_whose_conditions_all_hold_answers(script: Path) -> None:
    assert said(script, a_tool_conversation()).text == "It is lost."
    assert said(script, a_request("Where is A-17?")).text == '{"status":"shipped"}'
    assert said(script, a_request(output=OutputSchema("verdict", {}))).text == "true"


def test_tools_are_asked_for_with_ids_that_are_the_same_every_time(script: Path) -> None:
    reply = said(script, a_request("a refund, please"))
    assert (reply.text, reply.finish) == ("Let me see.", "tools")
    assert reply.tool_uses == (
        ToolUse("call_1_1", "look_up", '{"id":"A-17"}'),
        ToolUse("call_1_2", "look_up", "{}"),
    )


def test_a_refusal_says_so(script: Path) -> None:
    reply = said(script, Request((ChatMessage("system", "You judge."), ChatMessage("user", "x"))))
    assert (reply.finish, reply.text) == ("refusal", "I will not judge.")


def test_an_error_is_raised_with_its_code(script: Path) -> None:
    error = failure(load(f"scripted:{script}"), a_request("down"))
    assert error.code == "rate_limited"
    assert f"{script}: as rule $[5] demands" in error.message


def test_tokens_are_estimated_unless_they_are_given_and_have_no_cost(script: Path) -> None:
    usage = said(script, a_request("tokens")).usage
    assert (usage.input_tokens, usage.output_tokens) == (7, 9)
    estimated = said(script, a_request("Where is A-17?")).usage
    assert (estimated.input_tokens, estimated.output_tokens) == (6, 5)
    assert (estimated.provider, estimated.model) == ("scripted", str(script))
    assert estimated.cost_estimate_usd is None


def test_a_price_of_the_users_own_counts(script: Path) -> None:
    name = f"scripted:{script}"
    model = load_model(name, Config(prices={name: OwnPrice(1_000, 2_000)}))
    usage = ask(model, a_request("tokens")).usage
    assert (usage.cost_estimate_usd, usage.currency) == (0.025, "USD")
    assert (usage.provider, usage.model) == ("scripted", str(script))


def test_a_request_that_no_rule_fits_is_told_with_the_file_and_the_message(script: Path) -> None:
    error = failure(load(f"scripted:{script}"), a_request("something else " * 20))
    assert error.code == "unavailable_model"
    assert (
        f"{script}: no rule fits a request whose last message is 'something else" in error.message
    )
    assert "add one, or a last rule without `when`" in error.message


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"rules": []}, "$: a list of rules was expected"),
        ([], "$: a list of rules was expected"),
        ([{"when": {}}], "$[0]: a rule answers in one way, not 0"),
        ([{"reply": "a", "json": None}], "$[0]: a rule answers in one way, not 2"),
        ([{"reply": "a"}, {"replay": "b"}], "$[1]: Object contains unknown field 'replay'"),
        ([{"when": {"has": "x"}, "reply": "a"}], "$[0].when: Object contains unknown field 'has'"),
        ([{"when": {"turn": 0}, "reply": "a"}], "$[0].when.turn: Expected 'int' >= 1"),
        ([{"when": {"matches": "("}, "reply": "a"}], "$[0].when.matches: not a regular"),
        ([{"error": "no_such_code"}], "$[0].error: Invalid enum value 'no_such_code'"),
        ([{"tool_calls": [{"name": ""}]}], "$[0].tool_calls[0].name: Expected 'str' of length"),
    ],
)
def test_rules_out_of_form_are_told_with_their_place(rules: Any, told: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        parse_rules(json.dumps(rules).encode(), "model.json")
    assert f"model.json: {told}" in str(caught.value)


def test_a_file_that_is_not_there_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"scripted:gone\.yaml: the file cannot be read: No such"):
        load("scripted:gone.yaml")


def test_a_function_may_give_text_more_than_text_or_a_whole_reply() -> None:
    assert ask(ScriptedModel("echo", lambda request: request.messages[-1].content)).text == (
        "Is it shipped?"
    )
    use = ToolUse("c", "f", "{}")
    reply = ask(ScriptedModel("caller", lambda request: ScriptedReply(tool_uses=(use,))))
    assert (reply.finish, reply.tool_uses) == ("tools", (use,))
    assert ask(ScriptedModel("other:m", lambda request: reply)) is reply


def test_a_function_may_wait_and_fail() -> None:
    async def fail(request: Request) -> str:
        raise ModelError("timeout", "too slow")

    model = ScriptedModel("slow", fail)
    assert model.name == "scripted:slow"
    assert failure(model).code == "timeout"


@given(requests())
def test_any_request_gets_the_same_answer_twice(request: Request) -> None:
    model = ScriptedModel("echo", lambda asked: asked.messages[-1].content)
    assert ask(model, request) == ask(model, request)
