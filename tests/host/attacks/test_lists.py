"""Lists that have to look at many runs."""

from contextlib import ExitStack

import pytest

from builders import a_suite
from evalwright.host.access.limits import ConcurrencyLimit
from evalwright.host.host import MOST_LISTS, MOST_LISTS_PER_TENANT
from evalwright.host.v1 import runs
from host.caller import Caller
from host.server import TENANT, WRONG, ServedHost


def lists_of(served: ServedHost) -> ConcurrencyLimit:
    return served.host.lists


def test_a_tenant_that_lists_too_much_at_once_waits_and_others_do_not(served: ServedHost) -> None:
    caller, other = served.caller(), served.caller("other")
    with ExitStack() as held:
        for _ in range(MOST_LISTS_PER_TENANT):
            held.enter_context(lists_of(served).hold_for(TENANT))
        refused = caller.get("/v1/runs?tag=none")
        assert refused.refusal == (429, "rate_limited")
        assert refused.headers["retry-after"] == "1"
        assert other.get("/v1/runs?tag=none").status == 200
        assert caller.evaluate(a_suite(1))
    assert caller.get("/v1/runs?tag=none").status == 200


def test_so_many_lists_are_made_at_once_and_no_more(served: ServedHost) -> None:
    with ExitStack() as held:
        for _ in range(MOST_LISTS):
            held.enter_context(lists_of(served).hold())
        assert served.caller().get("/v1/runs").refusal == (503, "service_unavailable")
    assert served.caller().get("/v1/runs").status == 200
    assert lists_of(served).held == 0


@pytest.mark.parametrize("query", ["tag=none", "agentId=none", "evalSuiteRef=none"])
def test_a_filter_that_matches_nothing_looks_at_no_run(
    seven_runs: Caller, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    looked_at: list[object] = []
    monkeypatch.setattr(runs, "listed_run", looked_at.append)
    assert seven_runs.get(f"/v1/runs?{query}").json() == {"runs": []}
    assert seven_runs.get(f"/v1/runs?{query}&status=running").json() == {"runs": []}
    assert seven_runs.get("/v1/runs?status=failed").json() == {"runs": []}
    assert looked_at == []


@pytest.mark.parametrize("at_once", [1, 2, 3, 50])
def test_pages_together_are_the_whole_list(
    seven_runs: Caller, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    whole = seven_runs.get("/v1/runs?limit=7").json()
    assert "next" not in whole
    everything = whole["runs"]
    monkeypatch.setattr(runs, "SCANNED_AT_ONCE", at_once)
    assert len(everything) == 7
    wrong = [run for run in everything if run["agentId"] == WRONG]
    assert len(wrong) == 3
    for limit in (1, 2, 7):
        assert _paged(seven_runs, f"limit={limit}") == everything
        assert _paged(seven_runs, f"limit={limit}&agentId={WRONG}") == wrong
        assert _paged(seven_runs, f"limit={limit}&status=completed") == everything
        assert _paged(seven_runs, f"limit={limit}&status=running") == []


@pytest.fixture
def seven_runs(newcomer: Caller) -> Caller:
    """A client with seven runs, three of which are of another agent."""
    suite = newcomer.publish(a_suite(1))
    for number in range(7):
        newcomer.finish(newcomer.start(suite, **({"agent_id": WRONG} if number % 2 else {})))
    return newcomer


def _paged(caller: Caller, query: str) -> list[dict[str, object]]:
    listed, more = [], ""
    while True:
        page = caller.get(f"/v1/runs?{query}{more}").json()
        listed += page["runs"]
        if "next" not in page:
            return listed
        more = f"&before={page['next']}"
