"""Anthropic messages as a pure pair: request to body, answer to reply."""

import json
from typing import Any

import pytest
from asking import LOOK_UP, a_request, a_tool_conversation
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import json_values, requests, texts

from evalwright.models.anthropic import MAX_TOKENS, decode_reply, encode_request
from evalwright.models.prices import Meter
from evalwright.models.protocol import (
    ChatMessage,
    ModelError,
    OutputSchema,
    Reply,
    Request,
    ToolUse,
)
from evalwright.models.quirks import Quirks
from providers import Call, complaint_about, message, tool_use

VERDICT = OutputSchema("verdict", {"type": "object", "properties": {"met": {"type": "boolean"}}})
HEADERS = {"anthropic-version": "2023-06-01"}


def body_of(request: Request) -> Any:
    return json.loads(encode_request(request, "m", Quirks()))


def reply_of(body: bytes, request: Request | None = None) -> Reply:
    return decode_reply(body, request or a_request(), Meter("anthropic", "m"))


def test_the_system_message_stands_apart_and_a_bound_is_always_sent() -> None:
    assert body_of(a_request()) == {
        "model": "m",
        "max_tokens": MAX_TOKENS,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Is it shipped?"}]}],
    }


def test_settings_have_the_names_of_the_protocol_and_others_are_left_out() -> None:
    body = body_of(a_request(temperature=0.5, max_tokens=9, seed=7, stop=("END",), top_logprobs=3))
    assert (body["temperature"], body["max_tokens"], body["stop_sequences"]) == (0.5, 9, ["END"])
    assert not {"seed", "stop", "logprobs", "top_logprobs"} & set(body)


def test_results_of_tools_are_one_turn_of_the_user() -> None:
    body = body_of(a_tool_conversation())
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][1]["content"][0] == {
        "type": "tool_use",
        "id": "c1",
        "name": "look_up",
        "input": {"id": "A-17"},
    }
    results = body["messages"][2]["content"]
    assert [block["tool_use_id"] for block in results] == ["c1", "c2"]
    assert body["tools"][0]["input_schema"] == LOOK_UP.parameters


def test_what_the_user_adds_to_results_comes_after_them() -> None:
    asked = a_tool_conversation()
    said = (*asked.messages[:-1], ChatMessage("user", "And?"), asked.messages[-1])
    blocks = body_of(Request(said))["messages"][2]["content"]
    assert [block["type"] for block in blocks] == ["tool_result", "tool_result", "text"]


def test_arguments_that_are_no_object_are_sent_within_one() -> None:
    use = ToolUse("c1", "f", "not json")
    asked = Request(
        (
            ChatMessage("user", "x"),
            ChatMessage("assistant", "", (use,)),
            ChatMessage("tool", "", call_id="c1"),
        )
    )
    assert body_of(asked)["messages"][1]["content"][0]["input"] == {"arguments": "not json"}


def test_a_schema_is_a_tool_that_must_be_called() -> None:
    asked = a_request(output=VERDICT)
    body = body_of(asked)
    assert body["tool_choice"] == {"type": "tool", "name": "verdict"}
    assert body["tools"][0]["input_schema"] == VERDICT.schema
    answer = message("Let me see.", tool_use("verdict", {"met": True}), stop="tool_use")
    reply = reply_of(answer.body, asked)
    assert (json.loads(reply.text), reply.finish, reply.tool_uses) == ({"met": True}, "stop", ())
    assert body_of(a_request(output=VERDICT, tools=(LOOK_UP,)))["tool_choice"] == {"type": "any"}


def test_text_thinking_and_tools_are_read() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "x"}
    blocks = (thinking, "a", tool_use("f", {"x": 1}), {"type": "new_kind"})
    reply = reply_of(message(*blocks, stop="tool_use").body)
    assert (reply.text, reply.reasoning, reply.finish) == ("a", "hm", "tools")
    assert reply.tool_uses == (ToolUse("toolu_a", "f", '{"x":1}'),)


def test_the_input_counts_cached_tokens_too() -> None:
    answer = message("a", cache_read_input_tokens=100, cache_creation_input_tokens=20)
    usage = reply_of(answer.body).usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (132, 3, 135)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (100, 20)


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("refusal", "refusal"),
    ],
)
def test_the_end_of_an_answer_is_told_in_four_words(stop: str, finish: str) -> None:
    assert reply_of(message("a", stop=stop).body).finish == finish


@given(requests())
def test_every_request_is_one_that_the_protocol_takes(request: Request) -> None:
    assert complaint_about(Call("/v1/messages", {}, HEADERS, body_of(request))) is None


@given(texts)
def test_what_a_model_says_is_what_is_read(text: str) -> None:
    assert reply_of(message(text).body).text == text


@given(json_values, st.binary(), requests())
def test_any_json_and_any_bytes_are_a_reply_or_a_parse_error(
    value: Any, body: bytes, request: Request
) -> None:
    for whole in (value, {"content": value}, {"content": [value], "usage": value}):
        assert_reply_or_parse_error(json.dumps(whole).encode(), request)
    assert_reply_or_parse_error(body, request)


def assert_reply_or_parse_error(body: bytes, request: Request) -> None:
    outcome: object
    try:
        outcome = reply_of(body, request)
    except ModelError as error:
        outcome = error.code
    assert outcome == "parse_error" or isinstance(outcome, Reply)
