"""The list of runs: what it shows, filters in the address, pages, tenants, the first visit."""

import re
from collections.abc import Callable

import pytest

from builders import a_suite, a_task
from evalwright.host.web.pages import runs as runs_page
from host.caller import Caller
from host.server import GATED, PRICED, RIGHT, WRONG, ServedHost
from host.web.visitor import Visitor, signed_in
from subjects.waiting import Journal

RUN_LINK = re.compile(r'href="/runs/(run_[0-9a-z]{26})"')


def runs_on(visitor: Visitor, address: str) -> list[str]:
    """The runs that a page lists, in its order."""
    answer = visitor.get(address)
    assert answer.status == 200, answer.text
    return RUN_LINK.findall(answer.text)


def test_a_run_shows_its_verdict_rate_with_interval_and_cost(visitor: Visitor, newcomer: Caller):
    newcomer.evaluate(a_suite(4), agent_id=PRICED)
    newcomer.evaluate(a_suite(4), agent_id=WRONG)
    text = visitor.get("/").text
    assert "✗ Failed" in text
    assert "✓ Passed" in text
    assert "100.0%" in text
    assert "51\N{EN DASH}100%" in text  # Wilson's interval of 4 of 4
    assert re.search(r'data-name="Cost">\$\d', text)


def test_runs_of_one_agent_and_suite_have_a_line_of_their_scores(
    visitor: Visitor, newcomer: Caller
):
    newcomer.evaluate(a_suite(2))
    assert 'class="spark"' not in visitor.get("/").text
    newcomer.evaluate(a_suite(2))
    assert 'aria-label="Scores so far: 1.00, 1.00"' in visitor.get("/").text


def test_each_filter_is_in_the_address_and_leaves_out_the_rest(visitor: Visitor, newcomer: Caller):
    right = newcomer.evaluate(a_suite(1), tags=["nightly"])
    wrong = newcomer.evaluate(a_suite(1, suite_id="acme.evals.other"), agent_id=WRONG)
    assert runs_on(visitor, "/") == [wrong, right]
    for query, found in {
        f"agent={WRONG}": [wrong],
        f"agent={WRONG.rpartition('.')[2]}": [wrong],
        "suite=acme.evals.other@1.0.0": [wrong],
        "suite=acme.evals.other": [wrong],
        "suite=other": [wrong],
        "suite=other@1.0.0": [wrong],
        "suite=ther": [],
        "status=passed": [right],
        "status=failed": [wrong],
        "status=error": [],
        "status=open": [],
        "status=running": [],
        "tag=nightly": [right],
        "since=1h": [wrong, right],
        f"text={right[-8:].upper()}": [right],
        "text=nightly": [right],
        f"text=nightly&agent={WRONG}": [],
        "status=nonsense": [wrong, right],
    }.items():
        assert runs_on(visitor, f"/?{query}") == found, query
    assert "No run fits these filters." in visitor.get("/?status=error").text


def test_the_fields_of_the_filters_keep_what_was_asked(visitor: Visitor, newcomer: Caller):
    newcomer.evaluate(a_suite(1))
    text = visitor.get("/?text=a%22b&status=failed&since=7d").text
    assert 'value="a&quot;b"' in text
    assert '<option value="failed" selected>' in text
    assert '<option value="7d" selected>' in text


def test_pages_follow_each_other_and_lose_no_run(
    visitor: Visitor, newcomer: Caller, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runs_page, "AT_ONCE", 2)
    suite = newcomer.publish(a_suite(1))
    made = [newcomer.evaluate(suite) for _ in range(5)][::-1]
    for query in ("", "?status=passed"):
        address, found = f"/{query}", []
        while address:
            text = visitor.get(address).text
            found.append(RUN_LINK.findall(text))
            older = re.search(r'<a href="([^"]+)" rel="next">', text)
            address = older[1].replace("&amp;", "&") if older else ""
        assert found == [made[:2], made[2:4], made[4:]]


def test_a_changed_filter_gets_the_table_alone(visitor: Visitor, newcomer: Caller):
    newcomer.evaluate(a_suite(1))
    part = visitor.get("/?status=passed", HX_Request="true").text
    assert part.startswith('<section id="runs"')
    assert "<html" not in part


def test_a_tenant_sees_its_own_runs_only(visitor: Visitor, lasting: ServedHost, newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(1))
    stranger = signed_in(lasting.url, lasting.key("somebody-else"))
    assert runs_on(visitor, "/") == [run_id]
    assert run_id not in stranger.get("/").text
    for path in ("", "/live", "/tasks/task-1"):
        assert stranger.get(f"/runs/{run_id}{path}").status == 404
    for action in ("cancel", "pause", "resume", "again"):
        assert stranger.post(f"/runs/{run_id}/{action}").status == 404


def test_an_empty_log_says_what_to_do_next_and_offers_a_demo(visitor: Visitor):
    text = visitor.get("/").text
    assert "No runs yet" in text
    answer = visitor.post("/demo")
    assert answer.status == 303
    assert RUN_LINK.fullmatch(f'href="{answer.location}"')
    assert "support-desk" in visitor.get(answer.location).text
    assert len(runs_on(visitor, "/")) == 1


def test_a_viewer_is_offered_nothing_that_would_change_something(
    with_scopes: Callable[..., Visitor], lasting: ServedHost
):
    run_id = lasting.caller("viewers").evaluate(a_suite(1), agent_id=WRONG)
    viewer = with_scopes("viewers", "runs:read")
    for path in ("/", f"/runs/{run_id}"):
        text = viewer.get(path).text
        assert "/start" not in text
        assert re.findall(r'method="post" action="([^"]+)"', text) == ["/sign-out"]
    for path in ("/demo", "/start", f"/runs/{run_id}/again", f"/runs/{run_id}/cancel"):
        assert viewer.post(path).status == 403
    assert lasting.caller("viewers").run_ids() == [run_id]


def test_what_an_agent_is_called_cannot_become_markup(visitor: Visitor, newcomer: Caller):
    newcomer.evaluate(a_suite(1), agent_id=RIGHT, tags=["<img src=x onerror=alert(1)>"])
    text = visitor.get("/").text
    assert "<img" not in text
    assert "&lt;img" in text


def test_chosen_runs_are_compared_with_the_oldest_as_the_baseline(
    visitor: Visitor, newcomer: Caller
):
    old, new = newcomer.evaluate(a_suite(1)), newcomer.evaluate(a_suite(1))
    assert f'name="run" value="{new}"' in visitor.get("/").text
    answer = visitor.get(f"/compare?oldest_first=1&run={new}&run={old}")
    assert (answer.status, answer.location) == (303, f"/compare?run={old}&run={new}")


def test_a_list_with_a_run_that_goes_on_keeps_itself_up_to_date(
    served: ServedHost, caller: Caller, gate: Journal
):
    visitor = signed_in(served.url, served.key())
    caller.evaluate(a_suite(1))
    assert 'hx-trigger="every 5s"' not in visitor.get("/").text
    caller.start(a_suite([a_task("one", input="wait")], version="2.0.0"), GATED)
    assert 'hx-get="/?status=open" hx-trigger="every 5s"' in visitor.get("/?status=open").text
