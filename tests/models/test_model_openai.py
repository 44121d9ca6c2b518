"""OpenAI chat completions as a pure pair: request to body, answer to reply."""

import json
from typing import Any

import pytest
from asking import LOOK_UP, a_request, a_tool_conversation
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import json_values, requests, texts, uses

from evalwright.models.openai import decode_reply, encode_request
from evalwright.models.prices import Meter
from evalwright.models.protocol import (
    ModelError,
    OutputSchema,
    Reply,
    Request,
    TokenLogprob,
    ToolSpec,
    ToolUse,
)
from evalwright.models.quirks import Quirks
from providers import Call, calling, complaint_about, completion, tool_call

VERDICT = OutputSchema(
    "verdict",
    {
        "type": "object",
        "properties": {"met": {"type": "boolean"}},
        "required": ["met"],
        "additionalProperties": False,
    },
)
LIST = OutputSchema(
    "parts", {"type": "array", "items": {"$ref": "#/$defs/p"}, "$defs": {"p": {"type": "string"}}}
)
FORCED = Quirks(forced_tool=True)


def body_of(request: Request, quirks: Quirks | None = None) -> Any:
    return json.loads(encode_request(request, "m", quirks or Quirks()))


def reply_of(body: bytes, request: Request | None = None) -> Reply:
    return decode_reply(body, request or a_request(), Meter("openai", "m"))


def test_a_plain_request_holds_the_messages_and_nothing_that_was_not_asked_for() -> None:
    assert body_of(a_request()) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Is it shipped?"},
        ],
    }


def test_settings_have_the_names_of_the_protocol() -> None:
    asked = a_request(temperature=0.0, max_tokens=50, seed=7, stop=("END",), top_logprobs=3)
    body = body_of(asked)
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.0, 50, 7)
    assert (body["stop"], body["logprobs"], body["top_logprobs"]) == (["END"], True, 3)
    body = body_of(asked, Quirks(max_tokens_field="max_completion_tokens"))
    assert body["max_completion_tokens"] == 50
    assert "max_tokens" not in body


def test_what_a_model_does_not_take_is_left_out() -> None:
    asked = a_request(temperature=0.0, seed=7, top_logprobs=3)
    body = body_of(asked, Quirks(dropped=frozenset({"temperature", "seed", "logprobs"})))
    assert set(body) == {"model", "messages"}


def test_tool_calls_and_their_results_are_told_back() -> None:
    body = body_of(a_tool_conversation())
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "look_up",
                "description": "Looks an order up.",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]
    assistant, first, second = body["messages"][2:]
    assert assistant["content"] is None
    assert assistant["tool_calls"][0] == tool_call("look_up", {"id": "A-17"}, "c1") | {
        "function": {"name": "look_up", "arguments": '{"id":"A-17"}'}
    }
    assert first == {"role": "tool", "tool_call_id": "c1", "content": '{"status":"shipped"}'}
    assert second["tool_call_id"] == "c2"


def test_a_schema_is_a_response_format_and_strict_only_where_it_fits() -> None:
    told = body_of(a_request(output=VERDICT))["response_format"]
    assert told == {
        "type": "json_schema",
        "json_schema": {"name": "verdict", "schema": VERDICT.schema, "strict": True},
    }
    loose = OutputSchema("o", {"type": "object", "properties": {"a": {"type": "string"}}})
    assert body_of(a_request(output=loose))["response_format"]["json_schema"]["strict"] is False


def test_where_there_is_no_response_format_the_answer_is_a_tool_that_must_be_called() -> None:
    body = body_of(a_request(output=VERDICT), FORCED)
    assert "response_format" not in body
    assert body["tool_choice"] == {"type": "function", "function": {"name": "verdict"}}
    assert body["tools"][0]["function"]["parameters"] == VERDICT.schema
    reply = reply_of(calling(tool_call("verdict", {"met": True})).body, a_request(output=VERDICT))
    assert (json.loads(reply.text), reply.finish, reply.tool_uses) == ({"met": True}, "stop", ())


def test_beside_other_tools_the_model_may_choose_but_must_call_one() -> None:
    verdict = ToolSpec("verdict", "", {"type": "object"})
    asked = a_request(output=VERDICT, tools=(LOOK_UP, verdict))
    body = body_of(asked, FORCED)
    assert body["tool_choice"] == "required"
    tools = [tool["function"]["name"] for tool in body["tools"]]
    assert tools == ["look_up", "verdict", "verdict_2"]
    both = calling(tool_call("verdict_2", {"met": True}), tool_call("look_up", {}, "b"))
    reply = reply_of(both.body, asked)
    assert (reply.finish, reply.text) == ("tools", "")
    assert reply.tool_uses == (ToolUse("b", "look_up", "{}"),)


@pytest.mark.parametrize("quirks", [Quirks(), FORCED])
def test_a_schema_of_no_object_is_asked_for_as_a_field_of_one(quirks: Quirks) -> None:
    body = body_of(a_request(output=LIST), quirks)
    asked = (
        body["tools"][0]["function"]["parameters"]
        if quirks.forced_tool
        else body["response_format"]["json_schema"]["schema"]
    )
    assert asked["properties"] == {"value": {"type": "array", "items": {"$ref": "#/$defs/p"}}}
    assert asked["$defs"] == {"p": {"type": "string"}}
    answer = (
        calling(tool_call("parts", {"value": ["a"]}))
        if quirks.forced_tool
        else completion('{"value": ["a"]}')
    )
    assert reply_of(answer.body, a_request(output=LIST)).text == '["a"]'


def test_text_usage_and_cached_tokens_are_read() -> None:
    usage = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60}}
    reply = reply_of(completion("yes", usage=usage).body)
    assert (reply.text, reply.finish) == ("yes", "stop")
    assert (reply.usage.provider, reply.usage.model) == ("openai", "m")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 3)
    assert (reply.usage.total_tokens, reply.usage.cache_read_tokens) == (103, 60)
    assert reply.usage.cost_estimate_usd is None


@pytest.mark.parametrize(
    ("answer", "finish", "text"),
    [
        (completion("a", finish="length"), "length", "a"),
        (completion(None, finish="content_filter"), "filtered", ""),
        (completion("Mix", finish="content_filter"), "filtered", "Mix"),
        (completion(None, message={"refusal": "I will not"}), "refusal", "I will not"),
        (completion(None, message={"tool_calls": [tool_call("f", {})]}), "tools", ""),
        (completion("a", finish="tool_calls"), "stop", "a"),
        (completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "stop", "ab"),
        (completion("a", finish="eos"), "stop", "a"),
    ],
)
def test_the_end_of_an_answer_is_told_in_one_word(answer: Any, finish: str, text: str) -> None:
    reply = reply_of(answer.body)
    assert (reply.finish, reply.text) == (finish, text)


def test_only_a_content_filter_may_answer_without_a_message() -> None:
    assert reply_of(b'{"choices":[{"finish_reason":"content_filter"}]}').finish == "filtered"
    with pytest.raises(ModelError, match=r"parse_error: .* the choice has no message"):
        reply_of(b'{"choices":[{"finish_reason":"stop"}]}')


def test_reasoning_of_another_form_is_left_out() -> None:
    assert reply_of(completion("yes", message={"reasoning": {"effort": "low"}}).body).text == "yes"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_kept_apart_from_the_text(field: str) -> None:
    assert reply_of(completion("yes", message={field: "hm"}).body).reasoning == "hm"


def test_logprobs_are_read_with_the_likeliest_others() -> None:
    token = {"token": "yes", "logprob": -0.1, "top_logprobs": [{"token": "no", "logprob": -2.0}]}
    reply = reply_of(completion(choice={"logprobs": {"content": [token]}}).body)
    assert reply.logprobs == (TokenLogprob("yes", -0.1, (("no", -2.0),)),)


def test_tools_without_ids_and_with_objects_for_arguments_are_taken() -> None:
    calls = [{"function": {"name": "f", "arguments": {"a": 1}}}, {"function": {"name": "g"}}]
    reply = reply_of(completion(None, message={"tool_calls": calls}).body)
    assert reply.tool_uses == (ToolUse("call_1", "f", '{"a":1}'), ToolUse("call_2", "g", "{}"))


def test_an_answer_without_usage_has_no_cost() -> None:
    body = json.loads(completion().body)
    del body["usage"]
    usage = reply_of(json.dumps(body).encode()).usage
    assert (usage.input_tokens, usage.total_tokens, usage.cost_estimate_usd) == (0, None, None)


@given(requests(), st.sampled_from([Quirks(), FORCED]))
def test_every_request_is_one_that_the_protocol_takes(request: Request, quirks: Quirks) -> None:
    body = body_of(request, quirks)
    assert complaint_about(Call("/chat/completions", {}, {}, body)) is None
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    assert len(set(names)) == len(names)


@given(texts, st.lists(uses, max_size=3))
def test_what_a_model_says_is_what_is_read(text: str, asked: list[ToolUse]) -> None:
    calls = [
        {"id": use.call_id, "function": {"name": use.name, "arguments": use.arguments}}
        for use in asked
    ]
    reply = reply_of(completion(text, message={"tool_calls": calls}).body)
    assert (reply.text, reply.tool_uses) == (text, tuple(asked))


@given(json_values, st.binary(), requests())
def test_any_json_and_any_bytes_are_a_reply_or_a_parse_error(
    value: Any, body: bytes, request: Request
) -> None:
    wholes = [value, {"choices": [{"message": value}]}, {"choices": [value], "usage": value}]
    for whole in wholes:
        assert_reply_or_parse_error(json.dumps(whole).encode(), request)
    assert_reply_or_parse_error(body, request)


def assert_reply_or_parse_error(body: bytes, request: Request) -> None:
    outcome: object
    try:
        outcome = reply_of(body, request)
    except ModelError as error:
        outcome = error.code
    assert outcome in ("parse_error", "internal_error") or isinstance(outcome, Reply)


def test_json_that_is_nested_without_end_is_a_parse_error() -> None:
    with pytest.raises(ModelError, match="parse_error"):
        reply_of(b'{"choices":' + b"[" * 100_000)
