"""Limits of length as providers take them: what they refuse is left out or lowered."""

from typing import Any

import pytest
from asking import a_request, ask, failure, model_at
from hypothesis import given
from hypothesis import strategies as st

from evalwright.models.protocol import OutputSchema
from evalwright.models.structured_output import without_lengths
from providers import Answer, Call, completion, failing, fake_provider
from strategies import json_values

SCHEMA = {
    "type": "object",
    "properties": {"reason": {"type": "string", "maxLength": 600}},
    "required": ["reason"],
    "additionalProperties": False,
}
LIMITED = a_request(output=OutputSchema("verdict", SCHEMA), max_tokens=4300)


def sent_schema(body: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = body["response_format"]["json_schema"]["schema"]
    return schema


@pytest.mark.parametrize(
    ("complaint", "most"),
    [
        ("max_tokens is too large: 4300. This model supports at most 4096 completion tokens", 4096),
        ("max_tokens: 4300 > 4096, which is the maximum allowed number of output tokens", 4096),
        ("This model's maximum context length is 8192 tokens. However, you requested 8448", 2150),
    ],
)
def test_a_limit_that_is_too_high_for_a_model_is_lowered(complaint: str, most: int) -> None:
    def respond(call: Call) -> Answer:
        return failing(400, complaint) if call.body["max_tokens"] > most else completion("{}")

    with fake_provider(respond) as provider:
        model = model_at(provider, "vllm:m")
        assert ask(model, LIMITED).retries == 1
        assert ask(model, LIMITED).retries == 0
    assert [body["max_tokens"] for body in provider.bodies] == [4300, most, most]


def test_a_limit_is_not_lowered_without_end() -> None:
    refusal = failing(400, "max_tokens is too large")
    with fake_provider(refusal) as provider:
        assert failure(model_at(provider, "vllm:m"), LIMITED).code == "invalid_input"
    assert len(provider.calls) < 10


def test_lengths_in_a_schema_are_left_out_for_a_model_that_complains_of_them() -> None:
    def respond(call: Call) -> Answer:
        has_lengths = "maxLength" in str(sent_schema(call.body))
        said = "Invalid schema for response_format: 'maxLength' is not permitted"
        return failing(400, said) if has_lengths else completion("{}")

    with fake_provider(respond) as provider:
        ask(model_at(provider, "vllm:m"), LIMITED)
    first, second = map(sent_schema, provider.bodies)
    assert first == SCHEMA
    assert second == without_lengths(SCHEMA) != SCHEMA


def test_azure_is_not_sent_lengths_because_it_refuses_strict_schemas_with_them() -> None:
    with fake_provider(completion("{}")) as provider:
        ask(model_at(provider, "azure:m"), LIMITED)
    assert sent_schema(provider.bodies[0]) == without_lengths(SCHEMA)


@given(json_values)
def test_without_lengths_a_schema_has_none_and_is_otherwise_the_same(value: Any) -> None:
    assert "maxLength" not in str(value) or without_lengths(value) != value
    assert without_lengths({"items": value, "maxLength": 3}) == {"items": without_lengths(value)}


@given(st.text())
def test_a_field_that_is_called_like_the_keyword_stays(title: str) -> None:
    schema = {"properties": {"maxLength": {"title": title, "maxLength": 3}}}
    assert without_lengths(schema) == {"properties": {"maxLength": {"title": title}}}
