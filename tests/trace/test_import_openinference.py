"""Spans by the OpenInference conventions: flattened messages, nested spans, every step once."""

import json
from typing import Any

import pytest
from trace_builders import a_span, an_export, failed, imported, one, steps

from evalwright.trace.decode import decode_trace
from evalwright.trace.integrity import check_integrity

STEPS = [
    ("call", "c1", "find_order", {"id": 7}),
    ("result", "c1", "ok", {"total": 12}),
    ("final", "Refunded 12 EUR."),
]


def flat(prefix: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Messages as the conventions flatten them."""
    said: dict[str, Any] = {}
    for place, message in enumerate(messages):
        start = f"{prefix}.{place}.message"
        for key, value in message.items():
            if key != "tool_calls":
                said[f"{start}.{key}"] = value
        for number, call in enumerate(message.get("tool_calls", [])):
            inner = f"{start}.tool_calls.{number}.tool_call"
            said[f"{inner}.id"] = call["id"]
            said[f"{inner}.function.name"] = call["name"]
            said[f"{inner}.function.arguments"] = json.dumps(call["arguments"])
    return said


SYSTEM = {"role": "system", "content": "You serve a shop."}
ASKED = {"role": "user", "content": "Refund order 7"}
CALL = {"id": "c1", "name": "find_order", "arguments": {"id": 7}}
LOOKED_UP = {"role": "assistant", "tool_calls": [CALL]}
FOUND = {"role": "tool", "tool_call_id": "c1", "content": '{"total": 12}'}
ANSWERED = {"role": "assistant", "content": "Refunded 12 EUR."}


def llm(
    span_id: str,
    at: tuple[int, int],
    history: list[dict[str, Any]],
    output: list[dict[str, Any]],
    **said: Any,
) -> dict[str, Any]:
    told = {"openinference.span.kind": "LLM", "llm.model_name": "m-1"}
    told |= flat("llm.input_messages", history) | flat("llm.output_messages", output)
    return a_span(span_id, told | said, at, "agent")


def tool(
    span_id: str, at: tuple[int, int], name: str = "find_order", **said: Any
) -> dict[str, Any]:
    status = said.pop("status", {})
    told = {"openinference.span.kind": "TOOL", "tool.name": name}
    return a_span(span_id, told | said, at, "agent", status=status)


JSON = {"input.mime_type": "application/json", "output.mime_type": "application/json"}
GIVEN = {"input.value": '{"id": 7}', "output.value": '{"total": 12}', **JSON}
AGENT = a_span(
    "agent",
    {
        "openinference.span.kind": "AGENT",
        "input.value": "Refund order 7",
        "output.value": "Refunded 12 EUR.",
    },
    (0, 40),
)
FIRST = llm("m1", (1, 10), [SYSTEM, ASKED], [LOOKED_UP])
RUN = tool("t1", (11, 20), **GIVEN)
SECOND = llm("m2", (21, 30), [SYSTEM, ASKED, LOOKED_UP, FOUND], [ANSWERED])


def test_an_agents_trace_is_one_case_with_every_step_once():
    response = one(an_export(FIRST, RUN, SECOND, AGENT))
    assert (response["system_prompt"], response["user_prompt"]) == (
        "You serve a shop.",
        "Refund order 7",
    )
    assert steps(response) == STEPS
    assert check_integrity(decode_trace(response, "c")).status == "ok"


def test_without_a_tool_span_the_messages_tell_the_result():
    response = one(an_export(FIRST, SECOND, AGENT))
    assert steps(response) == [
        STEPS[0],
        ("result", "c1", None, '{"total": 12}'),
        STEPS[2],
    ]


def test_without_model_spans_the_agents_span_tells_question_and_answer():
    response = one(an_export(AGENT, RUN))
    assert response["user_prompt"] == "Refund order 7"
    assert response["final_output"] == {"content_type": "text", "content": "Refunded 12 EUR."}
    assert steps(response) == [
        ("call", None, "find_order", {"id": 7}),
        ("result", None, "ok", {"total": 12}),
    ]


def test_chains_around_the_spans_add_nothing():
    chain = a_span("chain", {"openinference.span.kind": "CHAIN", **GIVEN}, (0, 50))
    agent = {**AGENT, "parentSpanId": "chain"}
    assert steps(one(an_export(chain, agent, FIRST, RUN, SECOND))) == STEPS


def test_a_retriever_span_is_a_retrieval():
    said = {
        "openinference.span.kind": "RETRIEVER",
        "input.value": "refund window",
        "retrieval.documents.0.document.id": "d1",
        "retrieval.documents.0.document.content": "30 days",
        "retrieval.documents.1.document.id": 2,
        "retrieval.documents.1.document.score": 0.5,
    }
    response = one(an_export(a_span("r1", said, (0, 1), "agent"), AGENT, FIRST, RUN, SECOND))
    assert steps(response)[0] == ("retrieval", "refund window", ["d1", "2"])
    assert response["events"][0]["documents"][0]["content"] == "30 days"
    assert response["user_prompt"] == "Refund order 7"


def test_more_than_ten_messages_keep_their_order():
    talk = [ASKED if n % 2 == 0 else ANSWERED | {"content": str(n)} for n in range(24)]
    response = one(an_export(llm("m1", (1, 2), talk, [ANSWERED])))
    said = [step[1] for step in steps(response) if step[0] == "assistant"]
    assert said == [str(n) for n in range(1, 24, 2)]


def test_contents_in_parts_and_old_function_calls_are_read():
    parts = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.type": "text",
        "llm.input_messages.0.message.contents.0.message_content.text": "Refund order 7",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.function_call_name": "find_order",
        "llm.output_messages.0.message.function_call_arguments_json": '{"id": 7}',
    }
    response = one(an_export(llm("m1", (1, 2), [], [], **parts)))
    assert response["user_prompt"] == "Refund order 7"
    assert steps(response) == [("call", None, "find_order", {"id": 7})]


def test_a_model_span_without_messages_has_input_and_output():
    said = {"input.value": "Refund order 7", "output.value": "Refunded."}
    response = one(an_export(llm("m1", (1, 2), [], [], **said)))
    assert response["user_prompt"] == "Refund order 7"
    assert steps(response) == [("final", "Refunded.")]


def test_a_call_that_stands_among_the_contents_too_is_one_call():
    said = {
        **flat("llm.output_messages", [LOOKED_UP]),
        "llm.output_messages.0.message.contents.0.message_content.type": "tool_use",
        "llm.output_messages.0.message.contents.0.tool_call.id": "c1",
        "llm.output_messages.0.message.contents.0.tool_call.function.name": "find_order",
        "llm.output_messages.0.message.contents.0.tool_call.function.arguments": '{"id": 7}',
    }
    wanted = [("call", "c1", "find_order", {"id": 7})]
    assert steps(one(an_export(llm("m1", (1, 2), [ASKED], [], **said)))) == wanted
    alone = {key: value for key, value in said.items() if ".tool_calls." not in key}
    assert steps(one(an_export(llm("m1", (1, 2), [ASKED], [], **alone)))) == wanted


def test_a_block_that_is_recorded_as_json_is_read_as_the_block():
    block = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": "sunny"}
    said = {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.contents.0.message_content.type": block["type"],
        "llm.output_messages.0.message.contents.0.message_content.text": json.dumps(block),
    }
    response = one(an_export(llm("m1", (1, 2), [ASKED], [], **said)))
    assert steps(response) == [("result", "s1", "ok", "sunny")]


@pytest.mark.parametrize(
    "message",
    [
        {"type": "tool", "data": {"content": '{"total": 12}', "tool_call_id": "c1"}},
        {"output": {"type": "constructor", "id": ["ToolMessage"], "kwargs": {"content": "12"}}},
    ],
)
def test_a_message_around_what_a_tool_returned_is_taken_off(message: Any):
    said = {"output.value": json.dumps(message), "output.mime_type": "application/json"}
    (_, result) = steps(one(an_export(tool("t1", (1, 2), **said))))
    assert result[3] in ({"total": 12}, "12")


def test_usage_and_tools_are_kept():
    schema = json.dumps({"type": "function", "function": {"name": "find_order"}})
    said = {
        "llm.token_count.prompt": 12,
        "llm.token_count.completion": 3,
        "llm.cost.total": 0.5,
        "llm.tools.0.tool.json_schema": schema,
    }
    response = one(an_export(llm("m1", (1, 3), [ASKED], [ANSWERED], **said)))
    assert response["tools_offered"] == ["find_order"]
    assert response["usage"] == {
        "duration_ms": 2,
        "input_tokens": 12,
        "output_tokens": 3,
        "cost_usd": 0.5,
    }


def test_a_tools_schema_is_not_taken_for_its_arguments():
    said = {"tool.parameters": '{"id": "int"}', "input.value": '{"id": 7}'}
    assert steps(one(an_export(tool("t1", (1, 2), **said))))[0][3] == {"id": 7}
    alone = {"tool.parameters": '{"id": 7}'}
    assert steps(one(an_export(tool("t1", (1, 2), **alone))))[0][3] == {"id": 7}


def test_a_failed_tool_is_a_failed_result():
    span = tool("t1", (11, 20), **GIVEN, status=failed("TimeoutError: slow"))
    response = one(an_export(AGENT, FIRST, span))
    assert steps(response)[1] == ("result", "c1", "timeout", {"total": 12})


def test_the_session_names_the_case():
    assert imported(an_export(llm("m1", (1, 2), [ASKED], [ANSWERED], **{"session.id": "s-1"})))[
        0
    ].case_id == ("s-1")


def test_both_conventions_may_meet_in_one_trace():
    said = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_order",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.result": '{"total": 12}',
    }
    run = a_span("t1", said, (11, 20), "agent")
    assert steps(one(an_export(AGENT, FIRST, run, SECOND))) == STEPS
