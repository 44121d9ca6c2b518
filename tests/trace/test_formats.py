"""The table of trace formats: every entry is recognised, imported and documented."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.trace.importers.formats import FORMATS, TraceFormat, import_responses, recognise
from strategies import mutations

DOCS = Path(__file__).parents[2] / "docs/trace-formats.md"
EVERY = pytest.mark.parametrize("trace_format", FORMATS, ids=[each.name for each in FORMATS])

# For each format the smallest record that makes a case.
EXAMPLES = {
    "langsmith": {
        "id": "r1",
        "run_type": "llm",
        "inputs": {"messages": [{"role": "user", "content": "hi"}]},
        "outputs": {},
    },
    "openai-agents": {
        "object": "trace.span",
        "id": "s1",
        "trace_id": "t1",
        "span_data": {"type": "function", "name": "find", "input": "{}", "output": ""},
    },
    "mlflow": {
        "info": {"trace_id": "tr-1"},
        "data": {
            "spans": [
                {
                    "name": "find",
                    "span_id": "a1",
                    "attributes": {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": "{}"},
                }
            ]
        },
    },
    "langfuse": {
        "id": "o1",
        "type": "TOOL",
        "traceId": "t1",
        "name": "find",
        "startTime": "2026-01-01T00:00:00Z",
    },
    "inspect": {
        "eval": {"task": "greet"},
        "samples": [{"id": 1, "epoch": 1, "input": "hi", "target": ""}],
    },
    "openhands": [{"source": "user", "action": "message", "args": {"content": "hi"}}],
    "tau-bench": {"task_id": 0, "reward": 1.0, "traj": [{"role": "user", "content": "hi"}]},
    "swe-agent": {"trajectory": [{"action": "ls", "observation": "a.py"}]},
    "otel-genai": {
        "name": "chat gpt",
        "spanId": "a1",
        "traceId": "t1",
        "attributes": {"gen_ai.operation.name": "chat"},
    },
    "agent-traces": {"case_id": "one", "events": []},
    "message-lines": {"role": "assistant", "content": "hi"},
    "messages": {"messages": [{"role": "user", "content": "hi"}]},
}


def test_every_format_has_an_example_here():
    assert sorted(EXAMPLES) == sorted(each.name for each in FORMATS)


def test_an_entry_must_say_everything():
    with pytest.raises(TypeError, match="Missing required argument 'importer'"):
        TraceFormat(name="new", fits=lambda value: True, marks=(), in_order=True)


@EVERY
def test_every_format_is_recognised_by_a_record_of_it_alone(trace_format):
    example = EXAMPLES[trace_format.name]
    assert [each.name for each in FORMATS if each.fits(example)] == [trace_format.name]
    assert recognise(json.dumps(example).encode(), "file") == trace_format.name


@EVERY
def test_every_format_is_recognised_by_each_mark_in_a_beginning(trace_format):
    for mark in trace_format.marks:
        assert recognise(f'{{"x": 1,\n "{mark}": '.encode(), "file") == trace_format.name


@EVERY
def test_every_format_is_imported(trace_format):
    source = json.dumps(EXAMPLES[trace_format.name]).encode()
    (imported,) = import_responses([source], "file.json")
    assert imported.fault is None
    assert imported.response


@given(mutations(st.sampled_from(list(EXAMPLES.values()))))
def test_no_record_like_an_example_makes_an_importer_raise(document):
    assert list(import_responses([json.dumps(document).encode()], "file.json")) is not None


@EVERY
def test_every_format_and_its_variant_have_a_row_in_the_docs(trace_format):
    page = DOCS.read_text(encoding="utf-8")
    names = [trace_format.name, *([trace_format.variant[1]] if trace_format.variant else [])]
    for name in names:
        assert f"\n| `{name}` | " in page


def test_a_variant_goes_by_its_own_name():
    variants = [each.variant for each in FORMATS if each.variant]
    assert variants == [(b"openinference.span.kind", "openinference")]
    example = {**EXAMPLES["otel-genai"], "attributes": {"openinference.span.kind": "LLM"}}
    assert recognise(json.dumps(example).encode(), "file") == "openinference"


def test_formats_in_one_file_keep_its_order_but_for_spans_which_come_last():
    names = ["messages", "otel-genai", "agent-traces", "messages"]
    lines = [json.dumps(EXAMPLES[name]).encode() + b"\n" for name in names]
    found = [each.case_id for each in import_responses(lines, "file.jsonl")]
    assert found == ["record-1", "one", "record-4", "t1"]


def test_a_span_between_two_records_of_a_conversation_does_not_part_them():
    first = {"messages": [{"role": "user", "content": "hi"}]}
    second = {"messages": [*first["messages"], {"role": "assistant", "content": "hello"}]}
    records = [first, EXAMPLES["otel-genai"], second]
    together = [json.dumps(each).encode() + b"\n" for each in records]
    apart = [json.dumps(each).encode() + b"\n" for each in (first, second)]
    of_messages = [
        len([each for each in import_responses(lines, "x") if each.trace_id is None])
        for lines in (together, apart)
    ]
    assert of_messages[0] == of_messages[1]
