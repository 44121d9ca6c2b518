"""Spans by the GenAI conventions: one case per trace, every step once, in the order of time."""

import json
from typing import Any

import pytest
from trace_builders import (
    T0,
    TRACE_ID,
    a_span,
    an_export,
    attributes,
    failed,
    imported,
    imported_lines,
    one,
    steps,
)

from effort import takes_at_most
from evalwright.trace.decode import decode_trace
from evalwright.trace.importers.formats import import_responses
from evalwright.trace.integrity import check_integrity

ASKED = {"role": "user", "parts": [{"type": "text", "content": "Refund order 7"}]}
LOOKED_UP = {
    "role": "assistant",
    "parts": [{"type": "tool_call", "id": "c1", "name": "find_order", "arguments": {"id": 7}}],
    "finish_reason": "tool_call",
}
FOUND = {
    "role": "tool",
    "parts": [{"type": "tool_call_response", "id": "c1", "response": {"total": 12}}],
}
ANSWERED = {"role": "assistant", "parts": [{"type": "text", "content": "Refunded 12 EUR."}]}
STEPS = [
    ("call", "c1", "find_order", {"id": 7}),
    ("result", "c1", "ok", {"total": 12}),
    ("final", "Refunded 12 EUR."),
]


def model(
    span_id: str,
    at: tuple[int, int],
    history: list[Any] | None = None,
    output: list[Any] | None = None,
    parent: str | None = "root",
    **more: Any,
) -> dict[str, Any]:
    """A call of a model; the messages are recorded as JSON text, as SDKs do."""
    said: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
    if history is not None:
        said["gen_ai.input.messages"] = json.dumps(history)
    if output is not None:
        said["gen_ai.output.messages"] = json.dumps(output)
    return a_span(span_id, said | more.pop("said", {}), at, parent, **more)


def tool(
    span_id: str,
    at: tuple[int, int],
    name: str = "find_order",
    parent: str | None = "root",
    fields: dict[str, Any] | None = None,
    **said: Any,
) -> dict[str, Any]:
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    told |= {f"gen_ai.tool.call.{key}": value for key, value in said.items()}
    return a_span(span_id, told, at, parent, **(fields or {}))


ROOT = a_span("root", {"gen_ai.operation.name": "invoke_agent"}, (0, 50))
FIRST = model("m1", (1, 10), [ASKED], [LOOKED_UP])
RUN = tool("t1", (11, 20), id="c1", arguments='{"id": 7}', result='{"total": 12}')
SECOND = model("m2", (21, 30), [ASKED, LOOKED_UP, FOUND], [ANSWERED])


def test_an_agents_trace_is_one_case_with_every_step_once():
    (found,) = imported(an_export(ROOT, FIRST, RUN, SECOND))
    assert found.fault is None
    assert (found.case_id, found.trace_id) == (TRACE_ID, TRACE_ID)
    assert found.response["user_prompt"] == "Refund order 7"
    assert steps(found.response) == STEPS
    assert found.response["final_output"]["content"] == "Refunded 12 EUR."
    assert [event["ts"] - T0 for event in found.response["events"]] == [10, 20, 30]
    assert found.response["events"][1]["latency_ms"] == 9
    assert check_integrity(decode_trace(found.response, "c")).status == "ok"


def test_the_order_of_spans_in_the_file_does_not_matter():
    assert steps(one(an_export(SECOND, RUN, ROOT, FIRST))) == STEPS


@pytest.mark.parametrize("left_out", [FIRST, RUN])
def test_what_one_span_does_not_tell_the_others_do(left_out: dict[str, Any]):
    spans = [span for span in (ROOT, FIRST, RUN, SECOND) if span is not left_out]
    found = steps(one(an_export(*spans)))
    assert [step[:2] for step in found] == [step[:2] for step in STEPS]
    assert found[1][3] == {"total": 12}


def test_a_tool_span_without_content_or_id_is_completed_from_the_messages():
    bare = tool("t1", (11, 20))
    assert steps(one(an_export(ROOT, FIRST, bare, SECOND))) == STEPS


def test_an_id_that_only_the_later_messages_know_is_taken_over():
    bare = tool("t1", (11, 20), arguments='{"id": 7}', result='{"total": 12}')
    assert steps(one(an_export(ROOT, bare, SECOND))) == STEPS


def test_without_messages_the_tool_spans_are_the_trace():
    response = one(an_export(ROOT, model("m1", (1, 10)), RUN, model("m2", (21, 30))))
    assert steps(response) == STEPS[:2]
    assert "final_output" not in response


def test_the_same_call_made_twice_is_two_calls():
    again = {**LOOKED_UP, "parts": [{**LOOKED_UP["parts"][0], "id": None}]}
    found = {**FOUND, "parts": [{**FOUND["parts"][0], "id": None}]}
    spans = [
        model("m1", (1, 10), [ASKED], [again]),
        tool("t1", (11, 12), arguments='{"id": 7}', result="1"),
        model("m2", (13, 20), [ASKED, again, found], [again]),
        tool("t2", (21, 22), arguments='{"id": 7}', result="2"),
        model("m3", (23, 30), [ASKED, again, found, again, found], [ANSWERED]),
    ]
    assert [step[0] for step in steps(one(an_export(ROOT, *spans)))] == [
        "call",
        "result",
        "call",
        "result",
        "final",
    ]


def test_calls_made_at_once_find_their_spans():
    parts = [
        {"type": "tool_call", "id": f"c{n}", "name": "find_order", "arguments": {"id": n}}
        for n in (1, 2)
    ]
    spans = [
        model("m1", (1, 10), [ASKED], [{"role": "assistant", "parts": parts}]),
        tool("t2", (11, 30), arguments='{"id": 2}', result="two"),
        tool("t1", (12, 20), arguments='{"id": 1}', result="one"),
    ]
    assert steps(one(an_export(ROOT, *spans))) == [
        ("call", "c1", "find_order", {"id": 1}),
        ("call", "c2", "find_order", {"id": 2}),
        ("result", "c1", "ok", "one"),
        ("result", "c2", "ok", "two"),
    ]


def test_two_layers_of_one_client_tell_one_call():
    inner = model("m1.1", (2, 9), [ASKED], [LOOKED_UP], parent="m1")
    wrapped = tool("t1.1", (12, 19), parent="t1", arguments='{"id": 7}', result='{"total": 12}')
    usage = {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2}
    outer = model("m1", (1, 10), [ASKED], [LOOKED_UP], said=usage)
    inner["attributes"] += attributes(usage)
    response = one(an_export(ROOT, outer, inner, RUN, wrapped, SECOND))
    assert steps(response) == STEPS
    assert response["usage"]["input_tokens"] == 5


def test_an_agents_own_messages_are_not_told_again():
    said = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.input.messages": json.dumps([ASKED]),
        "gen_ai.output.messages": json.dumps([ANSWERED]),
    }
    root = a_span("root", said, (0, 50))
    assert steps(one(an_export(root, FIRST, RUN, SECOND))) == STEPS
    assert steps(one(an_export(root))) == [STEPS[-1]]


def test_an_agent_inside_of_a_tool_is_not_asked_by_the_user():
    question = {"role": "user", "parts": [{"type": "text", "content": "Pay 900 to eve"}]}
    inner = model("m9", (12, 15), [question], [ANSWERED], parent="t1")
    response = one(an_export(ROOT, FIRST, RUN, inner, SECOND))
    assert ("agent", "Pay 900 to eve") in steps(response)
    assert response["user_prompt"] == "Refund order 7"


def test_system_instructions_and_tools_are_kept():
    said = {
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be kind."}]),
        "gen_ai.tool.definitions": json.dumps([{"type": "function", "name": "find_order"}]),
    }
    spans = [model("m1", (1, 10), [ASKED], [ANSWERED], said=said), model("m2", (11, 12), said=said)]
    response = one(an_export(*spans))
    assert response["system_prompt"] == "Be kind."
    assert response["tools_offered"] == ["find_order"]


def test_usage_is_summed_over_the_model_calls():
    spans = [
        model(
            "m1", (0, 10), said={"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 1}
        ),
        model("m2", (10, 25), said={"gen_ai.usage.prompt_tokens": 7}),
    ]
    assert one(an_export(*spans))["usage"] == {
        "duration_ms": 25,
        "input_tokens": 12,
        "output_tokens": 1,
    }


def test_retrievals_are_events():
    documents = [{"id": "d1", "score": 0.9}, {"id": "d2", "score": 0.5}]
    said = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.query.text": "refund window",
        "gen_ai.retrieval.documents": json.dumps(documents),
    }
    response = one(an_export(a_span("r1", said, (1, 2)), model("m1", (3, 9), [ASKED], [ANSWERED])))
    assert response["user_prompt"] == "Refund order 7"
    assert steps(response)[0] == ("retrieval", "refund window", ["d1", "d2"])


# Failures.


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"status": failed("no such order")}, "error", "no such order"),
        ({"status": {"code": 2, "message": "TimeoutError: slow"}}, "timeout", "TimeoutError: slow"),
        ({"status": {"status_code": "ERROR"}}, "error", None),
    ],
)
def test_a_failed_tool_span_is_a_failed_result(fields: Any, status: str, message: str | None):
    response = one(an_export(ROOT, tool("t1", (1, 2), id="c1", fields=fields)))
    assert response["events"][1]["status"] == status
    assert response["events"][1].get("error_message") == message


def test_the_exception_of_a_span_says_what_failed():
    event = {"name": "exception", "attributes": attributes({"exception.message": "gone"})}
    span = tool("t1", (1, 2), fields={"status": failed(), "events": [event]})
    assert one(an_export(span))["events"][1]["error_message"] == "gone"


def test_a_trace_that_ends_in_an_error_is_a_failure():
    said = {"error.type": "RateLimitError", "http.response.status_code": 429}
    root = {**ROOT, "status": failed("too many requests")}
    spans = [FIRST, RUN, model("m2", (21, 22), [ASKED], said=said, status=failed("slow down"))]
    failure = decode_trace(one(an_export(root, *spans)), "c").failure
    assert failure is not None
    assert (failure.kind, failure.status) == ("http_error", 429)
    assert failure.message == "RateLimitError: slow down"


# Which case.


def test_the_case_is_named_by_the_first_attribute_of_a_list():
    order = [
        "evalwright.case_id",
        "case_id",
        "test.case.id",
        "session.id",
        "gen_ai.conversation.id",
    ]
    said = {key: f"by {key}" for key in order}
    for key in order:
        (found,) = imported(an_export(model("m1", (0, 1), said=said)))
        assert found.case_id == f"by {key}"
        del said[key]
    assert imported(an_export(model("m1", (0, 1))))[0].case_id == TRACE_ID


def test_the_resource_may_name_the_case():
    document = an_export(model("m1", (0, 1)), **{"test.case.id": "late"})
    assert imported(document)[0].case_id == "late"


def test_later_traces_of_a_conversation_are_numbered_and_repeats_of_a_case_are_not():
    def spans(key: str) -> list[dict[str, Any]]:
        return [model("m", (n, n + 1), trace_id=f"{n:032x}", said={key: "x"}) for n in range(3)]

    turns = imported(an_export(*spans("gen_ai.conversation.id")))
    assert [each.case_id for each in turns] == ["x", "x#2", "x#3"]
    repeats = imported(an_export(*spans("case_id")))
    assert [each.case_id for each in repeats] == ["x", "x", "x"]


def test_a_trace_may_be_spread_over_the_lines_of_a_file():
    (found,) = imported_lines([an_export(FIRST), an_export(RUN, SECOND), an_export(ROOT)])
    assert steps(found.response) == STEPS


def test_an_input_may_name_a_call_by_another_id_than_its_result():
    """As the ids of items in the Responses API, which are not those of the calls."""
    renamed = json.loads(json.dumps(LOOKED_UP).replace('"c1"', '"fc_1"'))
    again = model("m2", (21, 30), [ASKED, renamed, FOUND], [ANSWERED])
    assert steps(one(an_export(ROOT, FIRST, RUN, again))) == STEPS
    twice = model("m2", (21, 30), [ASKED, renamed, renamed, FOUND], [ANSWERED])
    calls = [step for step in steps(one(an_export(ROOT, FIRST, RUN, twice))) if step[0] == "call"]
    assert len(calls) == 2


def test_results_that_go_by_other_ids_than_their_calls_are_their_results():
    renamed = json.loads(json.dumps(LOOKED_UP).replace('"c1"', '"fc_1"'))
    first = model("m1", (1, 10), [ASKED], [renamed])
    again = model("m2", (21, 30), [ASKED, renamed, FOUND], [ANSWERED])
    events = one(an_export(ROOT, first, again))["events"]
    assert [each["call_id"] for each in events if "call_id" in each] == ["fc_1", "fc_1"]
    other = json.loads(json.dumps(renamed).replace('"fc_1"', '"fc_2"'))
    both = model("m1", (1, 10), [ASKED], [renamed, other])
    one_left = model("m2", (21, 30), [ASKED, renamed, other, FOUND], [ANSWERED])
    events = one(an_export(ROOT, both, one_left))["events"]
    assert [each["call_id"] for each in events if "call_id" in each] == ["fc_1", "fc_2", "c1"]


def test_answers_that_were_not_recorded_are_not_passed_over_in_silence():
    notes: list[str] = []
    export = an_export(ROOT, model("m1", (1, 10), [ASKED], []), RUN)
    (found,) = import_responses([json.dumps(export).encode()], "x.json", notes)
    assert found.fault is None
    assert "whose answers were not recorded" in notes[0]


def test_the_cost_of_an_operation_is_kept_from_the_span_that_has_it():
    priced = {"operation.cost": 0.25, "gen_ai.usage.input_tokens": 5}
    first = model("m1", (1, 10), [ASKED], [LOOKED_UP], said=priced)
    second = model("m2", (21, 30), [ASKED, LOOKED_UP, FOUND], [ANSWERED], said=priced)
    assert one(an_export(ROOT, first, second))["usage"]["cost_usd"] == 0.5
    root = a_span(
        "root", {"gen_ai.operation.name": "invoke_agent", "operation.cost": 0.75}, (0, 50)
    )
    counted = model("m1", (1, 10), [ASKED], [ANSWERED], said={"gen_ai.usage.input_tokens": 5})
    usage = one(an_export(root, counted))["usage"]
    assert (usage["cost_usd"], usage["input_tokens"]) == (0.75, 5)


@pytest.mark.parametrize("operation", ["create_agent", "invoke_agent"])
def test_a_span_that_tells_only_of_an_agent_is_no_case(operation: str):
    lone = a_span("a1", {"gen_ai.operation.name": operation}, trace_id="f" * 32)
    notes: list[str] = []
    source = json.dumps(an_export(lone, model("m1", (0, 1), [ASKED], [ANSWERED]))).encode()
    (found,) = import_responses([source], "t.json", notes)
    assert found.case_id == TRACE_ID
    (note,) = notes
    assert note == (
        f"t.json: passed over: 1 trace ({'f' * 32}) holds only that an agent was created or invoked"
    )
    (none,) = imported(an_export(lone))
    assert "tell only that an agent was created or invoked" in (none.fault or "")


def test_a_layer_that_records_no_messages_is_passed_over_beside_one_that_does():
    silent = model("m1", (1, 10), None, None, None, trace_id="f" * 32)
    told = model("m2", (1, 10), [ASKED], [LOOKED_UP], None, trace_id="1" * 32)
    inner = model("m3", (2, 9), None, None, "m2", trace_id="1" * 32)
    later = model("m4", (21, 30), [ASKED, LOOKED_UP, FOUND], [ANSWERED], None, trace_id="2" * 32)
    notes: list[str] = []
    source = json.dumps(an_export(silent, told, inner, later)).encode()
    (found,) = import_responses([source], "t.json", notes)
    assert found.case_id == "1" * 32
    assert [step[0] for step in steps(found.response)] == ["call", "result", "final"]
    assert notes == [
        f"t.json: passed over: 1 trace ({'f' * 32}) holds calls of a model without a message"
    ]


def test_requests_in_traces_of_their_own_are_one_conversation_if_one_repeats_the_other():
    first = model("m1", (1, 10), [ASKED], [LOOKED_UP], None, trace_id="1" * 32)
    second = model("m2", (21, 30), [ASKED, LOOKED_UP, FOUND], [ANSWERED], None, trace_id="2" * 32)
    (found,) = imported(an_export(second, first))
    assert found.case_id == "1" * 32
    assert found.response["final_output"]["content"] == STEPS[-1][1]
    third = model("m3", (31, 40), [ASKED], [LOOKED_UP], None, trace_id="3" * 32)
    assert len(imported(an_export(second, first, third))) == 2


def test_spans_of_other_things_are_no_cases():
    other = a_span("h1", {"http.request.method": "GET"}, trace_id="f" * 32)
    (found,) = imported(an_export(other, model("m1", (0, 1), [ASKED], [ANSWERED])))
    assert found.case_id == TRACE_ID
    (none,) = imported(an_export(other))
    assert "none of 1 spans in 1 traces has GenAI or OpenInference attributes" in (none.fault or "")


def test_a_span_that_is_no_operation_may_stand_between_two():
    handler = a_span("h1", {"http.request.method": "GET"}, (11, 19), "t1")
    question = {"role": "user", "parts": [{"type": "text", "content": "inner"}]}
    inner = model("m9", (12, 15), [question], [ANSWERED], parent="h1")
    assert ("agent", "inner") in steps(one(an_export(ROOT, FIRST, RUN, handler, inner, SECOND)))


# Other spellings.


def test_ids_in_base64_and_names_in_snake_case_are_read():
    span = {
        "trace_id": "CvdlGRbNQ92ESOshHIAxnA==",
        "span_id": "AAAAAAAAAAE=",
        "name": "chat",
        "start_time_unix_nano": T0 * 1_000_000,
        "end_time_unix_nano": (T0 + 4) * 1_000_000,
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"string_value": "chat"}},
            {"key": "gen_ai.usage.input_tokens", "value": {"int_value": 3}},
        ],
    }
    document = {"resource_spans": [{"scope_spans": [{"spans": [span]}]}]}
    (found,) = imported(document)
    assert found.trace_id == TRACE_ID
    assert found.response["usage"] == {"duration_ms": 4, "input_tokens": 3}


def test_the_console_form_of_a_span_is_read():
    span = {
        "name": "execute_tool find_order",
        "context": {"trace_id": f"0x{TRACE_ID}", "span_id": "0x1"},
        "parent_id": None,
        "start_time": "2026-01-01T00:00:00.000000Z",
        "end_time": "2026-01-01T00:00:00.250000Z",
        "status": {"status_code": "ERROR", "description": "TimeoutError: slow"},
        "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c1"},
        "events": [],
    }
    (found,) = imported_lines([span])
    assert found.trace_id == TRACE_ID
    assert steps(found.response)[0] == ("call", "c1", "find_order", None)
    assert found.response["events"][1]["status"] == "timeout"
    assert found.response["events"][1]["latency_ms"] == 250


def test_the_form_of_test_exporters_is_read():
    """Ids are numbers, the parent is a context, and an exception says what a status would."""
    context = {"trace_id": 7, "span_id": 2, "is_remote": False}
    outer = {
        "name": "chat small-1",
        "context": context,
        "parent": None,
        "start_time": 1767225600000000000,
        "end_time": 1767225600000000009,
        "attributes": {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps([ASKED]),
            "gen_ai.output.messages": json.dumps([ANSWERED]),
            "gen_ai.usage.input_tokens": 5,
        },
    }
    client = {
        **outer,
        "name": "messages.create",
        "context": {**context, "span_id": 3},
        "parent": context,
        "attributes": {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5},
    }
    failed = {
        **client,
        "name": "execute_tool find_order",
        "context": {**context, "span_id": 4},
        "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c1"},
        "events": [{"name": "exception", "attributes": {"exception.escaped": "True"}}],
    }
    (found,) = imported_lines([client, outer, failed])
    assert found.response["usage"]["input_tokens"] == 5
    results = [each for each in found.response["events"] if each["type"] == "tool_result"]
    assert [each["status"] for each in results] == ["error"]


def test_messages_may_be_structured_attributes():
    said = {"gen_ai.input.messages": [ASKED], "gen_ai.output.messages": [ANSWERED]}
    response = one(an_export(model("m1", (1, 2), said=said)))
    assert response["user_prompt"] == "Refund order 7"
    assert steps(response) == [STEPS[-1]]


def event(name: str, **said: Any) -> dict[str, Any]:
    return {"name": name, "timeUnixNano": str(T0 * 1_000_000), "attributes": attributes(said)}


CALLS = json.dumps([{"id": "c1", "function": {"name": "find_order", "arguments": '{"id": 7}'}}])


def test_span_events_of_older_conventions_are_read():
    events = [
        event("gen_ai.system.message", content="Be kind."),
        event("gen_ai.user.message", content="Refund order 7"),
        event("gen_ai.assistant.message", tool_calls=CALLS),
        event("gen_ai.tool.message", id="c1", content="12"),
        event("gen_ai.choice", index=0, message=json.dumps({"content": "Refunded."})),
    ]
    response = one(an_export(model("m1", (1, 2), events=events)))
    assert (response["system_prompt"], response["user_prompt"]) == ("Be kind.", "Refund order 7")
    assert steps(response) == [
        ("call", "c1", "find_order", {"id": 7}),
        ("result", "c1", None, "12"),
        ("final", "Refunded."),
    ]


def test_prompt_and_completion_events_are_read():
    prompt = json.dumps([{"role": "user", "content": "Refund order 7"}])
    events = [
        event("gen_ai.content.prompt", **{"gen_ai.prompt": prompt}),
        event("gen_ai.content.completion", **{"gen_ai.completion": "Refunded."}),
    ]
    response = one(an_export(model("m1", (1, 2), events=events)))
    assert response["user_prompt"] == "Refund order 7"
    assert steps(response) == [("final", "Refunded.")]


def test_flattened_prompts_and_completions_are_read():
    said = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Refund order 7",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": "find_order",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"id": 7}',
    }
    response = one(an_export(model("m1", (1, 2), said=said)))
    assert response["user_prompt"] == "Refund order 7"
    assert steps(response) == STEPS[:1]


def logs(*records: dict[str, Any]) -> dict[str, Any]:
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}


def log_record(name: str, span_id: str, body: dict[str, Any]) -> dict[str, Any]:
    from trace_builders import typed

    where = {"traceId": TRACE_ID, "spanId": span_id, "timeUnixNano": str(T0 * 1_000_000)}
    return {**where, "eventName": name, "body": typed(body)}


@pytest.mark.parametrize("with_span", [True, False])
def test_events_that_were_exported_as_logs_belong_to_their_span(*, with_span: bool):
    records = logs(
        log_record("gen_ai.user.message", "m1", {"content": "Refund order 7"}),
        log_record("gen_ai.choice", "m1", {"index": 0, "message": {"content": "Refunded."}}),
    )
    spans = [an_export(model("m1", (1, 2)))] if with_span else []
    (found,) = imported_lines([*spans, records])
    assert found.response["user_prompt"] == "Refund order 7"
    assert steps(found.response) == [("final", "Refunded.")]


# Hostile input.


def test_parents_in_a_circle_end():
    spans = [model("a", (1, 2), [ASKED], [ANSWERED], parent="b"), tool("b", (1, 2), parent="a")]
    assert one(an_export(*spans))["events"]


def test_a_chain_of_many_spans_takes_no_time():
    spans = [tool(f"s{n}", (n, n + 1), f"tool-{n}", f"s{n - 1}", id=f"c{n}") for n in range(5000)]
    export = an_export(*spans)
    assert len(one(export)["events"]) == 10_000
    assert takes_at_most(5, lambda: one(export))


def test_many_calls_without_ids_take_no_time():
    parts = [{"type": "tool_call", "name": "f", "arguments": {"n": n}} for n in range(10_000)]
    spans = [model("m1", (0, 1), [ASKED], [{"role": "assistant", "parts": parts}])]
    spans += [
        tool(f"t{n}", (2, 3), "f", arguments=f'{{"n": {n}}}') for n in reversed(range(10_000))
    ]
    export = an_export(*spans)
    assert len(one(export)["events"]) == 20_000
    assert takes_at_most(10, lambda: one(export))


def test_attributes_of_wrong_types_are_no_reason_to_stop():
    span = model("m1", (1, 2), [ASKED], [ANSWERED])
    span["attributes"] += [None, 7, {"key": 3}, {"key": "a"}, {"key": "b", "value": {"x": 1}}]
    span["events"], span["status"], span["startTimeUnixNano"] = "none", [], "soon"
    response = one(an_export(span))
    assert steps(response) == [STEPS[-1]]
