"""Message logs: chat completions, Responses items and Anthropic blocks as one kind of trace."""

import json
from typing import Any

import pytest
from trace_builders import imported, imported_lines, one, steps

from evalwright.trace.decode import decode_trace
from evalwright.trace.integrity import check_integrity

SYSTEM = {"role": "system", "content": "You serve a shop."}
ASKED = {"role": "user", "content": "Refund order 7"}
LOOKED_UP = {
    "role": "assistant",
    "content": "Let me look.",
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "find_order", "arguments": '{"id": 7}'},
        }
    ],
}
FOUND = {"role": "tool", "tool_call_id": "call_1", "content": '{"total": 12}'}
ANSWERED = {"role": "assistant", "content": "Refunded 12 EUR."}
CONVERSATION = [SYSTEM, ASKED, LOOKED_UP, FOUND, ANSWERED]
STEPS = [
    ("assistant", "Let me look."),
    ("call", "call_1", "find_order", {"id": 7}),
    ("result", "call_1", None, '{"total": 12}'),
    ("final", "Refunded 12 EUR."),
]


def test_a_conversation_becomes_prompts_steps_and_an_answer():
    tools = [{"type": "function", "function": {"name": "find_order"}}]
    response = one({"id": "case-7", "messages": CONVERSATION, "tools": tools})
    assert response["case_id"] == "case-7"
    assert response["system_prompt"] == "You serve a shop."
    assert response["user_prompt"] == "Refund order 7"
    assert response["tools_offered"] == ["find_order"]
    assert response["final_output"] == {"content_type": "text", "content": "Refunded 12 EUR."}
    assert steps(response) == STEPS


def test_a_bare_list_of_messages_is_one_conversation():
    assert steps(one(CONVERSATION)) == STEPS


def test_each_line_is_a_conversation_of_its_own():
    found = imported_lines([{"messages": CONVERSATION}, CONVERSATION, {"messages": [ASKED]}])
    assert [each.case_id for each in found] == ["record-1", "record-2", "record-3"]
    assert steps(found[1].response) == STEPS
    assert found[2].response["events"] == []
    assert "final_output" not in found[2].response


def test_a_case_id_stands_before_other_ids():
    record = {"messages": [ASKED], "id": "chatcmpl-9", "conversation_id": "conv"}
    assert imported(record)[0].case_id == "chatcmpl-9"
    assert imported(record | {"metadata": {"case_id": "late"}})[0].case_id == "late"
    assert (
        imported(record | {"case_id": "later", "metadata": {"case_id": "x"}})[0].case_id == "later"
    )


def test_arguments_that_are_no_json_stay_as_they_were_written():
    call = {"id": "c", "function": {"name": "f", "arguments": '{"id": 7'}}
    empty = {"id": "d", "function": {"name": "f", "arguments": ""}}
    response = one({"messages": [ASKED, {"role": "assistant", "tool_calls": [call, empty]}]})
    assert steps(response) == [("call", "c", "f", '{"id": 7'), ("call", "d", "f", {})]


def test_arguments_nested_too_deeply_stay_text():
    text = "[" * 300 + "]" * 300
    call = {"id": "c", "function": {"name": "f", "arguments": text}}
    response = one({"messages": [ASKED, {"role": "assistant", "tool_calls": [call]}]})
    assert steps(response) == [("call", "c", "f", text)]


def test_the_old_function_call_is_a_call_without_an_id():
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    response = one({"messages": [ASKED, call, {"role": "function", "name": "f", "content": "1"}]})
    assert steps(response) == [("call", None, "f", {}), ("result", None, None, "1")]
    trace = decode_trace(response, "c")
    assert "tool_result_without_call" not in check_integrity(trace).issues


def test_content_in_parts_is_joined_where_it_is_text():
    parts = [{"type": "text", "text": "Look at"}, {"type": "text", "text": "this"}]
    picture = {"type": "image_url", "image_url": {"url": "data:…"}}
    messages = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": [{"type": "output_text", "text": "At what?"}]},
        {"role": "user", "content": [*parts, picture]},
    ]
    response = one({"messages": messages})
    assert response["user_prompt"] == "Look at\nthis"
    assert steps(response) == [("final", "At what?"), ("user", [*parts, picture])]


def test_later_messages_of_the_user_are_steps():
    response = one({"messages": [ASKED, ANSWERED, {"role": "user", "content": "Thanks"}, ANSWERED]})
    assert steps(response) == [
        ("assistant", "Refunded 12 EUR."),
        ("user", "Thanks"),
        ("final", "Refunded 12 EUR."),
    ]


def test_words_before_a_last_call_are_no_answer():
    response = one(
        {"messages": [ASKED, {"role": "assistant", "content": "Soon."}, LOOKED_UP, FOUND]}
    )
    assert "final_output" not in response
    assert steps(response)[0] == ("assistant", "Soon.")


def test_reasoning_is_kept_and_is_no_answer():
    thought = {"role": "assistant", "content": "Yes", "reasoning_content": "Should I?"}
    response = one({"messages": [ASKED, thought]})
    assert steps(response) == [("assistant", "Should I?"), ("final", "Yes")]
    assert "final_output" not in one({"messages": [ASKED, {"type": "reasoning", "content": "hm"}]})


def test_times_are_kept_where_they_were_recorded():
    stamped = [
        ANSWERED | {"timestamp": "2026-01-01T00:00:00Z"},
        ANSWERED | {"created": 1767225600},
        ANSWERED | {"ts": 1767225600000},
    ]
    response = one({"messages": [ASKED, *stamped]})
    assert [event["ts"] for event in response["events"]] == [1767225600000] * 3
    assert "ts" not in one({"messages": [ASKED, ANSWERED]})["events"][0]


def test_a_request_and_its_response_are_one_conversation():
    record = {
        "id": "r1",
        "request": {"model": "m", "messages": CONVERSATION[:4], "tools": [{"name": "find_order"}]},
        "response": {
            "choices": [{"index": 0, "message": ANSWERED}],
            "usage": {"prompt_tokens": 30, "completion_tokens": 6},
        },
        "latency_ms": 250,
    }
    response = one(record)
    assert steps(response) == STEPS
    assert response["tools_offered"] == ["find_order"]
    assert response["usage"] == {"input_tokens": 30, "output_tokens": 6}


def exchange(history: list[Any], answer: Any, case_id: str | None = "r1") -> dict[str, Any]:
    return {
        "case_id": case_id,
        "request": {"messages": history},
        "response": {"choices": [{"message": answer}], "usage": {"prompt_tokens": 10}},
    }


def test_exchanges_that_go_on_are_one_case():
    found = imported_lines(
        [
            exchange([SYSTEM, ASKED], LOOKED_UP),
            exchange(CONVERSATION[:4], ANSWERED),
            exchange([SYSTEM, ASKED], ANSWERED, "r2"),
        ]
    )
    assert [each.case_id for each in found] == ["r1", "r2"]
    assert steps(found[0].response) == STEPS
    assert found[0].response["usage"] == {"input_tokens": 20}


def test_the_same_question_asked_again_is_another_case():
    again = exchange([SYSTEM, ASKED], ANSWERED)
    assert [each.case_id for each in imported_lines([again, again])] == ["r1", "r1"]


def test_an_answer_that_the_next_request_left_out_is_not_lost():
    found = imported_lines(
        [exchange([ASKED], ANSWERED), exchange([ASKED, {"role": "user", "content": "?"}], ANSWERED)]
    )
    assert len(found) == 2


def test_exchanges_without_a_shared_id_are_one_case_if_one_repeats_the_other():
    lines = [exchange([SYSTEM, ASKED], LOOKED_UP, None), exchange(CONVERSATION[:4], ANSWERED, None)]
    (found,) = imported_lines(lines)
    assert found.case_id == "record-1"
    assert steps(found.response) == STEPS
    named = [line | {"id": f"request-{place}"} for place, line in enumerate(lines)]
    (found,) = imported_lines(named)
    assert found.case_id == "request-0"
    assert steps(found.response) == STEPS


def test_exchanges_of_different_conversations_are_never_joined():
    lines = [exchange([SYSTEM, ASKED], LOOKED_UP, "a"), exchange(CONVERSATION[:4], ANSWERED, "b")]
    assert [each.case_id for each in imported_lines(lines)] == ["a", "b"]


def test_conversations_whose_requests_are_mixed_are_told_apart():
    other = {"role": "user", "content": "Hello"}
    greeted = {"role": "assistant", "content": "Good morning"}
    lines = [
        exchange([SYSTEM, ASKED], LOOKED_UP, None),
        exchange([SYSTEM, other], greeted, None),
        exchange(CONVERSATION[:4], ANSWERED, None),
        exchange([SYSTEM, other, greeted, other], greeted, None),
    ]
    found = imported_lines(lines)
    assert [each.case_id for each in found] == ["record-1", "record-2"]
    assert steps(found[0].response) == STEPS
    assert len(found[1].response["events"]) == 3


def test_a_request_may_be_repeated_with_marks_of_a_cache_and_without_reasoning():
    thought = ANSWERED | {"reasoning_content": "Hm."}
    marked = {
        "role": "user",
        "content": [{"type": "text", "text": ASKED["content"], "cache_control": {"type": "x"}}],
    }
    later = exchange([marked, ANSWERED, {"role": "user", "content": "Thanks"}], ANSWERED, None)
    assert len(imported_lines([exchange([ASKED], thought, None), later])) == 1


def test_a_request_may_name_the_answer_before_it_instead_of_repeating_it():
    first = {
        "request": {"input": "Refund order 7"},
        "response": {"id": "resp_1", "output": [{"type": "function_call", "call_id": "c1"}]},
    }
    result = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
    second = {
        "request": {"previous_response_id": "resp_1", "input": [result]},
        "response": {"id": "resp_2", "output": "Refunded."},
    }
    (found,) = imported_lines([first, second])
    assert found.response["user_prompt"] == "Refund order 7"
    assert [step[0] for step in steps(found.response)] == ["call", "result", "final"]


def test_an_error_of_the_api_is_a_failure():
    error = {"type": "overloaded_error", "message": "try later"}
    response = one({"request": {"messages": [ASKED]}, "response": {"error": error}})
    failure = decode_trace(response, "c").failure
    assert failure is not None
    assert (failure.kind, failure.message) == ("http_error", "overloaded_error: try later")


def test_batch_files_are_read():
    asked = {"custom_id": "b1", "method": "POST", "body": {"messages": [ASKED, ANSWERED]}}
    answered = {"custom_id": "b1", "response": {"body": {"choices": [{"message": ANSWERED}]}}}
    assert imported(asked)[0].case_id == "b1"
    assert steps(one(asked)) == steps(one(answered)) == [("final", "Refunded 12 EUR.")]


def test_items_of_the_responses_api():
    record = {
        "instructions": "Be kind.",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Refund order 7"}]}],
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look it up"}]},
            {"type": "function_call", "id": "fc", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "12"},
            {"type": "file_search_call", "queries": ["a", "b"], "results": [{"file_id": "d1"}]},
            {"type": "mcp_call", "id": "m1", "name": "g", "arguments": "{}", "error": "gone"},
            {"type": "computer_call", "call_id": "c2", "action": {"type": "wait"}},
            {"type": "computer_call_output", "call_id": "c2", "output": "a screen"},
            {
                "type": "web_search_call",
                "id": "w1",
                "status": "completed",
                "action": {"query": "b"},
            },
            {"type": "mcp_list_tools", "tools": []},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Refunded."}],
            },
        ],
        "usage": {"input_tokens": 4, "output_tokens": 2},
    }
    response = one(record)
    assert response["system_prompt"] == "Be kind."
    assert response["user_prompt"] == "Refund order 7"
    assert response["usage"] == {"input_tokens": 4, "output_tokens": 2}
    assert steps(response) == [
        ("assistant", "Look it up"),
        ("call", "c1", "f", {}),
        ("result", "c1", None, "12"),
        ("retrieval", "a\nb", ["d1"]),
        ("call", "m1", "g", {}),
        ("result", "m1", "error", "gone"),
        ("call", "c2", "computer", {"type": "wait"}),
        ("result", "c2", None, "a screen"),
        ("call", "w1", "web_search", {"query": "b"}),
        ("result", "w1", None, None),
        ("unrecognised.mcp_list_tools",),
        ("final", "Refunded."),
    ]


def test_anthropic_blocks():
    record = {
        "request": {
            "system": [{"type": "text", "text": "Be kind."}],
            "messages": [
                ASKED,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm"},
                        {"type": "text", "text": "Let me look."},
                        {"type": "tool_use", "id": "tu1", "name": "find_order", "input": {"id": 7}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "tu1",
                            "content": [{"type": "text", "text": "no such order"}],
                            "is_error": True,
                        },
                        {"type": "text", "text": "go on"},
                    ],
                },
            ],
        },
        "response": {"role": "assistant", "content": [{"type": "text", "text": "I cannot."}]},
    }
    response = one(record)
    assert response["system_prompt"] == "Be kind."
    assert steps(response) == [
        ("assistant", "Hm"),
        ("assistant", "Let me look."),
        ("call", "tu1", "find_order", {"id": 7}),
        ("result", "tu1", "error", "no such order"),
        ("user", "go on"),
        ("final", "I cannot."),
    ]


def test_wrong_shapes_become_events_of_unknown_type():
    messages = [ASKED, 7, {"no": "role"}, {"role": "assistant", "tool_calls": ["x"]}, ANSWERED]
    response = one({"messages": messages})
    assert steps(response) == [
        ("unrecognised.message",),
        ("unrecognised.message",),
        ("unrecognised.tool_call",),
        ("final", "Refunded 12 EUR."),
    ]
    assert check_integrity(decode_trace(response, "c")).issues[-1] == "unknown_event_type"


def test_a_record_without_messages_is_a_fault():
    (found,) = imported({"id": "c1", "request": {"model": "m"}, "response": {"status": 200}})
    assert found.case_id == "c1"
    assert "holds no messages" in (found.fault or "")


def test_a_log_of_megabytes_is_one_case():
    turn = [LOOKED_UP, FOUND]
    response = one({"messages": [ASKED, *turn * 20_000, ANSWERED]})
    assert len(response["events"]) == 60_001
    assert len(json.dumps(response)) > 4_000_000


def test_an_answer_beside_a_conversation_that_ends_with_it_is_told_once():
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho", "ts": 5}]
    assert steps(one({"messages": said, "output": "Ho"})) == [("final", "Ho")]
    assert len(steps(one({"messages": said, "output": "Hello"}))) == 2


@pytest.mark.parametrize("form", ["list", "page", "lines"])
def test_the_items_of_a_conversation_are_one_case_however_they_were_listed(form: str):
    items = [
        {"role": "user", "content": "Where is order 7?"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "find_order", "arguments": '{"id": 7}'},
        {"type": "function_call_output", "call_id": "c1", "output": "shipped"},
        {"type": "message", "role": "assistant", "content": "On its way.", "id": "msg_1"},
    ]
    page = {"object": "list", "data": items, "has_more": False}
    forms = {"list": [items], "page": [page], "lines": items}
    (case,) = imported_lines(forms[form])
    told = [each for each in steps(case.response) if each != ("assistant", "")]
    assert told == [
        ("call", "c1", "find_order", {"id": 7}),
        ("result", "c1", None, "shipped"),
        ("final", "On its way."),
    ]
