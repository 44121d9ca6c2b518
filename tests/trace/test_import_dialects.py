"""Messages of other libraries in a message log: LangChain, pydantic-ai, Gemini."""

import json

import pytest

from evalwright.trace.decode import decode_trace
from evalwright.trace.importers.formats import import_responses, recognise
from evalwright.trace.model import Trace
from evalwright.trace.paired_calls import pair_results


def read(*documents: object) -> Trace:
    lines = [json.dumps(each).encode() + b"\n" for each in documents]
    (found,) = import_responses(lines, "log.jsonl")
    assert found.fault is None
    return decode_trace(found.response, found.case_id)


def models(document: object) -> list[str]:
    (found,) = import_responses([json.dumps(document).encode()], "log.json")
    return found.response["models"]


USAGE = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
CALL = {"name": "find", "args": {"q": "tea"}, "id": "c1", "type": "tool_call"}
FIELDS = [
    ("System", {"content": "You sell tea."}),
    ("Human", {"content": "Have you green tea?"}),
    (
        "AI",
        {
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "find", "input": {"q": "tea"}},
            ],
            "tool_calls": [CALL],
            "usage_metadata": USAGE,
            "response_metadata": {"model_name": "small-1"},
        },
    ),
    ("Tool", {"content": "none", "tool_call_id": "c1", "name": "find", "status": "error"}),
    ("AI", {"content": "No.", "usage_metadata": USAGE}),
]
FORMS = {
    "plain": [{"type": kind.lower(), **fields} for kind, fields in FIELDS],
    "with data": [{"type": kind.lower(), "data": fields} for kind, fields in FIELDS],
    "constructors": [
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", f"{kind}Message"],
            "kwargs": fields,
        }
        for kind, fields in FIELDS
    ],
}


@pytest.mark.parametrize("wrap", [list, lambda said: {"messages": said}], ids=["list", "object"])
@pytest.mark.parametrize("form", FORMS)
def test_messages_of_langchain_are_a_conversation_in_every_form(form, wrap):
    trace = read(wrap(FORMS[form]))
    assert (trace.prompt, trace.system, trace.answer) == (
        "Have you green tea?",
        "You sell tea.",
        "No.",
    )
    (call,) = trace.calls
    assert (call.tool, call.args) == ("find", {"q": "tea"})
    assert pair_results(trace)[call.index].status == "error"
    assert (trace.usage.input_tokens, trace.usage.output_tokens) == (14, 4)
    assert models(FORMS[form]) == ["small-1"]


def test_messages_that_were_written_as_text_are_read():
    assert read({"messages": json.dumps(FORMS["plain"])}).answer == "No."


def test_calls_that_older_versions_of_langchain_kept_apart_are_found():
    called = {"function": {"name": "find", "arguments": '{"q": "tea"}'}, "id": "c1"}
    said = [
        {"type": "human", "content": "Tea?"},
        {"type": "ai", "content": "", "additional_kwargs": {"tool_calls": [called]}},
    ]
    assert [call.args for call in read(said).calls] == [{"q": "tea"}]


def test_the_short_form_of_a_message_is_its_role_and_its_text():
    said = {"messages": [["system", "Be brief."], ["human", "Hi"], ["ai", "Hello"]]}
    trace = read(said)
    assert (trace.system, trace.prompt, trace.answer) == ("Be brief.", "Hi", "Hello")


PYDANTIC = [
    {
        "kind": "request",
        "instructions": "You sell tea.",
        "parts": [
            {
                "part_kind": "user-prompt",
                "content": [
                    "Have you this?",
                    {"kind": "binary", "media_type": "image/png", "data": "A" * 900},
                ],
                "timestamp": "2026-01-01T00:00:00Z",
            }
        ],
    },
    {
        "kind": "response",
        "model_name": "small-1",
        "usage": {"request_tokens": 7, "response_tokens": 2, "cost": "0.25"},
        "parts": [
            {"part_kind": "thinking", "content": "What is it?"},
            {
                "part_kind": "tool-call",
                "tool_name": "find",
                "args": '{"q": "tea"}',
                "tool_call_id": "c1",
            },
            {"part_kind": "tool-call", "tool_name": "find", "args": {}, "tool_call_id": "c2"},
        ],
    },
    {
        "kind": "request",
        "instructions": "You sell tea.",
        "parts": [
            {
                "part_kind": "tool-return",
                "tool_name": "find",
                "content": ["green"],
                "tool_call_id": "c1",
                "outcome": "success",
            },
            {
                "part_kind": "retry-prompt",
                "tool_name": "find",
                "content": [{"type": "missing", "loc": ["q"]}],
                "tool_call_id": "c2",
            },
        ],
    },
    {
        "kind": "response",
        "usage": {"input_tokens": 9, "output_tokens": 3},
        "parts": [{"part_kind": "text", "content": "Yes, green tea."}],
    },
]


def test_messages_of_pydantic_ai_are_a_conversation():
    trace = read(PYDANTIC)
    assert trace.prompt == "Have you this?\n[binary]"
    assert trace.system == "You sell tea."
    assert [call.args for call in trace.calls] == [{"q": "tea"}, {}]
    results = pair_results(trace)
    assert [results[call.index].status for call in trace.calls] == ["ok", "error"]
    assert trace.answer == "Yes, green tea."
    assert models(PYDANTIC) == ["small-1"]


def test_old_and_new_names_of_the_usage_of_pydantic_ai_are_summed():
    usage = read(PYDANTIC).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (16, 5, 0.25)


def test_a_prompt_to_answer_again_is_not_taken_for_the_users_words():
    retry = {"part_kind": "retry-prompt", "content": "Answer as JSON.", "tool_name": None}
    said = [
        PYDANTIC[0],
        PYDANTIC[3],
        {"kind": "request", "parts": [retry]},
        PYDANTIC[3],
    ]
    trace = read(said)
    assert "JSON" not in trace.prompt
    said_between = [(each.role, each.content) for each in trace.messages]
    assert said_between == [("assistant", "Yes, green tea."), ("system", "Answer as JSON.")]


def test_contents_of_gemini_are_a_conversation():
    said = [
        {"role": "user", "parts": [{"text": "Green tea?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "find", "args": {"q": "tea"}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "find", "response": {"hits": 0}}}],
        },
        {"role": "model", "parts": [{"text": "Let me see.", "thought": True}, {"text": "No."}]},
    ]
    trace = read({"messages": said})
    assert trace.prompt == "Green tea?"
    assert [(call.tool, call.args) for call in trace.calls] == [("find", {"q": "tea"})]
    assert [result.payload for result in trace.results] == [{"hits": 0}]
    assert trace.answer == "No."


@pytest.mark.parametrize("said", [FORMS["plain"], FORMS["constructors"], PYDANTIC])
def test_a_list_of_such_messages_is_one_conversation(said):
    assert recognise(json.dumps(said).encode(), "x.json") == "messages"


SPOKEN = [
    {"role": "user", "content": "Tea?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "none"},
    {"role": "assistant", "content": "No."},
]


@pytest.mark.parametrize("said", [SPOKEN, FORMS["plain"], FORMS["constructors"], PYDANTIC])
def test_messages_on_lines_of_their_own_are_one_conversation(said):
    together = read(said)
    trace = read(*said)
    assert (trace.prompt, trace.system, trace.answer) == (
        together.prompt,
        together.system,
        together.answer,
    )
    assert [call.args for call in trace.calls] == [call.args for call in together.calls]


def test_a_session_log_wraps_each_message_with_its_time_and_its_session():
    lines = [
        {
            "type": each["role"],
            "sessionId": talk,
            "timestamp": "2026-01-01T00:00:00Z",
            "message": each,
        }
        for talk in ("one", "two")
        for each in SPOKEN
    ]
    sources = [json.dumps(each).encode() + b"\n" for each in lines]
    found = list(import_responses(sources, "log.jsonl"))
    assert [each.case_id for each in found] == ["one", "two"]
    assert [each.response["final_output"]["content"] for each in found] == ["No.", "No."]


def test_a_system_prompt_begins_the_next_conversation():
    lines = [{"role": "system", "content": "Sell tea."}, *SPOKEN] * 2
    sources = [json.dumps(each).encode() + b"\n" for each in lines]
    assert len(list(import_responses(sources, "log.jsonl"))) == 2
