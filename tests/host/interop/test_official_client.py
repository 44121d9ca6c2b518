"""The client that the protocol's authors publish drives an evaluation from discovery to fork."""

import pytest
from openwop_client import (
    AgentDeploymentTransition,
    BulkCancelRunsRequest,
    CancelRunRequest,
    CreateAnnotationRequest,
    ForkRunRequest,
    OpenwopClient,
    PauseRunRequest,
    ResumeRunRequest,
    WopError,
)

from builders import a_suite, a_task
from host.caller import Caller
from host.server import GATED, PRICED, RIGHT, WRONG, ServedHost
from subjects.waiting import Journal

WAITING = a_suite([a_task("waits", input="wait")], version="2.0.0")


@pytest.fixture
def client(newcomer: Caller) -> OpenwopClient:
    return OpenwopClient(newcomer.url, str(newcomer.key))


def refused(error: pytest.ExceptionInfo[WopError]) -> tuple[int, str | None]:
    envelope = error.value.envelope
    return error.value.status, envelope.error if envelope else None


def test_it_discovers_the_host(client: OpenwopClient):
    capabilities = client.discovery_capabilities()
    assert capabilities.protocolVersion == "1.1"
    assert capabilities.limits.clarificationRounds == 0
    assert client.discovery_openapi()["openapi"].startswith("3.1")


def test_it_lists_the_agents(client: OpenwopClient):
    agents = client.agents_list()
    assert agents is not None
    ids = [agent.agentId for agent in agents]
    assert ids == sorted(ids)
    assert {RIGHT, WRONG} <= set(ids)
    found = client.agents_get(RIGHT)
    assert found is not None
    assert (found.agentId, found.modelClass) == (RIGHT, "general")
    assert client.agents_get("acme.nobody") is None


def test_it_follows_a_run_by_stream_and_by_polling(client: OpenwopClient, newcomer: Caller):
    run_id = newcomer.start(a_suite(3), PRICED)
    streamed = list(client.runs_events(run_id, stream_mode="debug"))
    assert [event.sequence for event in streamed] == list(range(len(streamed)))
    assert streamed[-1].type == "run.completed"
    polled = client.runs_poll_events(run_id)
    assert polled.isComplete
    assert polled.events == streamed
    rest = client.runs_poll_events(run_id, last_sequence=4, timeout_seconds=1)
    assert rest.events == streamed[5:]


def test_it_goes_on_with_a_stream_and_takes_batches_apart(client: OpenwopClient, newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(3))
    streamed = list(client.runs_events(run_id, stream_mode=("updates", "messages")))
    assert streamed[0].type == "run.started"
    rest = list(client.runs_events(run_id, last_event_id=str(streamed[1].sequence)))
    assert rest == streamed[2:]
    assert list(client.runs_events(run_id, buffer_ms=50)) == streamed
    assert list(client.runs_events(run_id, last_event_id=str(streamed[-1].sequence))) == []


def test_it_reads_the_run_and_its_summary(client: OpenwopClient, newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(3), PRICED, tags=["nightly"])
    run = client.runs_get(run_id)
    assert (run.runId, run.status, run.tags) == (run_id, "completed", ["nightly"])
    summary = client.runs_eval_summary(run_id)
    assert summary is not None
    assert (summary.passed, summary.taskCount, summary.totalCostUsd) == (True, 3, 0.75)
    assert [task.taskId for task in summary.tasks] == ["task-1", "task-2", "task-3"]


def test_it_reads_no_summary_where_there_is_none(client: OpenwopClient):
    assert client.runs_eval_summary("run_nowhere") is None


def test_it_compares_two_runs(client: OpenwopClient, newcomer: Caller):
    right, wrong = newcomer.evaluate(a_suite(2)), newcomer.evaluate(a_suite(2), WRONG)
    same = client.runs_diff(right, right)
    assert same is not None
    assert (same.divergedAtSeq, same.eventDiffs) == (None, [])
    diff = client.runs_diff(right, wrong)
    assert diff is not None
    assert (diff.a, diff.b) == (right, wrong)
    assert diff.eventDiffs[0].seq == diff.divergedAtSeq
    assert client.runs_diff(right, "run_nowhere") is None


def test_it_replays_a_run_to_the_same_events_and_summary(client: OpenwopClient, newcomer: Caller):
    source = newcomer.evaluate(a_suite(2), PRICED)
    fork = client.runs_fork(source, ForkRunRequest(fromSeq=0, mode="replay"))
    assert (fork.sourceRunId, fork.mode, fork.fromSeq) == (source, "replay", 0)
    newcomer.finish(fork.runId)
    diff = client.runs_diff(source, fork.runId)
    assert diff is not None
    assert (diff.divergedAtSeq, diff.eventDiffs) == (None, [])
    assert client.runs_eval_summary(source) == client.runs_eval_summary(fork.runId)


def test_it_branches_a_run_off(client: OpenwopClient, newcomer: Caller):
    source = newcomer.evaluate(a_suite(2))
    fork = client.runs_fork(source, ForkRunRequest(fromSeq=3, mode="branch"))
    assert newcomer.finish(fork.runId)["status"] == "completed"
    with pytest.raises(WopError) as error:
        client.runs_fork(source, ForkRunRequest(fromSeq=10**6, mode="branch"))
    assert error.value.status == 422


def test_it_annotates_a_score_and_the_record_stays(client: OpenwopClient, newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(1), WRONG)
    before = client.runs_eval_summary(run_id)
    scored = next(e for e in client.runs_events(run_id) if e.type == "eval.scored")
    made = client.create_annotation(
        run_id,
        CreateAnnotationRequest(
            {"kind": "correction", "correction": "this is right"},
            {"eventId": scored.eventId},
            "seen by a person",
        ),
        idempotency_key="once",
    )
    assert made.target == {"runId": run_id, "eventId": scored.eventId}
    assert client.list_annotations(run_id) == [made]
    assert client.runs_eval_summary(run_id) == before


def test_it_cancels_pauses_and_resumes(served: ServedHost, caller: Caller, gate: Journal):
    client = OpenwopClient(served.url, str(caller.key))
    run_id = caller.start(WAITING, GATED)
    gate.wait_for(1)
    assert client.runs_pause(run_id, PauseRunRequest(reason="lunch")).status == "paused"
    assert client.runs_resume(run_id, ResumeRunRequest(reason="back")).status == "running"
    with pytest.raises(WopError) as error:
        client.runs_eval_summary(run_id)
    assert error.value.status == 409
    assert client.runs_cancel(run_id, CancelRunRequest(reason="enough")).status == "cancelled"
    body = BulkCancelRunsRequest(runIds=[run_id, "run_nowhere"])
    results = client.runs_bulk_cancel(body).results
    assert [(result.runId, result.ok) for result in results] == [
        (run_id, True),
        ("run_nowhere", False),
    ]
    assert [(result.error or {}).get("code") for result in results] == [None, "not_found"]


def test_it_takes_the_bundle_of_a_run(client: OpenwopClient, newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(1))
    bundle = client.runs_debug_bundle(run_id, max_events=2)
    assert bundle is not None
    assert (bundle.run["runId"], len(bundle.events), bundle.truncated) == (run_id, 2, True)
    assert client.runs_debug_bundle("run_nowhere") is None


def test_it_promotes_a_version_that_was_evaluated(client: OpenwopClient, newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(1))
    for state, evidence in (("test", None), ("staged", None), ("active", run_id)):
        record = client.agents_transition_deployment(
            RIGHT,
            AgentDeploymentTransition("1.0.0", "promote", toState=state, evalRunId=evidence),
        )
        assert record.state == state
    listed = client.agents_list_deployments(RIGHT)
    assert listed is not None
    assert [(entry.version, entry.state) for entry in listed] == [("1.0.0", "active")]


def test_it_is_refused_a_promotion_without_evidence(client: OpenwopClient, newcomer: Caller):
    failed = newcomer.evaluate(a_suite(1), WRONG)
    for state in ("test", "staged"):
        client.agents_transition_deployment(
            WRONG, AgentDeploymentTransition("1.0.0", "promote", toState=state)
        )
    with pytest.raises(WopError) as error:
        client.agents_transition_deployment(
            WRONG,
            AgentDeploymentTransition("1.0.0", "promote", toState="active", evalRunId=failed),
        )
    assert refused(error) == (403, "eval_gate_unmet")


def test_its_errors_carry_the_code_and_the_trace(client: OpenwopClient):
    with pytest.raises(WopError) as error:
        client.runs_get("run_nowhere")
    assert refused(error) == (404, "not_found")
    assert error.value.traceparent


def test_it_is_told_that_its_key_is_of_no_use(newcomer: Caller):
    client = OpenwopClient(newcomer.url, "nothing")
    with pytest.raises(WopError) as error:
        client.runs_get("run_nowhere")
    assert refused(error) == (401, "unauthenticated")


def test_it_is_told_which_scope_it_lacks(lasting: ServedHost):
    client = OpenwopClient(lasting.url, lasting.key("acme", scopes=["runs:read"]))
    with pytest.raises(WopError) as error:
        client.runs_cancel("run_nowhere")
    assert refused(error) == (403, "forbidden")
