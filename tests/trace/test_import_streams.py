"""Answers that a log has in parts, as they arrived."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_builders import imported, one, steps

from strategies import mutations


def chunk(**delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta}
    return {"object": "chat.completion.chunk", "id": "a", "model": "small-1", "choices": [choice]}


def called(args: str, **more: Any) -> dict[str, Any]:
    return {"index": 0, "function": {"arguments": args, **more.pop("function", {})}, **more}


OPENAI = [
    chunk(role="assistant", content="I "),
    chunk(content="look."),
    chunk(tool_calls=[called("", id="c1", function={"name": "find"})]),
    chunk(tool_calls=[called('{"q":')]),
    chunk(tool_calls=[called(' "tea"}')]),
]
LANGCHAIN = [
    {"type": "AIMessageChunk", "id": "a", "content": "I "},
    {"type": "AIMessageChunk", "id": "a", "content": [{"type": "text", "text": "look."}]},
    {
        "type": "AIMessageChunk",
        "id": "a",
        "content": "",
        "tool_call_chunks": [{"index": 0, "id": "c1", "name": "find", "args": '{"q":'}],
    },
    {
        "type": "AIMessageChunk",
        "id": "a",
        "content": "",
        "tool_call_chunks": [{"index": 0, "id": None, "name": None, "args": ' "tea"}'}],
    },
]
USED = {"type": "tool_use", "id": "c1", "name": "find", "input": {}}
ANTHROPIC = [
    {"type": "message_start", "message": {"role": "assistant", "content": [], "model": "small-1"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "look."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": USED},
    {"type": "content_block_delta", "index": 1, "delta": {"partial_json": '{"q": "tea"}'}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    {"type": "message_stop"},
]
ITEMS = [
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "I look."}],
    },
    {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"q": "tea"}'},
]
RESPONSES = [
    {"type": "response.created", "response": {"output": []}},
    {"type": "response.output_text.delta", "delta": "I "},
    *({"type": "response.output_item.done", "item": item} for item in ITEMS),
]
STREAMS = {"openai": OPENAI, "langchain": LANGCHAIN, "anthropic": ANTHROPIC, "responses": RESPONSES}


@pytest.mark.parametrize("kind", STREAMS)
def test_parts_of_an_answer_are_one_answer(kind):
    asked = {"messages": [{"role": "user", "content": "Tea?"}]}
    response = one({"request": asked, "response": STREAMS[kind]})
    assert steps(response) == [("assistant", "I look."), ("call", "c1", "find", {"q": "tea"})]


def test_parts_of_two_answers_stay_apart():
    second = [{**part, "id": "b"} for part in LANGCHAIN[:2]]
    said = [{"type": "human", "content": "Tea?"}, *LANGCHAIN[:2], *second]
    assert [step[1] for step in steps(one(said))] == ["I look.", "I look."]


@pytest.mark.parametrize("parts", [OPENAI, ["I ", "look."]], ids=["chunks", "texts"])
def test_a_run_that_recorded_the_parts_of_its_answer_has_the_whole(parts):
    run = {"id": "r", "run_type": "llm", "inputs": {"messages": []}, "outputs": {"output": parts}}
    assert steps(one([run]))[0][1] == "I look."


@given(mutations(st.sampled_from(list(STREAMS.values()))))
def test_no_stream_makes_an_importer_raise(parts):
    assert imported({"messages": [], "response": parts}) is not None
