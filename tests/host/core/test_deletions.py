"""DELETE of runs and suites: what is gone is gone, and what is in use or needed stays."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from builders import a_suite, a_task
from host.caller import Caller
from host.server import GATED, RIGHT, ServedHost
from subjects.waiting import Journal

WAITING = a_suite([a_task(input="wait")])


def delete(caller: Caller, path: str) -> int:
    return caller.send("DELETE", f"/v1/{path}").status


def reason(caller: Caller, run_id: str) -> str:
    refused = caller.send("DELETE", f"/v1/runs/{run_id}")
    assert refused.refusal == (409, "conflict")
    return str(refused.json()["message"])


def test_a_deleted_run_is_gone_from_every_route_with_its_annotations(served: ServedHost) -> None:
    caller = served.caller()
    run_id, other = caller.evaluate(), caller.evaluate()
    caller.post(f"/v1/runs/{run_id}/annotations", {"signal": {"kind": "flag"}})
    assert delete(caller, f"runs/{run_id}") == 204

    for path in ("", "/eval-summary", "/events", "/events/poll", "/annotations", "/debug-bundle"):
        gone = caller.get(f"/v1/runs/{run_id}{path}")
        assert gone.refusal == (404, "not_found"), path
        assert gone.json()["message"].startswith("the run was pruned on 20"), path
        assert gone.json()["details"]["prunedAt"].endswith("Z"), path
    assert caller.run_ids() == [other]
    assert not served.log.records.list("annotation", "acme", f"{run_id}/")


def test_deleting_again_is_no_error_and_an_unknown_run_is_404(caller: Caller) -> None:
    run_id = caller.evaluate()
    assert [delete(caller, f"runs/{run_id}") for _ in range(3)] == [204, 204, 204]
    assert delete(caller, "runs/run_nowhere") == 404


def test_a_key_that_is_sent_again_gets_the_first_answer(caller: Caller) -> None:
    run_id = caller.evaluate()
    headers = {"Idempotency-Key": "once"}
    first, second = (caller.send("DELETE", f"/v1/runs/{run_id}", headers=headers) for _ in range(2))
    assert (first.status, second.status) == (204, 204)
    assert second.headers["openwop-idempotent-replay"] == "true"


def test_a_running_run_is_refused(caller: Caller, gate: Journal) -> None:
    run_id = caller.start(WAITING, GATED)
    assert "the run is running; cancel it" in reason(caller, run_id)
    gate.open_gate()
    caller.finish(run_id)
    assert delete(caller, f"runs/{run_id}") == 204


def test_a_baseline_stays_until_nothing_is_compared_with_it(caller: Caller) -> None:
    suite = a_suite(modes=("golden", "regression"))
    baseline = caller.evaluate(suite)
    configurable = {"evalModes": ["golden", "regression"], "baselineRunId": baseline}
    compared = caller.evaluate(suite, configurable=configurable)
    assert reason(caller, baseline).endswith(f"it is the baseline of {compared}")
    assert delete(caller, f"runs/{compared}") == 204
    assert delete(caller, f"runs/{baseline}") == 204


@pytest.mark.parametrize("mode", ["replay", "branch"])
def test_the_source_of_a_fork_stays(caller: Caller, mode: str) -> None:
    source = caller.evaluate()
    body = {"mode": mode} | ({"fromSeq": 3} if mode == "branch" else {})
    forked = caller.post(f"/v1/runs/{source}:fork", body).json()["runId"]
    caller.finish(forked)
    assert reason(caller, source).endswith(f"it is the source of {forked}")


def test_the_evidence_of_a_promotion_stays(caller: Caller) -> None:
    evidence = caller.evaluate()
    promoted = caller.post(
        f"/v1/agents/{RIGHT}/deployments",
        {"version": "1.0.0", "transition": "promote", "toState": "test", "evalRunId": evidence},
    )
    assert promoted.status == 200, promoted.body
    assert "is evidence of" in reason(caller, evidence)


def test_nobody_deletes_what_belongs_to_another(served: ServedHost) -> None:
    owner, other = served.caller("acme"), served.caller("other")
    workspace = served.caller("acme", workspace="blue")
    run_id, ref = owner.evaluate(), "acme.shop.evals.refunds@1.0.0"
    assert delete(other, f"runs/{run_id}") == delete(workspace, f"runs/{run_id}") == 404
    assert delete(other, f"suites/{ref}") == 404
    assert owner.get(f"/v1/runs/{run_id}").status == 200
    assert owner.get(f"/v1/suites/{ref}").status == 200

    assert delete(owner, f"runs/{run_id}") == 204
    unknown = other.get(f"/v1/runs/{run_id}").json()
    assert unknown["message"] == "no such run", "that it was there is nobody else's business"


@pytest.mark.parametrize("path", ["runs/run_x", "suites/acme.shop.evals.refunds@1.0.0"])
def test_only_a_key_with_the_scope_deletes(served: ServedHost, path: str) -> None:
    refused = served.caller(scopes=["runs:*", "suites:read", "agents:*"])
    assert refused.send("DELETE", f"/v1/{path}").refusal == (403, "forbidden")


def test_a_suite_is_deleted_and_its_runs_stay(caller: Caller) -> None:
    run_id = caller.evaluate()
    path = "suites/acme.shop.evals.refunds@1.0.0"
    assert [delete(caller, path) for _ in range(2)] == [204, 204]
    assert caller.get(f"/v1/{path}").status == 404
    assert caller.get("/v1/suites").json()["suites"][:1] != ["acme.shop.evals.refunds@1.0.0"]
    assert caller.get(f"/v1/runs/{run_id}/eval-summary").status == 200
    assert delete(caller, "suites/acme.shop.evals.nothing@1.0.0") == 404


def test_of_many_who_delete_a_suite_at_once_none_fails(caller: Caller) -> None:
    ref = caller.publish(a_suite(1))
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: delete(caller, f"suites/{ref}"), range(16))) == {204}


def test_a_deleted_version_can_return_with_the_same_content_only(caller: Caller) -> None:
    caller.publish(a_suite(1))
    delete(caller, "suites/acme.shop.evals.refunds@1.0.0")
    document = {"suiteId": "acme.shop.evals.refunds", "version": "1.0.0"}
    other = caller.post("/v1/suites", {**_document(a_suite(2)), **document})
    assert other.refusal == (409, "conflict")
    assert caller.post("/v1/suites", _document(a_suite(1))).status == 201


def test_a_suite_in_use_and_one_of_the_host_stay(caller: Caller, gate: Journal) -> None:
    run_id = caller.start(WAITING, GATED)
    refused = caller.send("DELETE", "/v1/suites/acme.shop.evals.refunds@1.0.0")
    assert refused.refusal == (409, "conflict")
    assert refused.json()["details"]["reason"] == f"run {run_id} has not ended"
    gate.open_gate()
    caller.finish(run_id)
    bundled = "suites/local.evalwright.evals.support-desk@1.0.0"
    assert delete(caller, bundled) == 409


def _document(suite: object) -> dict[str, object]:
    from builders import as_document

    return as_document(suite)  # type: ignore[arg-type]
