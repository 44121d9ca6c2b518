"""The difference of two runs, over HTTP."""

from builders import a_log, a_suite, a_task
from evalwright.contracts.events import EvalCompleted
from evalwright.store.protocol import NewEvent
from host.caller import Caller
from host.server import GATED, TENANT, WRONG, ServedHost
from subjects.waiting import Journal


def test_a_run_does_not_differ_from_itself(newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(2))
    assert newcomer.get(f"/v1/runs/{run_id}:diff?against={run_id}").json() == {
        "a": run_id,
        "b": run_id,
        "divergedAtSeq": None,
        "eventDiffs": [],
        "stateDiff": {},
    }


def test_differences_begin_where_the_runs_part(newcomer: Caller):
    suite = a_suite(1)
    right, wrong = newcomer.evaluate(suite), newcomer.evaluate(suite, WRONG)
    found = newcomer.get(f"/v1/runs/{right}:diff?against={wrong}").json()
    assert found["eventDiffs"][0]["seq"] == found["divergedAtSeq"]
    assert {"op", "aEvent", "bEvent"} <= found["eventDiffs"][0].keys()
    assert found["stateDiff"]["passed"] == {"a": True, "b": False}


def test_a_difference_with_a_run_in_flight_is_said_to_be_of_a_part(caller: Caller, gate: Journal):
    done = caller.evaluate(a_suite(1))
    running = caller.start(a_suite([a_task(input="wait")], version="2.0.0"), GATED)
    gate.wait_for(1)
    assert caller.get(f"/v1/runs/{done}:diff?against={running}").json()["truncated"] is True


def test_what_looks_like_a_credential_is_masked_in_the_difference_of_states(
    served: ServedHost, caller: Caller
):
    log = a_log(a_suite(1))
    end = next(each for each in log if each.type == EvalCompleted.TYPE)
    view = served.log.for_tenant(TENANT)
    for run_id, word in (("run_a", b"plain"), ("run_b", b"sk-canary-0123456789")):
        body = end.body.replace(b"{", b'{"note":"%s",' % word, 1)
        news = [
            NewEvent(each.type, each.task_id, each.at_us, body if each is end else each.body)
            for each in log
        ]
        view.append(run_id, news)
        view.flush(run_id).result()
    found = caller.get("/v1/runs/run_a:diff?against=run_b").json()
    assert found["stateDiff"]["note"] == {"a": "plain", "b": "[masked:credential]"}


def test_the_other_run_must_be_named_and_be_there(newcomer: Caller, lasting: ServedHost):
    run_id = newcomer.evaluate(a_suite(1))
    foreign = lasting.caller("somebody-else").evaluate(a_suite(1))
    assert newcomer.get(f"/v1/runs/{run_id}:diff").refusal == (400, "validation_error")
    for pair in ((run_id, "run_nowhere"), (run_id, foreign), (foreign, run_id)):
        reply = newcomer.get("/v1/runs/{}:diff?against={}".format(*pair))
        assert reply.refusal == (404, "not_found")


def test_a_difference_needs_the_right_to_read(lasting: ServedHost):
    caller = lasting.caller(scopes=["runs:create"])
    assert caller.get("/v1/runs/a:diff?against=b").refusal == (403, "forbidden")
