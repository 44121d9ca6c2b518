"""Evaluations and invocations that the suite drives."""

from typing import Any

import pytest

from evalwright.contracts.schema import ValueSchema, load_schema
from host.caller import Caller
from host.conformance.seams import BUNDLED, call, drive, events, payloads

NO_EVAL_CONTENT = {
    *("taskOutput", "output", "rubric", "completion", "prompt"),
    *("body", "secret", "credentials", "token", "apiKey"),
}
NO_INVOCATION_CONTENT = {
    *("prompt", "result", "body", "input", "output", "apiKey", "secret", "credentials", "token"),
}


# Evaluations.


def test_a_driven_evaluation_has_ended_when_it_is_answered(newcomer: Caller):
    answer = drive(newcomer, "agents/eval-run", modes=["golden"])
    assert newcomer.snapshot(answer["runId"])["status"] == "completed"
    assert (answer["passed"], answer["aggregateScore"]) == (True, 1)


def test_it_starts_scores_each_task_and_completes_in_this_order(newcomer: Caller):
    run_id = drive(newcomer, "agents/eval-run", taskCount=5)["runId"]
    course = [event for event in events(newcomer, run_id) if event["type"].startswith("eval.")]
    expected = ["eval.started", *["eval.scored"] * 5, "eval.completed"]
    assert [event["type"] for event in course] == expected
    assert course[-1]["payload"]["taskCount"] == 5
    assert events(newcomer, run_id)[-1]["type"] == "run.completed"


def test_neither_its_events_nor_its_summary_have_content(newcomer: Caller):
    run_id = drive(newcomer, "agents/eval-run")["runId"]
    for event in events(newcomer, run_id):
        if event["type"].startswith("eval."):
            assert not NO_EVAL_CONTENT & event["payload"].keys()
    for scored in payloads(newcomer, run_id, "eval.scored"):
        assert 0 <= scored["score"] <= 1
        assert isinstance(scored["passed"], bool)


def test_its_summary_is_served_and_keeps_to_its_schema(newcomer: Caller):
    run_id = drive(newcomer, "agents/eval-run")["runId"]
    reply = newcomer.get(f"/v1/runs/{run_id}/eval-summary")
    summary = reply.json()
    assert reply.status == 200
    assert ValueSchema(load_schema("eval-summary"), "summary").problems(summary) == []
    assert summary["passedCount"] <= summary["taskCount"]
    for task in summary["tasks"]:
        assert not NO_EVAL_CONTENT & task.keys()


@pytest.mark.parametrize(
    "body", [{"modes": ["rubric"]}, {"modes": ["bogus"]}, {"agentId": "acme.nobody"}]
)
def test_an_evaluation_that_cannot_be_is_refused(newcomer: Caller, body: dict[str, Any]):
    reply = call(newcomer, "agents/eval-run", **body)
    assert reply.refusal == (400, "validation_error")
    assert newcomer.run_ids() == []


# Invocations.


def test_an_invocation_is_bracketed_and_free_of_content(newcomer: Caller):
    answer = drive(newcomer, "agents/live-invoke", source="run-api")
    of_the_agent = [
        event for event in events(newcomer, answer["runId"]) if event["type"].startswith("agent.")
    ]
    first, last = of_the_agent[0], of_the_agent[-1]
    assert first["type"] == "agent.invocation.started"
    assert last["type"] == "agent.invocation.completed"
    assert first["payload"]["source"] == "run-api"
    assert last["payload"]["outcome"] == answer["outcome"] == "completed"
    for event in (first, last):
        assert event["payload"]["invocationId"] == answer["invocationId"]
        assert not NO_INVOCATION_CONTENT & event["payload"].keys()


def test_an_invocation_is_a_complete_run_of_the_caller(newcomer: Caller):
    run_id = drive(newcomer, "agents/live-invoke")["runId"]
    assert newcomer.snapshot(run_id)["status"] == "completed"
    course = events(newcomer, run_id)
    assert [event["sequence"] for event in course] == list(range(len(course)))
    assert (course[0]["type"], course[-1]["type"]) == ("run.started", "run.completed")


def test_an_answer_that_breaks_the_return_schema_fails_the_invocation(newcomer: Caller):
    answer = drive(
        newcomer,
        "agents/live-invoke",
        returnSchemaRef="conformance-strict-handoff",
        forceInvalidResult=True,
    )
    [completed] = payloads(newcomer, answer["runId"], "agent.invocation.completed")
    assert (completed["outcome"], completed["schemaValidated"]) == ("failed", False)
    snapshot = newcomer.snapshot(answer["runId"])
    assert (snapshot["status"], snapshot["error"]["code"]) == ("failed", "schema_invalid")


def test_an_answer_that_keeps_to_the_return_schema_is_told_to_do_so(newcomer: Caller):
    strict = "conformance-strict-handoff"
    answer = drive(newcomer, "agents/live-invoke", returnSchemaRef=strict)
    [completed] = payloads(newcomer, answer["runId"], "agent.invocation.completed")
    assert (completed["outcome"], completed["schemaValidated"]) == ("completed", True)


def test_a_tool_that_is_not_on_the_list_is_not_called(newcomer: Caller):
    tool = "conformance-disallowed-tool"
    run_id = drive(newcomer, "agents/live-invoke", attemptTool=tool)["runId"]
    [returned] = payloads(newcomer, run_id, "agent.toolReturned")
    assert (returned["toolName"], returned["status"]) == (tool, "forbidden")
    assert "outcome" not in returned
    for called in payloads(newcomer, run_id, "agent.toolCalled"):
        assert tool not in (called.get("tool"), called.get("toolId"), called.get("name"))


@pytest.mark.parametrize("body", [{"source": "chat-mention"}, {"returnSchemaRef": "another"}])
def test_an_invocation_that_the_host_does_not_offer_is_refused(
    newcomer: Caller, body: dict[str, Any]
):
    assert call(newcomer, "agents/live-invoke", **body).refusal == (400, "validation_error")


# Dispatch.


def test_a_dispatched_agent_reasons_and_decides_under_its_own_name(newcomer: Caller):
    agent_id = newcomer.get("/v1/agents").json()["agents"][0]["agentId"]
    answer = drive(
        newcomer,
        f"agents/{agent_id}/dispatch",
        task={},
        validateHandoff=False,
        availableTools=[],
    )
    assert (agent_id, answer["status"]) == (BUNDLED, "completed")
    types = {event["type"] for event in answer["events"]}
    assert {"agent.reasoned", "agent.decided"} <= types
    assert {event["agentId"] for event in answer["events"]} == {agent_id}


def test_a_task_that_the_agent_fails_at_is_not_told_as_completed(newcomer: Caller):
    answer = drive(newcomer, f"agents/{BUNDLED}/dispatch", task={"nothing": "to answer"})
    assert answer["status"] == "failed"


def test_an_agent_that_is_not_there_cannot_be_dispatched(newcomer: Caller):
    assert call(newcomer, "agents/acme.nobody/dispatch").refusal == (404, "not_found")
