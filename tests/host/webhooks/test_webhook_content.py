"""What a webhook tells by default: nothing that could be content."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from webhook_station import an_event

from evalwright.host.webhooks.content import (
    has_content_free,
    is_content_free,
    without_content,
)

CANARY = "canary-4711"
TOLD = [
    "run.started",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.paused",
    "run.resumed",
    "eval.started",
    "eval.scored",
    "eval.completed",
    "agent.invocation.started",
    "agent.invocation.completed",
    "deployment.promoted",
    "deployment.rolled-back",
    "deployment.canary.adjusted",
    "deployment.state.changed",
    "approval.granted",
    "approval.rejected",
    "approval.overridden",
]
UNTOLD = [
    "agent.reasoned",
    "agent.decided",
    "agent.toolCalled",
    "agent.toolReturned",
    "evalwright.judged",
    "evalwright.checked",
    "evalwright.planned",
    "run.annotated",
    "eval.unheardOf",
    "node.completed",
]
VALUES = st.recursive(
    st.just(CANARY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
)
CONTENT_FIELDS = ["inputs", "output", "message", "reason", "rubric", "prompt", "metadata", "error"]


def payload_of(event_type, **payload):
    told = without_content(an_event(event_type, **payload))
    assert told is not None
    return told.payload()


@given(st.sampled_from(TOLD), st.dictionaries(st.sampled_from(CONTENT_FIELDS), VALUES))
def test_fields_that_can_hold_content_are_left_out(event_type, content):
    told = without_content(an_event(event_type, **content, outputs={"answer": CANARY}))
    assert told is not None
    assert CANARY.encode() not in told.body


@pytest.mark.parametrize("event_type", TOLD)
def test_types_that_are_known_to_be_free_of_content_are_told(event_type):
    assert is_content_free(event_type)
    assert without_content(an_event(event_type)) is not None


@pytest.mark.parametrize("event_type", UNTOLD)
def test_types_that_are_not_known_to_be_free_of_content_are_not_told(event_type):
    assert not is_content_free(event_type)
    assert without_content(an_event(event_type)) is None


def test_a_completed_run_tells_its_summary():
    summary = {"suiteId": "s", "aggregateScore": 1.0}
    outputs = {"evalSummary": summary, "answer": CANARY}
    assert payload_of("run.completed", outputs=outputs, durationMs=5) == {
        "outputs": {"evalSummary": summary},
        "durationMs": 5,
    }


def test_a_failed_run_tells_its_code_and_not_its_message():
    error = {"code": "agent_error", "message": CANARY, "details": {"x": CANARY}}
    assert payload_of("run.failed", error=error) == {"error": {"code": "agent_error"}}


def test_a_started_run_tells_what_runs_and_not_with_what():
    told = payload_of("run.started", workflowId="suite-1", inputs={"q": CANARY}, tags=[CANARY])
    assert told == {"workflowId": "suite-1"}


def test_scores_are_told_in_full():
    scored = {"taskId": "t", "score": 0.5, "passed": False, "costUsd": 0.1, "latencyMs": 7}
    assert payload_of("eval.scored", **scored) == scored


def test_the_reason_of_a_rollback_is_left_out():
    told = payload_of("deployment.rolled-back", agentId="a", fromVersion="2", reason=CANARY)
    assert told == {"agentId": "a", "fromVersion": "2"}


def test_the_envelope_stays_as_it_is():
    told = without_content(an_event("run.started", sequence=7, workflowId="w", inputs={}))
    assert told is not None
    envelope = msgspec.json.decode(told.to_json())
    assert (envelope["sequence"], envelope["eventId"]) == (7, "run_1:7")


@pytest.mark.parametrize("pattern", ["*", "run.*", "eval.*", "agent.*", "deployment.canary.*"])
def test_a_pattern_that_covers_some_type_free_of_content_is_known(pattern):
    assert has_content_free(pattern)


@pytest.mark.parametrize("pattern", ["node.*", "evalwright.*", "agent.reasoned", "runs.*"])
def test_a_pattern_that_covers_none_is_known(pattern):
    assert not has_content_free(pattern)
