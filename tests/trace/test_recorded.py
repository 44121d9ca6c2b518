"""A response that is read in one go means what it means when it is read piece by piece."""

from typing import Any

import msgspec
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from trace_builders import T0, call, result

from evalwright.trace.decode import decode_trace
from evalwright.trace.recorded import RecordedResponse, read_recorded
from strategies import json_of, json_scalars, json_values

FREE_FIELDS = RecordedResponse.__annotations__.keys() - {"events", "proposed_actions"}

ODD_NUMBERS = [0, -1, 0.5, 10**18, -(10**18), 10**18 - 1, 1e18, 2**63, 2**64, 1e300, True]
numbers = st.none() | st.integers(T0, T0 + 9) | st.sampled_from(ODD_NUMBERS)
names = st.none() | st.sampled_from(["c1", "c2", "", 7])
texts = st.none() | st.sampled_from(["look_up", "ok", "error", "", "é"])
lists = st.none() | st.lists(texts, max_size=2)
contents = json_of(json_scalars)


def an_object(fixed: dict[str, Any], **known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with some of these fields, in any order, and others that nobody reads."""
    told = st.fixed_dictionaries(fixed, optional={**known, "more": contents})
    return st.tuples(told, st.randoms(use_true_random=False)).map(_shuffled)


def _shuffled(drawn: tuple[dict[str, Any], Any]) -> dict[str, Any]:
    fields = list(drawn[0].items())
    drawn[1].shuffle(fields)
    return dict(fields)


def an_event(kind: str, **known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return an_object({"type": st.just(kind)}, ts=numbers, **known)


events = st.one_of(
    an_event("tool_call", call_id=names, tool=texts, args=contents, action_id=names),
    an_event(
        "tool_result", call_id=names, tool=texts, status=texts, payload=contents,
        payload_summary=contents, error_message=texts, latency_ms=numbers,
    ),
    an_event(
        "retrieval", query=texts, doc_ids=lists, documents=contents, docs=contents,
        snippets=contents, content=contents, snippets_hashes=contents,
    ),
    an_event("message", role=texts, content=contents),
    an_event("final_output", content_type=texts, content=contents),
)  # fmt: skip
evidence = an_object(
    {}, kind=st.sampled_from(["tool_result", "retrieval_doc", "", None]), id=names, call_id=names
)
actions = an_object(
    {},
    action_id=names,
    action_type=texts,
    tool_name=texts,
    params=contents,
    risk_level=st.sampled_from(["low", "medium", "high", None, "huge"]),
    risk_tags=lists,
    evidence_refs=st.none() | st.lists(evidence, max_size=2),
)
responses = an_object(
    {},
    events=st.lists(events, max_size=5),
    proposed_actions=st.lists(actions, max_size=2),
    **dict.fromkeys(
        RecordedResponse.__annotations__.keys() - {"events", "proposed_actions"}, contents
    ),
)


@given(responses)
@settings(max_examples=300)
def test_what_is_read_in_one_go_means_the_same(response: dict[str, Any]):
    data = msgspec.json.encode(response)
    recorded = read_recorded(data)
    event("in one go" if recorded is not None else "piece by piece")
    assume(recorded is not None)
    told = [repr(decode_trace(each, "one")) for each in (recorded, msgspec.json.decode(data))]
    assert told[0] == told[1]  # as text: 1 and 1.0 are equal, and shown differently
    for name in FREE_FIELDS:
        assert (name in recorded, recorded.get(name)) == (name in response, response.get(name))


@given(json_values)
def test_what_is_read_in_one_go_is_an_object(value: Any):
    assert read_recorded(msgspec.json.encode(value)) is None or isinstance(value, dict)


def test_a_usual_response_is_read_in_one_go():
    events = [
        call(),
        result(payload_summary={"a": 1}, latency_ms=3),
        {"type": "retrieval", "query": "returns", "doc_ids": ["d1"]},
        {"type": "message", "role": "user", "content": "Hello"},
        {"type": "final_output", "content": "Done"},
    ]
    evidence = [{"kind": "tool_result", "call_id": "c1"}]
    action = {"action_type": "refund", "risk_level": "high", "evidence_refs": evidence}
    recorded = read_recorded(msgspec.json.encode({"events": events, "proposed_actions": [action]}))
    assert recorded is not None
    assert [type(each).__name__ for each in decode_trace(recorded, "one").events] == [
        "ToolCall", "ToolResult", "Retrieval", "Message", "FinalOutput",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        b'{"events": [{"type": "made_up"}]}',
        b'{"events": [{"ts": 1}]}',
        b'{"events": [3]}',
        b'{"events": {}}',
        b'{"events": null}',
        b'{"proposed_actions": [3]}',
        b'{"events": [{"type": "message", "type": "tool_call"}]}',
        b'{"events": [], "more": "\xff"}',
        b'{"events": []',
        b'{"more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"[]",
    ],
)
def test_what_does_not_keep_to_the_format_is_read_piece_by_piece(data: bytes):
    assert read_recorded(data) is None


@pytest.mark.parametrize("number", [b"1e999", b"9" * 5_000])
def test_a_number_that_nothing_can_hold_is_passed_over_where_nobody_reads_it(number: bytes):
    assert read_recorded(b'{"events": [], "more": %b}' % number) == {"events": ()}
    assert read_recorded(b'{"events": [], "usage": %b}' % number) is None
