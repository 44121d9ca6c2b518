"""Reading files of traces: formats are recognised, lines streamed, faults named, nothing lost."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_builders import (
    T0,
    a_span,
    an_export,
    call,
    imported,
    imported_lines,
    result,
)

from evalwright.trace.decode import decode_trace
from evalwright.trace.importers import records
from evalwright.trace.importers.formats import import_responses, recognise
from evalwright.trace.importers.records import Imported
from strategies import json_of, json_scalars, json_values, mutations

SHARED = Path(__file__).parents[2].parent / "shared/data/agent-traces"

RECORD = {
    "trace_id": "t-1",
    "case_id": "refund.late",
    "base_case_id": "refund",
    "user_prompt": "Refund order 7",
    "system_prompt_id": "abc",
    "duration_s": 1.5,
    "events": [
        call(),
        result(),
        {"type": "final_output", "ts": T0, "content_type": "text", "content": "Done"},
    ],
    "final_output": {"content_type": "text", "content": "Done"},
}
CHAT = {"id": "chat-1", "messages": [{"role": "user", "content": "Hi"}]}
EXPORT = an_export(a_span("a1", {"gen_ai.operation.name": "chat"}))


def test_a_record_is_a_response_already():
    (found,) = imported_lines([RECORD])
    assert found == Imported(
        case_id="refund.late",
        response=RECORD | {"usage": {"duration_ms": 1500}},
        base_case_id="refund",
        trace_id="t-1",
    )
    trace = decode_trace(found.response, found.case_id)
    assert trace.prompt == "Refund order 7"
    assert len(trace.events) == 3


@pytest.mark.parametrize(
    ("record", "case_id"),
    [
        ({"case_id": "c", "trace_id": "t", "events": []}, "c"),
        ({"trace_id": "t", "events": []}, "t"),
        ({"case_id": 12, "events": []}, "12"),
        ({"case_id": None, "id": "i", "events": []}, "i"),
        ({"case_id": ["c"], "events": []}, "record-1"),
    ],
)
def test_a_case_is_named_by_the_first_id_there_is(record: Any, case_id: str):
    (found,) = imported_lines([record])
    assert found.case_id == case_id


# Formats.


@pytest.mark.parametrize(
    ("document", "name"),
    [
        (RECORD, "agent-traces"),
        ([RECORD, RECORD], "agent-traces"),
        ({"case_id": "c", "runner_failure": {"class": "timeout"}}, "agent-traces"),
        (EXPORT, "otel-genai"),
        (an_export(a_span("a1", {"openinference.span.kind": "LLM"})), "openinference"),
        ({"resourceLogs": []}, "otel-genai"),
        ({"name": "chat", "context": {"trace_id": "0x1", "span_id": "0x2"}}, "otel-genai"),
        (CHAT, "messages"),
        ([{"role": "user", "content": "Hi"}], "messages"),
        ({"data": [CHAT]}, "messages"),
        ({"request": {"messages": []}, "response": {}}, "messages"),
        ({"input": "Hi", "output": []}, "messages"),
        ({"resourceMetrics": []}, None),
        ({"text": "just this"}, None),
        ([], None),
        (7, None),
    ],
)
def test_a_format_is_recognised_by_what_a_document_holds(document: Any, name: str | None):
    assert recognise(json.dumps(document).encode(), "file") == name
    assert recognise(json.dumps(document, indent=2).encode(), "file") == name
    assert recognise(json.dumps(document).encode() + b"\n" + b'{"cut off', "file") == name


@pytest.mark.parametrize(
    ("document", "name"),
    [
        (RECORD, "agent-traces"),
        (EXPORT, "otel-genai"),
        ({"messages": CHAT["messages"]}, "messages"),
    ],
)
def test_the_beginning_of_a_document_is_enough(document: Any, name: str):
    text = json.dumps(document, indent=2).encode()
    assert recognise(text[: len(text) * 3 // 4], "file") == name


@pytest.mark.parametrize(
    "first", [b"", b"\n\n", b"\xff\xfe{", b"a,b,c", b"\x1f\x8b\x08\x00", b"null"]
)
def test_what_is_no_format_is_recognised_as_none(first: bytes):
    assert recognise(first, "file.jsonl") is None
    assert recognise(first, "file.jsonl.gz") is None


# Files.


def test_lines_are_read_one_by_one():
    taken: list[int] = []

    def lines() -> Iterator[bytes]:
        for number in range(1000):
            taken.append(number)
            yield json.dumps({"case_id": f"c{number}", "events": []}).encode() + b"\n"

    found = import_responses(lines(), "big.jsonl")
    assert next(found).case_id == "c0"
    assert len(taken) < 10


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_a_file_may_be_cut_into_blocks_anywhere(size: int):
    lines = [RECORD | {"case_id": f"c{n}"} for n in range(5)]
    text = "".join(f"{json.dumps(line)}\r\n\n" for line in lines).encode()
    blocks = [text[start : start + size] for start in range(0, len(text), size)]
    found = list(import_responses(blocks, "a.jsonl"))
    assert [each.case_id for each in found] == ["c0", "c1", "c2", "c3", "c4"]
    assert {each.fault for each in found} == {None}


def test_lines_may_come_without_their_line_ends():
    lines = [json.dumps(RECORD | {"case_id": f"c{n}"}).encode() for n in range(3)]
    assert [each.case_id for each in import_responses(lines, "a.jsonl")] == ["c0", "c1", "c2"]


def test_a_document_may_stand_on_many_lines():
    for document in ([RECORD, RECORD], {"records": [RECORD, RECORD]}):
        text = json.dumps(document, indent=2).encode()
        found = list(import_responses(text.splitlines(keepends=True), "a.json"))
        assert [each.case_id for each in found] == ["refund.late"] * 2


def test_a_list_with_one_record_per_line_is_one_document():
    text = b"[\n" + json.dumps(RECORD).encode() + b"\n]\n"
    (found,) = import_responses([text], "a.json")
    assert (found.case_id, found.fault) == ("refund.late", None)


def test_a_byte_order_mark_is_no_part_of_the_file():
    text = b"\xef\xbb\xbf" + json.dumps(RECORD).encode()
    (found,) = import_responses([text], "a.json")
    assert found.fault is None
    assert recognise(text, "a.json") == "agent-traces"


def test_an_empty_file_holds_no_case():
    assert list(import_responses([], "a.json")) == []
    assert list(import_responses([b"\n", b"  \n"], "a.json")) == []


# Faults.


def test_a_damaged_line_is_named_and_the_others_are_read():
    cut = json.dumps(RECORD).encode()[:150]
    found = imported_lines([RECORD, b"", cut, RECORD | {"case_id": "other"}])
    assert [each.case_id for each in found] == ["refund.late", "refund.late", "other"]
    assert [each.fault is None for each in found] == [True, False, True]
    assert (found[1].trace_id, found[1].response) == ("t-1", {})
    assert found[1].fault is not None
    assert found[1].fault.startswith("traces.jsonl: line 3: not readable as JSON (")
    assert found[1].fault.endswith("repair or remove it")


def test_a_damaged_first_line_does_not_take_the_others_with_it():
    found = imported_lines([b'{"case_id": "c0", "eve', RECORD, RECORD])
    assert [each.fault is None for each in found] == [False, True, True]
    assert found[0].case_id == "c0"


def test_a_line_without_an_id_is_numbered_alike_in_two_files():
    good, bad = imported_lines([{"events": []}, {"events": []}]), imported_lines([b"{", b"{}}"])
    assert [each.case_id for each in good] == ["record-1", "record-2"]
    assert bad[0].case_id == "record-1"


@pytest.mark.parametrize("line", [{"text": "hello"}, 7, "text", None, {"resourceMetrics": []}])
def test_a_record_of_no_known_format_is_said_to_be_one(line: Any):
    found = imported_lines([RECORD, line])
    assert found[0].fault is None
    assert found[1].fault is not None
    assert found[1].fault.startswith("traces.jsonl: line 2: unknown format")


def test_the_place_in_a_document_is_named():
    (_, bad) = imported([RECORD, {"text": "hello"}])
    assert bad.fault is not None
    assert bad.fault.startswith("traces.json: line 1: [1]: unknown format")


@pytest.mark.parametrize("depth", [201, 900, 200_000])
def test_a_record_nested_too_deeply_is_refused(depth: int):
    deep = b'{"case_id": "deep", "events": ' + b"[" * depth + b"]" * depth + b"}"
    found = imported_lines([deep, RECORD])
    assert found[0].case_id == "deep"
    assert "nested" in (found[0].fault or "")
    assert found[1].fault is None


def test_a_record_that_is_too_large_is_refused_without_keeping_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(records, "MAX_RECORD_BYTES", 2000)
    large = RECORD | {"user_prompt": "x" * 5000}
    found = imported_lines([RECORD, large, RECORD])
    assert [each.fault is None for each in found] == [True, False, True]
    assert found[1].case_id == "refund.late"
    text = json.dumps([large], indent=2).encode()
    (whole,) = import_responses([text[:100], text[100:]], "a.json")
    assert "larger than" in (whole.fault or "")


def test_formats_may_be_mixed_and_nothing_is_lost():
    found = imported_lines([RECORD, CHAT, EXPORT, b"{", RECORD])
    assert [each.fault is None for each in found] == [True, True, False, True, True]
    assert found[-1].trace_id is not None, "spans come last"


# Anything at all.

KEYS = [
    *("events", "case_id", "messages", "role", "content", "type", "tool_calls", "function", "name"),
    *("arguments", "request", "response", "choices", "message", "input", "output", "parts", "id"),
    *("resourceSpans", "scopeSpans", "spans", "attributes", "key", "value", "stringValue", "usage"),
    *("traceId", "spanId", "parentSpanId", "status", "code", "body", "resourceLogs", "tools"),
    *("startTimeUnixNano", "gen_ai.operation.name", "openinference.span.kind", "context", "text"),
]
WORDS = ["user", "tool", "tool_use", "tool_result", "chat", "execute_tool", "LLM", "TOOL", "text"]
near = json_of(json_scalars | st.sampled_from(WORDS), st.sampled_from(KEYS))


def assert_readable(chunks: list[bytes]) -> None:
    for found in import_responses(chunks, "any.json"):
        trace = decode_trace(found.response, found.case_id)
        assert found.case_id
        events = found.response.get("events", [])
        assert trace.events_not_array is not isinstance(events, list)
        assert trace.events_not_array or len(trace.events) == len(events)


@given(near | json_values)
def test_no_document_makes_an_importer_raise(document: Any):
    assert_readable([json.dumps(document).encode()])


@given(st.lists(st.binary(max_size=40)))
def test_no_bytes_make_an_importer_raise(chunks: list[bytes]):
    assert_readable(chunks)
    recognise(b"".join(chunks), "any.json")


@given(mutations(st.just([RECORD, CHAT, EXPORT])))
def test_a_document_with_one_thing_wrong_is_read_or_refused(document: Any):
    assert_readable([json.dumps(document).encode()])
    if isinstance(document, list):
        assert_readable([json.dumps(each).encode() + b"\n" for each in document])


# Real traces.


@pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"{SHARED.name} is not here: no real trace was read"
)
def test_real_traces_keep_every_event_in_its_order():
    read = 0
    for path in sorted(SHARED.glob("**/*.jsonl.gz")):
        lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        if recognise(lines[0], path.name) is None:
            continue
        for line, found in zip(lines, import_responses(lines, path.name), strict=True):
            raw = json.loads(line)
            trace = decode_trace(found.response, found.case_id)
            assert found.fault is None
            assert found.case_id == raw["case_id"]
            assert [event.index for event in trace.events] == list(range(len(raw["events"])))
            assert [type_of(event) for event in trace.events] == [e["type"] for e in raw["events"]]
            assert [event.ts for event in trace.events] == [e["ts"] for e in raw["events"]]
            read += 1
    assert read > 6000


def type_of(event: Any) -> str:
    name = type(event).__name__
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")
