"""The difference of two runs, over HTTP."""

from itertools import zip_longest
from typing import Any

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


def reference_diff(a: list[Any], b: list[Any]) -> list[tuple[int, str]]:
    """Where two logs differ by the words of RFC 0054: number n with number n."""
    found = []
    for seq, (old, new) in enumerate(zip_longest(a, b)):
        if old is None or new is None:
            found.append((seq, "added" if old is None else "removed"))
        elif old["type"] != new["type"] or timeless(old["payload"]) != timeless(new["payload"]):
            found.append((seq, "changed"))
    return found


def timeless(payload: Any) -> Any:
    if isinstance(payload, dict):
        unlike = ("durationMs", "latencyMs", "owner", "origin")
        return {key: timeless(value) for key, value in payload.items() if key not in unlike}
    return [timeless(each) for each in payload] if isinstance(payload, list) else payload


def events_of(caller: Caller, run_id: str) -> list[Any]:
    return [frame.data for frame in caller.frames(run_id)]


def test_events_are_compared_by_their_sequence(newcomer: Caller):
    one, two = newcomer.evaluate(a_suite(1)), newcomer.evaluate(a_suite(2, version="2.0.0"))
    logs = events_of(newcomer, one), events_of(newcomer, two)
    for (a, b), (old, new) in (((one, two), logs), ((two, one), logs[::-1])):
        found = newcomer.get(f"/v1/runs/{a}:diff?against={b}").json()
        places = [(each["seq"], each["op"]) for each in found["eventDiffs"]]
        assert places == reference_diff(old, new)
        assert found["divergedAtSeq"] == places[0][0]
        for each in found["eventDiffs"]:
            for side, log in (("aEvent", old), ("bEvent", new)):
                assert each.get(side) == (log[each["seq"]] if each["seq"] < len(log) else None)


def test_another_order_of_tasks_is_a_difference_unless_they_are_aligned_by_task(
    caller: Caller, gate: Journal
):
    suite = a_suite([a_task("one", input="wait"), a_task("two"), a_task("three")])
    orders = []
    for concurrency in (2, 1):
        run_id = caller.start(suite, GATED, configurable={"concurrency": concurrency})
        gate.wait_for(1)
        if concurrency == 2:
            with caller.stream(f"/v1/runs/{run_id}/events?streamMode=debug") as stream:
                scored = (frame for frame in stream if frame.name == "eval.scored")
                assert [next(scored).data["nodeId"] for _ in range(2)] == ["two", "three"]
        gate.open_gate()
        assert caller.finish(run_id)["status"] == "completed"
        orders.append(run_id)
    path = "/v1/runs/{}:diff?against={}".format(*orders)
    by_sequence, by_task = (
        caller.get(path).json(),
        caller.get(f"{path}&evalwright.align=task").json(),
    )
    # The plan has another concurrency; besides, only the order of the tasks differs.
    assert [each["aEvent"]["type"] for each in by_task["eventDiffs"]] == ["evalwright.planned"]
    assert len(by_sequence["eventDiffs"]) > 1
    assert caller.get(f"{path}&evalwright.align=seq").json() == by_sequence
    refused = caller.get(f"{path}&evalwright.align=sideways")
    assert refused.refusal == (400, "validation_error")


def test_a_replay_does_not_differ_from_its_source(newcomer: Caller):
    source = newcomer.evaluate(a_suite(2))
    fork = newcomer.post(f"/v1/runs/{source}:fork", {"mode": "replay"}).json()["runId"]
    found = newcomer.get(f"/v1/runs/{source}:diff?against={fork}").json()
    assert (found["divergedAtSeq"], found["eventDiffs"]) == (None, [])


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
