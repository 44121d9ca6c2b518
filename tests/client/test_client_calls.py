"""Both clients against a real host: every call of theirs."""

import io
import zipfile

import pytest

from builders import AGENT_ID, SUITE_ID, a_suite, a_task, as_document
from evalwright.client import HostError, RunEvent, Signal
from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.contracts.events import EvalScored
from host.server import GATED, WRONG

REF = f"{SUITE_ID}@1.0.0"


def published(client, **fields):
    return client.publish_suite(a_suite(**fields)).eval_suite_ref


def test_a_suite_is_published_and_evaluated(client):
    assert published(client, tasks=3) == REF
    summary = client.evaluate(REF, AGENT_ID)
    assert (summary.passed, summary.task_count, summary.passed_count) == (True, 3, 3)


def test_capabilities_are_told_without_a_key(lasting, connect):
    told = connect(lasting.url).capabilities()
    assert told.implementation.name == "evalwright"
    assert "golden" in told.agents.eval_suite.modes


def test_a_suite_comes_back_as_it_was_published(client):
    suite = a_suite(2)
    client.publish_suite(as_document(suite))
    assert client.suite(REF) == suite
    assert REF in [each.eval_suite_ref for each in client.suites()]


def test_other_content_under_a_published_version_is_refused(client):
    published(client, tasks=1)
    with pytest.raises(HostError) as refusal:
        published(client, tasks=2)
    assert (refusal.value.status, refusal.value.code) == (409, "conflict")
    assert refusal.value.details["evalSuiteRef"] == REF


def test_a_run_that_has_ended_and_then_its_suite_are_deleted(client):
    client.evaluate(published(client, tasks=1), AGENT_ID)
    (run,) = [each for each in client.runs() if each.eval_suite_ref == REF]
    client.delete_run(run.run_id)
    client.delete_suite(REF)
    with pytest.raises(HostError) as missing:
        client.run(run.run_id)
    assert missing.value.status in (404, 410)
    assert REF not in [each.eval_suite_ref for each in client.suites()]


def test_more_suites_than_fit_a_page_are_listed_to_the_last(client):
    for number in range(130):
        published(client, tasks=1, version=f"1.0.{number}")
    own = [each for each in client.suites() if each.suite_id == SUITE_ID]
    assert len({each.version for each in own}) == len(own) == 130


def test_a_large_suite_is_sent_and_comes_back_whole(client):
    suite = a_suite([a_task(f"task-{n}", input="x" * 100_000) for n in range(30)])
    client.publish_suite(suite)
    assert client.suite(REF) == suite


def test_agents_are_listed_and_shown(client):
    assert AGENT_ID in [agent.agent_id for agent in client.agents()]
    assert client.agent(AGENT_ID).agent_id == AGENT_ID


def test_a_manifest_is_registered(client):
    manifest = {
        "agentId": "vendor.acme.desk",
        "persona": "A desk",
        "modelClass": "general",
        "systemPrompt": "Answer.",
    }
    assert client.register_manifest(manifest, "1.0.0").persona == "A desk"
    assert client.agent("vendor.acme.desk").pack_version == "1.0.0"


def test_an_agent_at_an_address_that_is_not_for_tenants_is_refused(client):
    with pytest.raises(HostError) as refusal:
        client.register_agent("vendor.acme.remote", "1.0.0", "https://127.0.0.1/agent")
    assert refusal.value.code == "validation_error"


def test_a_run_keeps_what_it_was_begun_with(client):
    published(client)
    begun = client.create_run(
        REF,
        AGENT_ID,
        modes=["golden"],
        tags=["nightly"],
        metadata={"commit": "abc"},
        configurable={"concurrency": 2},
    )
    client.wait(begun.run_id)
    run = client.run(begun.run_id)
    assert (run.status, run.tags, run.metadata) == ("completed", ["nightly"], {"commit": "abc"})
    assert run.configurable == {"concurrency": 2, "evalModes": ["golden"]}


def test_one_idempotency_key_begins_one_run(client):
    published(client)
    first = client.create_run(REF, AGENT_ID, idempotency_key="order-66")
    assert client.create_run(REF, AGENT_ID, idempotency_key="order-66") == first
    assert client.create_run(REF, AGENT_ID) != first


def test_runs_are_listed_page_after_page_and_filtered(client):
    published(client, tasks=1)
    begun = [client.create_run(REF, AGENT_ID, tags=[f"t{n % 2}"]).run_id for n in range(5)]
    for run_id in begun:
        client.wait(run_id)
    assert [run.run_id for run in client.runs(page_size=2)] == begun[::-1]
    assert [run.run_id for run in client.runs(tag="t1")] == [begun[3], begun[1]]
    assert list(client.runs(status="failed")) == []
    assert len(list(client.runs(agent_id=AGENT_ID, suite_ref=REF))) == 5


def test_updates_are_content_free_and_debug_is_everything(client):
    published(client, tasks=2)
    run_id = client.create_run(REF, AGENT_ID).run_id
    updates = list(client.events(run_id))
    everything = list(client.events(run_id, mode="debug"))
    assert updates[0].type == "run.started"
    assert updates[-1].type == "run.completed"
    assert [event.sequence for event in everything] == list(range(len(everything)))
    assert [event for event in everything if event in updates] == updates
    scores = [event.decode(EvalScored) for event in updates if event.type == "eval.scored"]
    assert {score.task_id for score in scores} == {"task-1", "task-2"}


def test_events_are_told_while_the_run_goes_on(served, connect, gate):
    client = connect(served.url, served.key())
    published(client, tasks=[a_task("task-1", input="go"), a_task("task-2", input="wait")])
    run_id = client.create_run(REF, GATED).run_id
    told = client.events(run_id)
    first = next(event for event in told if event.type == "eval.scored")
    assert first.values()["taskId"] == "task-1"
    assert client.run(run_id).status == "running"
    gate.open_gate()
    assert [event.type for event in told][-1] == "run.completed"


@pytest.mark.parametrize("mode", ["updates", "debug", "messages"])
def test_after_the_end_there_is_nothing_more(client, mode):
    published(client)
    run_id = client.create_run(REF, AGENT_ID).run_id
    client.wait(run_id)
    assert list(client.events(run_id, mode=mode, after=10_000)) == []


def test_events_after_a_place(client):
    published(client)
    run_id = client.create_run(REF, AGENT_ID).run_id
    everything = list(client.events(run_id, mode="debug"))
    assert list(client.events(run_id, mode="debug", after=3)) == everything[4:]
    page = client.poll(run_id, after=3)
    assert (page.events, page.is_complete) == (everything[4:], True)
    assert client.poll(run_id).events == everything


def test_the_times_of_events_are_exact(client):
    published(client)
    event = next(client.events(client.create_run(REF, AGENT_ID).run_id))
    assert isinstance(event, RunEvent)
    fraction = int(event.timestamp.rstrip("Z").rpartition(".")[2])
    assert event.at_us % 1_000_000 == fraction


def test_waiting_has_an_end_and_the_run_goes_on(served, connect, gate):
    client = connect(served.url, served.key())
    published(client, tasks=[a_task(input="wait")])
    run_id = client.create_run(REF, GATED).run_id
    with pytest.raises(TimeoutError, match="it goes on"):
        client.wait(run_id, timeout_s=0.05)
    gate.open_gate()
    assert client.wait(run_id, timeout_s=240).passed


def test_a_run_is_paused_resumed_and_cancelled(served, connect, gate):
    client = connect(served.url, served.key())
    published(client, tasks=[a_task(input="wait")])
    run_id = client.create_run(REF, GATED).run_id
    gate.wait_for(1)
    assert client.pause(run_id).status == "paused"
    assert client.resume(run_id, reason="go on").status == "running"
    assert client.cancel(run_id, reason="enough").status in ("cancelled", "cancelling")
    with pytest.raises(CannotEvaluate, match="was cancelled; it has no result"):
        client.wait(run_id)


def test_several_runs_are_cancelled_each_with_its_result(served, connect, gate):
    client = connect(served.url, served.key())
    published(client, tasks=[a_task(input="wait")])
    run_id = client.create_run(REF, GATED).run_id
    done, unknown = client.bulk_cancel([run_id, "run_nobody"])
    assert (done.run_id, done.ok) == (run_id, True)
    assert (unknown.ok, unknown.error["code"]) == (False, "not_found")


def test_a_baseline_gives_a_regression_and_a_diff(client):
    published(client, tasks=2, modes=("golden", "regression"))
    base = client.create_run(REF, AGENT_ID).run_id
    client.wait(base)
    worse = client.create_run(REF, WRONG, modes=["golden", "regression"], baseline_run_id=base)
    summary = client.wait(worse.run_id)
    assert summary.regression.score_delta == -1
    diff = client.diff(worse.run_id, base)
    assert diff.diverged_at_seq == diff.event_diffs[0].seq
    by_task = client.diff(worse.run_id, base, align="task")
    assert {each.a_event["type"] for each in by_task.event_diffs if each.a_event} >= {"eval.scored"}


def test_a_replay_of_a_run_differs_from_it_in_nothing(client):
    published(client)
    source = client.create_run(REF, AGENT_ID).run_id
    summary = client.wait(source)
    fork = client.fork(source, "replay")
    assert (fork.source_run_id, fork.mode) == (source, "replay")
    assert client.wait(fork.run_id) == summary
    assert client.diff(fork.run_id, source).diverged_at_seq is None


def test_a_person_overrules_a_score_and_the_record_stays(client):
    published(client, tasks=1)
    run_id = client.create_run(REF, WRONG).run_id
    summary = client.wait(run_id)
    scored = next(event for event in client.events(run_id) if event.type == "eval.scored")
    said = client.annotate(
        run_id,
        Signal("correction", correction="this is right"),
        event_id=scored.event_id,
        note="seen by eye",
    )
    assert client.annotations(run_id) == [said]
    assert said.target["eventId"] == scored.event_id
    assert client.summary(run_id) == summary


def test_two_runs_are_compared_in_a_folder_to_download(client):
    published(client, tasks=1)
    base, new = (client.create_run(REF, agent).run_id for agent in (AGENT_ID, WRONG))
    for run_id in (base, new):
        client.wait(run_id)
    report = client.compare_report(base, new)
    assert "compare-report.json" in zipfile.ZipFile(io.BytesIO(report)).namelist()


def test_a_bundle_for_those_who_look_for_a_fault(client):
    published(client, tasks=1)
    run_id = client.create_run(REF, AGENT_ID).run_id
    client.wait(run_id)
    assert run_id in str(client.debug_bundle(run_id))


def test_deployments_are_moved_and_listed(client):
    published(client)
    moved = client.transition(AGENT_ID, "1.0.0", "promote", to_state="test")
    assert moved.state == "test"
    assert client.deployments(AGENT_ID) == [moved]


def test_a_promotion_without_an_evaluation_is_refused(client):
    with pytest.raises(HostError) as refusal:
        client.transition(AGENT_ID, "1.0.0", "promote", to_state="active")
    assert refusal.value.status in (400, 403)


def test_the_answer_to_what_no_run_waits_for_is_refused(client):
    with pytest.raises(HostError) as refusal:
        client.respond("run_nobody", "gate", "accept")
    assert refusal.value.status == 404


def test_webhooks_to_this_machine_are_refused_and_there_are_none(client):
    with pytest.raises(HostError) as refusal:
        client.create_webhook("https://127.0.0.1/hook", ["run.completed"])
    assert refusal.value.code == "webhook_url_rejected"
    assert client.webhooks() == []
    with pytest.raises(HostError) as missing:
        client.delete_webhook("wh_nobody")
    assert missing.value.code == "subscription_not_found"


def test_dead_letters_of_a_webhook_that_is_not_there_are_not_found(client):
    for call, more in (
        ("dead_letters", ()),
        ("resend_dead_letters", ()),
        ("delete_dead_letter", ("dlv_x",)),
    ):
        with pytest.raises(HostError) as missing:
            getattr(client, call)("wh_nobody", *more)
        assert missing.value.code == "subscription_not_found"


def test_refusals_carry_status_code_words_and_details(client):
    with pytest.raises(HostError) as refusal:
        client.summary("run_nobody")
    error = refusal.value
    assert (error.status, error.code, error.message) == (404, "not_found", "no such run")
    assert error.details["correlationId"]
    assert str(error) == "the host answered 404 not_found: no such run"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_lead_elsewhere_is_not_sent(client, name):
    with pytest.raises(BadInput, match="is not the name of anything on a host"):
        client.run(name)


@pytest.mark.parametrize("name", ["../suites", "a/b", "a?b=c", "a#b", "a%2Fb", "ä ö"])
def test_any_other_name_is_only_a_name(client, name):
    with pytest.raises(HostError) as refusal:
        client.run(name)
    assert refusal.value.status == 404
