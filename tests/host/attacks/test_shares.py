"""What one tenant can take from the others."""

import logging

import pytest

from builders import a_suite
from host.caller import Caller
from host.server import ServedHost


def test_one_tenant_does_not_take_all_places_for_comparisons(served: ServedHost) -> None:
    caller, other = served.caller(), served.caller("other")
    run_id, others = caller.evaluate(a_suite(1)), other.evaluate(a_suite(1))
    places = served.host.comparisons
    with places.hold(), places.hold_for("acme"):
        mine = caller.get(f"/v1/runs/{run_id}/compare-report?baseline={run_id}")
        theirs = other.get(f"/v1/runs/{others}/compare-report?baseline={others}")
    assert mine.refusal == (429, "rate_limited")
    assert theirs.status == 200


def test_long_agents_are_not_read_to_list_the_others(caller: Caller) -> None:
    for version in ("1.0.0", "1.10.0", "1.9.0"):
        manifest = {
            "agentId": "vendor.acme.shop.long",
            "persona": f"Version {version}",
            "modelClass": "general",
            "systemPrompt": "x" * 1_000_000,
        }
        reply = caller.post("/v1/agents", {"version": version, "manifest": manifest})
        assert reply.status == 201
    listed = {agent["agentId"]: agent for agent in caller.get("/v1/agents").json()["agents"]}
    assert listed["vendor.acme.shop.long"]["packVersion"] == "1.10.0"
    assert caller.get("/v1/agents/vendor.acme.shop.long").json()["persona"] == "Version 1.10.0"


def test_a_path_cannot_write_into_the_log(
    served: ServedHost, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "evalwright"):
        assert served.nobody().get("/v1/runs/forged%0Aline").status == 401
        run_id = served.caller().start()
        served.caller().get(f"/v1/runs/{run_id}")
    told = [str(vars(each)) for each in caplog.records if each.name.startswith("evalwright")]
    assert not any("forged" in line for line in told)
    assert any(run_id in line for line in told)
