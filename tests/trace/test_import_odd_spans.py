"""Spans as instrumentations write them in long talks: cut off, told twice, beside each other."""

import json
from typing import Any

import pytest
from trace_builders import T0, a_span, an_export, failed, imported, one, steps, typed

from evalwright.trace.importers.formats import import_responses

ASKED = {"role": "user", "content": "Where is order 7?"}
AGAIN = {"role": "user", "content": "And now?"}
ANSWER = {"role": "assistant", "content": "On its way."}


def lookup(call_id: str) -> dict[str, Any]:
    function = {"name": "find_order", "arguments": '{"id": 7}'}
    return {"role": "assistant", "tool_calls": [{"id": call_id, "function": function}]}


def found(call_id: str, payload: str = "shipped") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": payload}


def chat(
    span_id: str,
    at: tuple[int, int],
    history: list[Any],
    output: list[Any],
    parent: str | None = None,
    **fields: Any,
) -> dict[str, Any]:
    said = {"gen_ai.operation.name": "chat"}
    if history or output:
        said["gen_ai.input.messages"] = json.dumps(history)
        said["gen_ai.output.messages"] = json.dumps(output)
    return a_span(span_id, said, at, parent, **fields)


def flat(span_id: str, at: int, history: list[Any], output: list[Any], cut: int = 0) -> Any:
    """A call of a model by OpenInference, without the first `cut` attributes."""
    said: dict[str, Any] = {}
    for prefix, messages in (("input", history), ("output", output)):
        for place, message in enumerate(messages):
            start = f"llm.{prefix}_messages.{place}.message"
            said |= {f"{start}.{key}": message[key] for key in message if key != "tool_calls"}
            for call in message.get("tool_calls", []):
                inner = f"{start}.tool_calls.0.tool_call"
                said[f"{inner}.id"] = call["id"]
                said[f"{inner}.function.name"] = call["function"]["name"]
                said[f"{inner}.function.arguments"] = call["function"]["arguments"]
    kept = dict(list(said.items())[cut:]) | {"openinference.span.kind": "LLM"}
    return a_span(span_id, kept, (at, at + 1), trace_id=span_id * 16)


def test_a_request_whose_beginning_was_cut_off_belongs_to_the_talk_whose_call_it_repeats():
    first = flat("a1", 1, [ASKED], [lookup("c1")])
    second = flat("b2", 3, [ASKED, lookup("c1"), found("c1")], [ANSWER], cut=3)
    notes: list[str] = []
    source = json.dumps(an_export(first, second)).encode()
    (case,) = import_responses([source], "t.json", notes)
    assert case.response["user_prompt"] == "Where is order 7?"
    assert [each[0] for each in steps(case.response)] == ["call", "result", "final"]
    (note,) = notes
    assert "1 model calls lack attributes" in note
    assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in note


def test_a_message_of_which_only_the_end_is_left_is_no_message():
    (case,) = imported(an_export(flat("a1", 1, [ASKED, AGAIN], [ANSWER], cut=1)))
    assert case.response["user_prompt"] == "And now?"
    assert steps(case.response) == [("final", "On its way.")]


def test_a_layer_that_tells_nothing_does_not_make_equal_answers_one():
    talk = [ASKED, ANSWER, AGAIN]
    spans = [
        chat("m1", (1, 9), [ASKED], [ANSWER]),
        chat("i1", (2, 8), [], [], "m1"),
        chat("m2", (11, 19), talk, [ANSWER]),
        chat("i2", (12, 18), [], [], "m2"),
    ]
    assert steps(one(an_export(*spans))) == [
        ("assistant", "On its way."),
        ("user", "And now?"),
        ("final", "On its way."),
    ]


def test_a_tool_that_runs_in_a_later_turn_is_not_the_call_of_an_earlier_one():
    said = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find_order"}
    arguments = {"gen_ai.tool.call.arguments": '{"id": 7}'}
    talk = [ASKED, lookup("c1"), found("c1"), ANSWER, AGAIN]
    spans = [
        chat("m1", (1, 2), talk, [lookup("c2")]),
        a_span("t1", said | arguments, (3, 4), status=failed("no such order")),
        chat("m2", (5, 6), [*talk, lookup("c2"), found("c2", "sorry")], [ANSWER]),
    ]
    results = [each for each in one(an_export(*spans))["events"] if each["type"] == "tool_result"]
    assert [(each["call_id"], each.get("status")) for each in results] == [
        ("c1", None),
        ("c2", "error"),
    ]


def test_what_an_agent_beside_the_tool_that_asked_it_is_told_is_not_the_users():
    agent = {"gen_ai.operation.name": "invoke_agent"}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "researcher"}
    spans = [
        a_span("root", {}, (0, 20)),
        a_span("lead", agent, (1, 19), "root"),
        chat("m1", (2, 3), [ASKED], [], "lead"),
        a_span("t1", tool, (4, 10), "lead"),
        a_span("sub", agent, (5, 9), "root"),
        chat("m2", (6, 8), [{"role": "user", "content": "Find 7"}], [ANSWER], "sub"),
    ]
    told = one(an_export(*spans))
    assert told["user_prompt"] == "Where is order 7?"
    assert ("agent", "Find 7") in steps(told)


def test_a_failed_request_that_an_inner_layer_tells_without_messages_is_one_case():
    outer = chat("m1", (1, 9), [ASKED], [], status=failed("overloaded"), trace_id="1" * 32)
    inner = chat("m2", (2, 8), [], [], status=failed(), trace_id="2" * 32)
    (case,) = imported(an_export(outer, inner))
    assert case.response["runner_failure"]["error_message"] == "overloaded"
    alone = chat("m2", (12, 18), [], [], status=failed(), trace_id="2" * 32)
    assert len(imported(an_export(outer, alone))) == 2


@pytest.mark.parametrize("kind", ["agent_error", "timeout"])
def test_what_stands_in_a_traceback_does_not_name_the_failure(kind: str):
    error = "TimeoutError()" if kind == "timeout" else "ValueError('no')"
    lines = f"{error}Traceback (most recent call last):\n  File 'x', line 1\n    get(timeout=3)"
    spans = an_export(chat("m1", (1, 2), [ASKED], [], status=failed(lines)))
    failure = one(spans)["runner_failure"]
    assert (failure["class"], failure["error_message"]) == (kind, error)


def test_a_handoff_is_told_by_the_call_of_the_model_alone():
    handoff = {"openinference.span.kind": "TOOL", "input.value": "triage", "output.value": "shop"}
    transfer = {"id": "c1", "function": {"name": "transfer_to_shop", "arguments": "{}"}}
    asked = {"role": "assistant", "tool_calls": [transfer]}
    span = flat("a1", 1, [ASKED], [asked])
    beside = a_span("b2", handoff, (3, 4), name="handoff to shop", trace_id="a1" * 16)
    (case,) = imported(an_export(span, beside))
    assert [each[2] for each in steps(case.response)] == ["transfer_to_shop"]


def test_the_data_that_an_agent_answers_with_is_its_answer():
    agent = {"gen_ai.operation.name": "invoke_agent", "final_result": '{"status": "shipped"}'}
    spans = [a_span("root", agent, (0, 9)), chat("m1", (1, 2), [ASKED], [lookup("c1")], "root")]
    assert one(an_export(*spans))["final_output"]["content"] == {"status": "shipped"}


def test_the_call_that_pydantic_ai_takes_as_the_answer_is_the_answer():
    call = {"part_kind": "tool-call", "tool_name": "final_result", "tool_call_id": "c1"}
    back = {"part_kind": "tool-return", "tool_name": "final_result", "tool_call_id": "c1"}
    messages = [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Where is 7?"}]},
        {"kind": "response", "parts": [{**call, "args": {"status": "shipped"}}]},
        {"kind": "request", "parts": [{**back, "content": "Final result processed."}]},
    ]
    assert one(messages)["final_output"] == {
        "content_type": "json",
        "content": {"status": "shipped"},
    }


def test_events_that_name_no_span_are_taken_request_by_request():
    def record(name: str, body: Any) -> dict[str, Any]:
        return {"timeUnixNano": str(T0 * 1_000_000), "eventName": name, "body": typed(body)}

    call = {"id": "c1", "function": {"name": "find_order", "arguments": "{}"}}
    asked = record("gen_ai.user.message", {"content": "Where is order 7?"})
    offered = record("gen_ai.user.message", {"content": {"tools": [{"name": "find_order"}]}})
    nothing = {"key": "content", "value": {}}
    chosen = record("gen_ai.choice", {"message": {"tool_calls": [call]}, "index": 0})
    chosen["body"]["kvlistValue"]["values"].append(nothing)
    records = [
        asked,
        offered,
        chosen,
        asked,
        record("gen_ai.assistant.message", {"tool_calls": [call]}),
        record("gen_ai.tool.message", {"id": "c1", "content": "shipped"}),
        record("gen_ai.choice", {"message": {"content": "On its way."}}),
    ]
    told = one({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})
    assert told["user_prompt"] == "Where is order 7?"
    assert told["tools_offered"] == ["find_order"]
    assert [each[0] for each in steps(told)] == ["call", "result", "final"]


def test_ids_that_only_later_inputs_have_are_those_of_the_calls():
    bare = json.loads(json.dumps(lookup("c1")).replace('"id": "c1", ', ""))
    first = chat("m1", (1, 2), [ASKED], [bare], trace_id="1" * 32)
    second = chat("m2", (3, 4), [ASKED, lookup("c1"), found("c1")], [ANSWER], trace_id="2" * 32)
    (case,) = imported(an_export(first, second))
    assert [each[:2] for each in steps(case.response)] == [
        ("call", "c1"),
        ("result", "c1"),
        ("final", "On its way."),
    ]


def test_a_result_that_alone_has_an_id_is_that_of_the_tools_span():
    bare = json.loads(json.dumps(lookup("c1")).replace('"id": "c1", ', ""))
    said = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find_order"}
    told = {"gen_ai.tool.call.result": "content='shipped' tool_call_id='c1'"}
    result = {**found("c1"), "name": "find_order"}
    spans = [
        chat("m1", (1, 2), [ASKED], [bare]),
        a_span("t1", said | told, (3, 4)),
        chat("m2", (5, 6), [ASKED, bare, result], [ANSWER]),
    ]
    assert steps(one(an_export(*spans))) == [
        ("call", "c1", "find_order", {"id": 7}),
        ("result", "c1", "ok", "shipped"),
        ("final", "On its way."),
    ]


def test_results_that_were_recorded_as_the_users_words_are_results():
    blocks = [{"type": "tool_result", "tool_use_id": "c1", "content": "shipped"}]
    said = {"gen_ai.operation.name": "chat", "gen_ai.prompt.0.role": "user"}
    said |= {"gen_ai.prompt.0.content": "Where?", "gen_ai.prompt.1.role": "user"}
    said |= {"gen_ai.prompt.1.content": json.dumps(blocks), "gen_ai.completion.0.content": "There."}
    assert ("result", "c1", "ok", "shipped") in steps(one(an_export(a_span("m1", said))))
    flattened = flat("a1", 1, [ASKED, lookup("c1"), {**found("c1"), "role": "user"}], [ANSWER])
    (case,) = imported(an_export(flattened))
    assert [each[0] for each in steps(case.response)] == ["call", "result", "final"]
