"""What llama.cpp is asked otherwise: numbers with bounds, and tools of a model that knows none."""

import json
from typing import Any

import jsonschema_rs
import msgspec
from asking import LOOK_UP, a_request, a_tool_conversation
from hypothesis import given
from model_strategies import requests

from evalwright.models.llama import decode_reply, encode_request
from evalwright.models.openai import encode_request as encode_plainly
from evalwright.models.prices import Meter
from evalwright.models.protocol import OutputSchema, Reply, Request, ToolSpec
from evalwright.models.quirks import Quirks
from providers import completion

ORDER = OutputSchema(
    "answer",
    {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]},
)
CANCEL = ToolSpec("cancel", "Cancels an order.", {"type": "object", "properties": {}})


def body_of(request: Request) -> Any:
    return json.loads(encode_request(request, "m", Quirks()))


def schema_of(request: Request) -> dict[str, Any]:
    schema: dict[str, Any] = body_of(request)["response_format"]["json_schema"]["schema"]
    return schema


def read(request: Request, said: Any, finish: str = "stop") -> Reply:
    text = said if isinstance(said, str) else json.dumps(said)
    return decode_reply(completion(text, finish=finish).body, request, Meter("local", "m"))


def test_a_request_without_tools_is_sent_as_it_is() -> None:
    for request in (a_request(), a_request(output=ORDER)):
        assert encode_request(request, "m", Quirks()) == encode_plainly(request, "m", Quirks())


def test_a_number_with_bounds_is_asked_for_as_an_integer_because_only_those_are_kept() -> None:
    bounded = {"type": "number", "minimum": 1, "maximum": 10}
    fields = {"overall": bounded, "weight": {"type": "number"}}
    schema = {"type": "object", "properties": fields}
    sent = schema_of(a_request(output=OutputSchema("verdict", schema)))["properties"]
    assert sent == {"overall": {**bounded, "type": "integer"}, "weight": {"type": "number"}}


def test_the_model_may_write_a_call_or_an_answer_and_nothing_else() -> None:
    validator = jsonschema_rs.validator_for(schema_of(a_request(tools=(LOOK_UP,))))
    assert validator.is_valid({"tool": "look_up", "arguments": {}})
    assert validator.is_valid({"value": "It is shipped."})
    assert not validator.is_valid({"tool": "delete_all", "arguments": {}})
    assert not validator.is_valid({"value": "So", "tool": "look_up", "arguments": {}})


def test_it_is_told_of_the_tools_in_the_system_message() -> None:
    system = body_of(a_request(tools=(LOOK_UP,)))["messages"][0]
    assert system["role"] == "system"
    assert "- look_up: Looks an order up." in system["content"]
    assert "tools" not in body_of(a_request(tools=(LOOK_UP,)))


def test_a_call_is_a_tool_call_and_an_answer_is_text() -> None:
    request = a_request(tools=(LOOK_UP,))
    called = read(request, {"tool": "look_up", "arguments": {"id": "A-17"}})
    assert (called.finish, called.text) == ("tools", "")
    assert [(use.name, use.arguments) for use in called.tool_uses] == [("look_up", '{"id":"A-17"}')]
    answered = read(request, {"value": "It is shipped."})
    assert (answered.finish, answered.text, answered.tool_uses) == ("stop", "It is shipped.", ())


def test_an_answer_by_a_schema_is_its_object() -> None:
    request = a_request(tools=(LOOK_UP,), output=ORDER)
    assert json.loads(read(request, {"status": "shipped"}).text) == {"status": "shipped"}


def test_a_tool_that_was_used_is_not_offered_again_but_the_others_are() -> None:
    used = a_tool_conversation()
    assert "response_format" not in body_of(used)
    both = msgspec.structs.replace(used, tools=(LOOK_UP, CANCEL))
    offered = [part["properties"].get("tool") for part in schema_of(both)["anyOf"]]
    assert offered == [{"const": "cancel"}, None]


def known(status: str) -> str:
    return f'What look_up knows: {{"status":"{status}"}}'


def test_what_tools_answered_is_added_to_the_question() -> None:
    messages = [
        (each["role"], each["content"]) for each in body_of(a_tool_conversation())["messages"]
    ]
    assert messages == [
        ("system", "Be brief."),
        ("user", f"Where are they?\n\n{known('shipped')}\n\n{known('lost')}"),
    ]


def test_a_reply_that_was_cut_or_is_no_object_stays_as_it_is() -> None:
    request = a_request(tools=(LOOK_UP,))
    cut = read(request, '{"tool": "look', finish="length")
    assert (cut.finish, cut.text) == ("length", '{"tool": "look')
    assert read(request, "Shipped.").text == "Shipped."


@given(requests())
def test_every_request_can_be_sent_and_offers_no_tools_of_its_own(request: Request) -> None:
    body = body_of(request)
    assert "tools" not in body
    assert all(each["role"] != "tool" for each in body["messages"])
