"""Annotations: what people say of a run, kept beside a log that does not change."""

import json
import logging

import pytest

from builders import a_suite, a_task
from host.caller import Caller, Reply
from host.server import GATED, TENANT, WRONG, ServedHost
from subjects.command import Evalwright
from subjects.waiting import Journal

RATING = {"kind": "rating", "rating": 4}
FLAG = {"kind": "flag"}
CANARY = "sk-canary-0123456789abcdef"


def annotate(caller: Caller, run_id: str, signal=FLAG, headers=None, **more) -> Reply:
    return caller.post(f"/v1/runs/{run_id}/annotations", {"signal": signal, **more}, headers)


def annotations(caller: Caller, run_id: str) -> list:
    reply = caller.get(f"/v1/runs/{run_id}/annotations")
    assert reply.status == 200, reply.body
    return reply.json()["annotations"]


@pytest.fixture
def run_id(newcomer: Caller) -> str:
    return newcomer.evaluate(a_suite(2))


def test_an_annotation_of_a_run_that_has_ended_is_kept_with_its_author(
    newcomer: Caller, run_id: str
):
    reply = annotate(newcomer, run_id, RATING, note="good answers")
    kept = reply.json()
    assert reply.status == 201
    assert kept["target"] == {"runId": run_id}
    assert (kept["signal"], kept["note"]) == (RATING, "good answers")
    assert kept["actor"]["principalRef"].startswith("key:")
    assert annotations(newcomer, run_id) == [kept]


def test_annotations_are_listed_in_the_order_in_which_they_came(newcomer: Caller, run_id: str):
    notes = [f"note {number}" for number in range(5)]
    for note in notes:
        annotate(newcomer, run_id, note=note)
    assert [each["note"] for each in annotations(newcomer, run_id)] == notes


def test_a_correction_of_a_score_leaves_log_and_summary_as_they_are(newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(1), WRONG)
    before = newcomer.get(f"/v1/runs/{run_id}/eval-summary").body, newcomer.frames(run_id)
    scored = next(frame.data for frame in before[1] if frame.name == "eval.scored")
    correction = {"kind": "correction", "correction": "1.0"}
    reply = annotate(newcomer, run_id, correction, target={"eventId": scored["eventId"]})
    assert reply.json()["target"] == {"runId": run_id, "eventId": scored["eventId"]}
    after = newcomer.get(f"/v1/runs/{run_id}/eval-summary").body, newcomer.frames(run_id)
    assert after == before


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"signal": {}},
        {"signal": {"kind": "praise"}},
        {"signal": {"kind": "rating"}},
        {"signal": {"kind": "rating", "rating": 0}},
        {"signal": {"kind": "rating", "rating": 6}},
        {"signal": {"kind": "rating", "rating": 2.5}},
        {"signal": {"kind": "rating", "rating": 3, "label": "x"}},
        {"signal": {"kind": "label"}},
        {"signal": {"kind": "label", "label": ""}},
        {"signal": {"kind": "label", "label": "x" * 257}},
        {"signal": {"kind": "correction"}},
        {"signal": {"kind": "correction", "label": "x"}},
        {"signal": {"kind": "correction", "correction": "x" * 4097}},
        {"signal": {"kind": "flag", "rating": 3}},
        {"signal": FLAG, "surprise": 1},
        {"signal": FLAG, "note": "x" * 2049},
        {"signal": FLAG, "target": {"runId": "run_x"}},
        {"signal": FLAG, "actor": {"principalRef": "somebody"}},
    ],
)
def test_what_is_no_annotation_is_refused(newcomer: Caller, run_id: str, body):
    reply = newcomer.post(f"/v1/runs/{run_id}/annotations", body)
    assert reply.refusal == (400, "validation_error")
    assert annotations(newcomer, run_id) == []


@pytest.mark.parametrize("suffix", [":99999", ":01", ":-1", ":x", "", ":0:0"])
def test_the_event_must_be_one_of_the_run(newcomer: Caller, run_id: str, suffix: str):
    target = {"eventId": f"{run_id}{suffix}"}
    assert annotate(newcomer, run_id, target=target).refusal == (400, "validation_error")


def test_an_event_of_another_run_is_not_one_of_this(newcomer: Caller, run_id: str):
    other = newcomer.evaluate(a_suite(2))
    reply = annotate(newcomer, run_id, target={"eventId": f"{other}:0"})
    assert reply.refusal == (400, "validation_error")


def test_the_node_must_be_one_of_the_run_and_of_the_event(newcomer: Caller, run_id: str):
    scored = next(each for each in newcomer.frames(run_id) if each.name == "eval.scored")
    event_id, node_id = scored.data["eventId"], scored.data["nodeId"]
    other = "task-1" if node_id == "task-2" else "task-2"
    for target in ({"nodeId": node_id}, {"nodeId": node_id, "eventId": event_id}):
        assert annotate(newcomer, run_id, target=target).status == 201
    for target in ({"nodeId": "task-9"}, {"nodeId": other, "eventId": event_id}):
        assert annotate(newcomer, run_id, target=target).refusal == (400, "validation_error")


@pytest.mark.parametrize(
    "secret", [CANARY, "ew_abcdef_0123456789abcdef0123456789", "AKIAIOSFODNN7EXAMPLQ"]
)
def test_secrets_are_masked_before_anything_is_kept(
    newcomer: Caller, lasting: ServedHost, run_id: str, secret: str
):
    correction = {"kind": "correction", "correction": f"use {secret} here"}
    reply = annotate(newcomer, run_id, correction, note=f"mind {secret}")
    label = annotate(newcomer, run_id, {"kind": "label", "label": secret})
    assert reply.status == label.status == 201
    told = reply.body + label.body + newcomer.get(f"/v1/runs/{run_id}/annotations").body
    assert secret.encode() not in told
    assert reply.json()["signal"]["correction"].startswith("use [masked:")
    tenant = newcomer.snapshot(run_id)["owner"]["tenant"]
    kept = lasting.log.records.list("annotation", tenant)
    assert len(kept) == 2
    assert all(secret.encode() not in record.body for record in kept)


def test_ordinary_words_are_kept_as_they_are(newcomer: Caller, run_id: str):
    text = "the task-list on the desk-top: risk-assessment, ask-me-anything; see https://a.example/?q=1"
    reply = annotate(newcomer, run_id, {"kind": "correction", "correction": text})
    assert reply.json()["signal"]["correction"] == text


def test_a_run_of_another_tenant_cannot_be_annotated_nor_its_annotations_read(
    newcomer: Caller, lasting: ServedHost, run_id: str
):
    annotate(newcomer, run_id, note="ours")
    tenant = newcomer.snapshot(run_id)["owner"]["tenant"]
    for stranger in (lasting.caller("rival"), lasting.caller(tenant, workspace="labs")):
        for path in (run_id, "run_nowhere"):
            assert annotate(stranger, path).refusal == (404, "not_found")
            assert stranger.get(f"/v1/runs/{path}/annotations").refusal == (404, "not_found")
    assert len(annotations(newcomer, run_id)) == 1


def test_annotating_and_reading_have_scopes_of_their_own(lasting: ServedHost):
    reader, annotator = (lasting.caller(scopes=[scope]) for scope in ("runs:read", "runs:annotate"))
    assert annotate(reader, "run_x").refusal == (403, "forbidden")
    assert annotator.get("/v1/runs/run_x/annotations").refusal == (403, "forbidden")


def test_an_annotation_sent_twice_with_one_key_is_kept_once(newcomer: Caller, run_id: str):
    headers = {"Idempotency-Key": "once"}
    first, second = (annotate(newcomer, run_id, headers=headers) for _ in range(2))
    assert second.json() == first.json()
    assert len(annotations(newcomer, run_id)) == 1


def test_an_annotation_is_audited_without_its_words(
    newcomer: Caller, run_id: str, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO):
        annotation_id = annotate(newcomer, run_id, note="words of mine").json()["annotationId"]
    lines = [repr(record.__dict__) for record in caplog.records]
    assert any("runs.annotate" in line and annotation_id in line for line in lines)
    assert not any("words of mine" in line for line in lines)


class TestLive:
    """Those who follow a run are told, and the log is not."""

    @pytest.fixture
    def running(self, caller: Caller, gate: Journal) -> str:
        run_id = caller.start(a_suite([a_task(input="wait")]), GATED)
        gate.wait_for(1)
        return run_id

    @pytest.mark.parametrize("mode", ["updates", "debug", "updates,messages"])
    def test_followers_are_told_and_no_sequence_moves(
        self, caller: Caller, gate: Journal, running: str, mode: str
    ):
        with caller.stream(f"/v1/runs/{running}/events?streamMode={mode}") as stream:
            stream.until("eval.started")
            kept = annotate(caller, running, RATING).json()
            told = stream.until("run.annotated")[-1]
            gate.open_gate()
            rest = list(stream)
        assert told.id == told.data["sequence"] < rest[0].id
        assert told.data["payload"] == kept
        assert (told.data["runId"], told.data["type"]) == (running, "run.annotated")
        assert rest[-1].name == "run.completed"
        assert "run.annotated" not in [frame.name for frame in caller.frames(running)]

    @pytest.mark.parametrize("mode", ["values", "messages"])
    def test_other_modes_are_not_told(self, caller: Caller, gate: Journal, running: str, mode: str):
        with caller.stream(f"/v1/runs/{running}/events?streamMode={mode}") as stream:
            annotate(caller, running, RATING)
            gate.open_gate()
            assert "annotation" not in json.dumps([frame.data for frame in stream])

    def test_a_buffered_stream_tells_it_too(self, caller: Caller, gate: Journal, running: str):
        with caller.stream(f"/v1/runs/{running}/events?bufferMs=10") as stream:
            stream.until("batch")
            kept = annotate(caller, running, RATING).json()
            told = stream.until("run.annotated")[-1]
            gate.open_gate()
        assert told.data["payload"] == kept

    def test_followers_of_other_runs_are_not_told(
        self, served: ServedHost, caller: Caller, gate: Journal, running: str
    ):
        other = served.caller("rival")
        theirs = other.start(a_suite([a_task(input="wait")]), GATED)
        with other.stream(f"/v1/runs/{theirs}/events?streamMode=debug") as stream:
            annotate(caller, running, RATING)
            gate.open_gate()
            assert "run.annotated" not in [frame.name for frame in stream]
        assert TENANT not in json.dumps(annotations(other, theirs))


def test_a_corrected_score_is_shown_with_its_correction_on_the_scorecard(
    served: ServedHost, caller: Caller, evalwright: Evalwright
):
    run_id = caller.evaluate(a_suite(2), WRONG)
    scored = [frame.data for frame in caller.frames(run_id) if frame.name == "eval.scored"]
    for frame, text in ((scored[1], "it was\x1b[31m right"), (caller.frames(run_id)[0].data, "no")):
        correction = {"kind": "correction", "correction": text}
        reply = annotate(caller, run_id, correction, target={"eventId": frame["eventId"]})
        assert reply.status == 201
    annotate(caller, run_id, FLAG, target={"eventId": scored[0]["eventId"]})
    task_id, by = scored[1]["nodeId"], reply.json()["actor"]["principalRef"]
    evalwright.db = served.log.place
    for command in (("show", run_id), ("replay", run_id)):
        card = evalwright(*command)
        told = " ".join(card.out.split())
        assert f" {task_id}: score 0, corrected by {by}, 20" in told
        assert "it was\\x1b[31m right" in told
        assert told.count("corrected by") == 1
