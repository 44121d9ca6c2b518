"""Events: content-free where they must be, and valid by the protocol whatever they carry."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from builders import a_log, a_suite, a_summary, a_usage, an_event, as_document
from evalwright.contracts.events import (
    PAYLOADS,
    EvalCompleted,
    EvalScored,
    EvalStarted,
    Event,
    Payload,
    ProviderUsage,
)
from evalwright.contracts.schema import RUN_EVENT, SUMMARY, check_schema, load_schema
from evalwright.contracts.suite import Suite
from evalwright.contracts.summary import EvalSummary, SuiteId, TaskId, Version
from evalwright.contracts.times import iso_time
from strategies import suite_documents, values_of

SHARED = Path(__file__).parents[2].parent / "shared" / "openwop"
CONTENT_FREE = [EvalStarted, EvalScored, EvalCompleted]
OF_THE_PROTOCOL = [kind for name, kind in PAYLOADS.items() if not name.startswith("evalwright.")]
FORBIDDEN = {"taskOutput", "output", "rubric", "completion", "prompt", "body", "secret",
             "credentials", "token", "apiKey", "result", "input"}  # fmt: skip


# Reading types.


def fields(kind: type) -> dict[str, inspect.Type]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: field.type for field in info.fields}


def texts(kind: inspect.Type) -> list[inspect.Type]:
    """Every type within this one that holds text of somebody's choice."""
    match kind:
        case inspect.UnionType(types):
            return [found for inner in types for found in texts(inner)]
        case inspect.ListType(item_type=inner):
            return texts(inner)
        case inspect.StructType(fields=inner_fields):
            return [found for field in inner_fields for found in texts(field.type)]
        case inspect.BoolType() | inspect.NoneType() | inspect.LiteralType():
            return []
        case inspect.IntType() | inspect.FloatType():
            return []
        case _:
            return [kind]


def payloads(kind: type[Payload]) -> st.SearchStrategy[Payload]:
    documents = values_of(inspect.type_info(kind), {Suite: suite_documents})
    return documents.map(
        lambda document: msgspec.json.decode(json.dumps(document), type=kind, strict=False)
    )


@cache
def protocol(name: str) -> Any:
    path = SHARED / "schemas" / name
    if not path.is_file():
        pytest.skip(f"needs {path}, which is not part of the repository")
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def payload_validator(event_type: str) -> jsonschema_rs.Draft202012Validator:
    schema = protocol("run-event-payloads.schema.json")
    found = schema["$defs"]["_typeIndex"]["properties"][event_type]
    elsewhere = re.compile(r"'\$ref': '[^#]")
    within = {name: d for name, d in schema["$defs"].items() if not elsewhere.search(str(d))}
    return jsonschema_rs.Draft202012Validator({"$defs": within, **found})


@cache
def envelope_validator() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(protocol("run-event.schema.json"))


# No content.


def test_the_only_texts_of_eval_events_are_ids_with_a_pattern():
    open_texts = {
        (kind.TYPE, name): found
        for kind in CONTENT_FREE
        for name, field in fields(kind).items()
        for found in texts(field)
    }
    assert set(open_texts) == {
        ("eval.started", "suiteId"),
        ("eval.started", "suiteVersion"),
        ("eval.started", "baselineRunId"),
        ("eval.scored", "taskId"),
    }
    assert all(isinstance(found, inspect.StrType) for found in open_texts.values())
    assert all(found.pattern for found in open_texts.values())


@pytest.mark.parametrize("kind", CONTENT_FREE)
def test_an_eval_event_has_the_fields_of_the_protocol_and_no_other(kind):
    schema = protocol("run-event-payloads.schema.json")["$defs"]
    name = kind.TYPE.replace(".s", "S").replace(".c", "C")
    assert set(fields(kind)) == set(schema[name]["properties"])
    assert not FORBIDDEN & set(fields(kind))


@pytest.mark.parametrize("kind", [*CONTENT_FREE, ProviderUsage])
@pytest.mark.parametrize("extra", ["output", "note", "Score", ""])
def test_a_closed_payload_refuses_any_field_that_is_not_its_own(kind, extra):
    complete = {
        EvalStarted: {"suiteId": "a.evals.b", "suiteVersion": "1.0.0", "taskCount": 1, "modes": []},
        EvalScored: {"taskId": "a", "score": 1, "passed": True},
        EvalCompleted: {"aggregateScore": 1, "passed": True, "taskCount": 1, "passedCount": 1},
        ProviderUsage: {"provider": "p", "model": "m", "inputTokens": 1, "outputTokens": 1},
    }[kind]
    assert msgspec.convert(complete, kind)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(complete | {extra: "The answer is 42."}, kind)


@given(st.text())
def test_prose_does_not_pass_for_an_id(prose):
    scored = {"taskId": f"the answer is {prose}", "score": 1, "passed": True}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(scored, EvalScored)


@pytest.mark.parametrize("bad", ["task-1\n", "-a", "", "Task", "a b"])
def test_an_id_is_checked_to_its_very_end(bad):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"taskId": bad, "score": 1, "passed": True}, EvalScored)


@pytest.mark.parametrize("score", [-0.001, 1.001, "1", None, True])
def test_a_score_is_a_number_from_0_to_1(score):
    for fitting in (0, 0.5, 1):
        assert msgspec.convert({"taskId": "a", "score": fitting, "passed": True}, EvalScored)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"taskId": "a", "score": score, "passed": True}, EvalScored)


def test_ids_and_versions_follow_the_patterns_of_the_schemas():
    schema = load_schema(SUMMARY)["properties"]
    task_id = schema["tasks"]["items"]["properties"]["taskId"]
    for annotated, declared in (
        (SuiteId, schema["suiteId"]),
        (Version, schema["suiteVersion"]),
        (TaskId, task_id),
    ):
        pattern = inspect.type_info(annotated).pattern
        assert pattern.removesuffix(r"\Z") == declared["pattern"].removesuffix("$")


def test_a_summary_refuses_any_field_that_is_not_its_own():
    document = as_document(a_summary())
    assert msgspec.convert(document, EvalSummary)
    for place in (document, document["tasks"][0]):
        place["output"] = "The answer is 42."
        with pytest.raises(msgspec.ValidationError, match="unknown field `output`"):
            msgspec.convert(document, EvalSummary)
        del place["output"]


@pytest.mark.parametrize("field", ["costUsd", "latencyMs", "safetyFindingCount"])
def test_a_cost_a_latency_and_a_count_begin_at_0(field):
    scored = {"taskId": "a", "score": 1, "passed": True}
    assert msgspec.convert(scored | {field: 0}, EvalScored)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(scored | {field: -1}, EvalScored)


def test_the_summary_has_no_text_but_ids_versions_and_kinds_of_findings():
    named = [
        inspect.type_info(EvalSummary).fields[index].encode_name
        for index, field in enumerate(fields(EvalSummary).values())
        for _ in texts(field)
    ]
    assert named == [
        "suiteId",
        "suiteVersion",
        "tasks",  # taskId
        "tasks",  # safetyFindings.kind
        "regression",  # baselineRunId
        "regression",  # diffRef
    ]


# Valid by the protocol.


@pytest.mark.parametrize("kind", PAYLOADS.values())
@given(data=st.data())
def test_any_payload_is_read_back_as_it_was_written_and_valid_by_the_protocol(kind, data):
    payload = data.draw(payloads(kind))
    event, written = an_event(payload), as_document(payload)
    assert event.type == kind.TYPE
    assert as_document(event.decode(kind)) == event.payload() == written
    if kind in OF_THE_PROTOCOL:
        assert [error.message for error in payload_validator(kind.TYPE).iter_errors(written)] == []


@pytest.mark.parametrize("kind", OF_THE_PROTOCOL)
def test_every_payload_type_bears_a_name_that_the_protocol_lists(kind):
    types = protocol("run-event.schema.json")["$defs"]["RunEventType"]["enum"]
    assert kind.TYPE in types


def test_the_types_of_our_own_bear_our_name():
    listed = protocol("run-event.schema.json")["$defs"]["RunEventType"]["enum"]
    ours = [name for name in PAYLOADS if name not in listed]
    assert ours == [
        "evalwright.planned",
        "evalwright.worldChanged",
        "evalwright.userSaid",
        "evalwright.judged",
        "evalwright.found",
        "evalwright.checked",
    ]


def test_every_limit_that_the_protocol_knows_can_be_breached():
    kinds = protocol("run-event-payloads.schema.json")["$defs"]["capBreached"]["properties"]["kind"]
    for kind in kinds["enum"]:
        document = {"kind": kind, "limit": 0, "observed": 2.5}
        assert msgspec.convert(document, PAYLOADS["cap.breached"]).kind == kind


def test_every_event_of_a_run_fits_the_envelope_of_the_protocol_and_ours():
    for event in a_log(a_suite(2)):
        document = json.loads(event.to_json())
        assert [error.message for error in envelope_validator().iter_errors(document)] == []
        assert check_schema(document, RUN_EVENT) == []


# The envelope.


def test_an_event_on_the_wire_says_which_run_task_place_and_time():
    event = Event("run_x", 7, "eval.scored", "task-1", 1_767_225_600_000_042, b'{"score":1}')
    assert json.loads(event.to_json()) == {
        "eventId": "run_x:7",
        "runId": "run_x",
        "type": "eval.scored",
        "payload": {"score": 1},
        "timestamp": "2026-01-01T00:00:00.000042Z",
        "sequence": 7,
        "nodeId": "task-1",
        "schemaVersion": 1,
    }


def test_an_event_of_the_run_itself_names_no_node():
    assert "nodeId" not in json.loads(an_event(a_usage()).to_json())


def test_an_event_is_one_line_whatever_it_carries():
    payload = PAYLOADS["agent.decided"]("acme.clerk", "two\nlines\r\u2028and \x1b[31mred")
    assert b"\n" not in an_event(payload).to_json()
    assert b"\r" not in an_event(payload).to_json()


@given(st.integers(0, 4_102_444_800_000_000))
def test_times_are_rfc_3339_in_utc_and_sort_like_the_numbers(at_us):
    text = iso_time(at_us)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", text)
    assert text < iso_time(at_us + 1)
