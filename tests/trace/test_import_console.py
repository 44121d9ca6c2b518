"""What console exporters print: documents over many lines, one after the other."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalwright.trace.importers.formats import import_responses, recognise
from evalwright.trace.importers.records import read_records

SAID = '[{"role": "user", "parts": [{"type": "text", "content": "Hi }\\n{"}]}]'


def span(number: int, **attributes: str) -> dict[str, object]:
    return {
        "name": "chat small-1",
        "context": {"trace_id": "0x0a", "span_id": f"0x0{number}", "trace_state": "[]"},
        "kind": "SpanKind.CLIENT",
        "parent_id": None,
        "start_time": f"2026-01-01T00:00:0{number}.000000Z",
        "end_time": f"2026-01-01T00:00:0{number}.500000Z",
        "status": {"status_code": "UNSET"},
        "attributes": {"gen_ai.operation.name": "chat", **attributes},
        "events": [],
        "links": [],
        "resource": {"attributes": {"service.name": "shop"}, "schema_url": ""},
    }


ANSWERED = '[{"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]}]'
SPANS = [
    span(1, **{"gen_ai.input.messages": SAID}),
    span(2, **{"gen_ai.output.messages": ANSWERED}),
]


def printed(*documents: object, indent: int = 4) -> bytes:
    return "".join(json.dumps(each, indent=indent) + "\n" for each in documents).encode()


@pytest.mark.parametrize("indent", [0, 1, 4])
def test_spans_printed_over_many_lines_are_one_trace(indent):
    (found,) = import_responses([printed(*SPANS, indent=indent)], "out.txt")
    assert found.fault is None
    assert found.response["user_prompt"] == "Hi }\n{"
    assert found.response["final_output"]["content"] == "Hello"


def test_such_a_file_is_recognised_by_its_first_span():
    assert recognise(printed(*SPANS), "out.txt") == "otel-genai"


def test_what_a_program_prints_between_its_spans_is_named_and_harms_none():
    first, second = (printed(each) for each in SPANS)
    text = b"[info] starting\n" + first + b"The answer is: Hello\n[done]\n" + second
    *faults, found = sorted(import_responses([text], "out.txt"), key=lambda each: not each.fault)
    assert found.response["final_output"]["content"] == "Hello"
    assert ["out.txt: line 1: not readable" in faults[0].fault, len(faults)] == [True, 2]


def test_spans_over_many_lines_may_follow_spans_on_one_line():
    text = json.dumps(SPANS[0]).encode() + b"\n" + printed(SPANS[1])
    (found,) = import_responses([text], "out.txt")
    assert found.response["final_output"]["content"] == "Hello"


TEXT = st.sampled_from(["", "}", "{", '"', "\n{", "],[", "a: 1"])
JSON = st.one_of(st.none(), st.integers(-9, 9), TEXT, st.lists(TEXT, max_size=2))
OBJECT = st.dictionaries(
    TEXT, JSON | st.dictionaries(TEXT, JSON, max_size=2), min_size=1, max_size=2
)
DOCUMENTS = st.lists(OBJECT, min_size=2, max_size=3)


@settings(max_examples=40)
@given(DOCUMENTS, st.sampled_from([0, 1, 4]))
def test_any_objects_printed_one_after_the_other_are_read_as_they_were(documents, indent):
    found = list(read_records([printed(*documents, indent=indent)], "out.txt"))
    assert [each.fault for each in found] == [None] * len(documents)
    assert [each.value for each in found] == documents
