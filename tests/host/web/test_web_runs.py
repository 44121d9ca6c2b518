"""The list of runs: what it shows, filters in the address, pages, tenants, the first visit."""

import html
import re
from collections.abc import Callable

import msgspec
import pytest

from builders import a_suite, a_task
from evalwright.contracts.run_plan import Group
from evalwright.host.web.pages import runs as runs_page
from host.caller import Caller
from host.server import GATED, PRICED, RIGHT, WRONG, ServedHost
from host.web.recorded import a_tenant, entries_of, write
from host.web.visitor import Visitor, signed_in
from reports.run.page_samples import Told, bad, ok
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
    text = visitor.get("/runs").text
    assert '<span class="word">Failed</span>' in text
    assert '<span class="word">Passed</span>' in text
    assert "<b>100.0</b>" in text
    assert "interval 51\N{EN DASH}100%" in text  # Wilson's interval of 4 of 4
    assert re.search(r"c-cost[^>]*>\$\d", text)


def test_runs_of_one_agent_and_suite_have_a_line_of_their_scores(
    visitor: Visitor, newcomer: Caller
):
    newcomer.evaluate(a_suite(2))
    assert 'class="spark"' not in visitor.get("/runs").text
    newcomer.evaluate(a_suite(2))
    assert 'aria-label="Latest runs: 1.00, 1.00"' in visitor.get("/runs").text


def test_each_filter_is_in_the_address_and_leaves_out_the_rest(visitor: Visitor, newcomer: Caller):
    right = newcomer.evaluate(a_suite(1), tags=["nightly"])
    wrong = newcomer.evaluate(a_suite(1, suite_id="acme.evals.other"), agent_id=WRONG)
    assert runs_on(visitor, "/runs") == [wrong, right]
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
        assert runs_on(visitor, f"/runs?{query}") == found, query
    assert "No run fits these filters" in visitor.get("/runs?status=error").text


def test_the_fields_of_the_filters_keep_what_was_asked(visitor: Visitor, newcomer: Caller):
    newcomer.evaluate(a_suite(1))
    text = visitor.get("/runs?text=a%22b&status=failed&since=7d").text
    assert 'value="a&quot;b"' in text
    assert re.search(r'data-chip="failed" href="[^"]*" aria-current="true"', text)
    assert '<input type="hidden" name="since" value="7d">' in text


def test_pages_follow_each_other_and_lose_no_run(
    visitor: Visitor, newcomer: Caller, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runs_page, "AT_ONCE", 2)
    suite = newcomer.publish(a_suite(1))
    made = [newcomer.evaluate(suite) for _ in range(5)][::-1]
    for query in ("", "?status=passed"):
        address, found = f"/runs{query}", []
        while address:
            text = visitor.get(address).text
            found.append(RUN_LINK.findall(text))
            older = re.search(r'<a class="button small" href="([^"]+)">Older runs', text)
            address = older[1].replace("&amp;", "&") if older else ""
        assert found == [made[:2], made[2:4], made[4:]]


def test_a_changed_filter_gets_the_table_alone(visitor: Visitor, newcomer: Caller):
    newcomer.evaluate(a_suite(1))
    part = visitor.get("/runs?status=passed", HX_Request="true").text
    assert part.lstrip().startswith('<form id="runs"')
    assert "<html" not in part


def test_a_tenant_sees_its_own_runs_only(visitor: Visitor, lasting: ServedHost, newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(1))
    stranger = signed_in(lasting.url, lasting.key("somebody-else"))
    assert runs_on(visitor, "/runs") == [run_id]
    for path in ("/", "/runs", "/suites"):
        assert run_id not in stranger.get(path).text
    assert stranger.get("/runs/1").status == 404, "the number of another tenant's run"
    for path in ("", "/live", "/tasks/task-1", "/tasks/task-1/drawer", "/tasks/task-1/findings"):
        assert stranger.get(f"/runs/{run_id}{path}").status == 404
    for action in ("cancel", "pause", "resume", "again"):
        assert stranger.post(f"/runs/{run_id}/{action}").status == 404


def test_an_empty_log_says_what_to_do_next_and_offers_a_demo(visitor: Visitor):
    text = visitor.get("/").text
    assert "Nobody knows yet" in text
    answer = visitor.post("/demo")
    assert answer.status == 303
    assert RUN_LINK.fullmatch(f'href="{answer.location}"')
    assert "support-desk" in visitor.get(answer.location).text
    assert len(runs_on(visitor, "/runs")) == 1


def test_a_viewer_is_offered_nothing_that_would_change_something(
    with_scopes: Callable[..., Visitor], lasting: ServedHost
):
    run_id = lasting.caller("viewers").evaluate(a_suite(1), agent_id=WRONG)
    viewer = with_scopes("viewers", "runs:read")
    for path in ("/", "/runs", f"/runs/{run_id}"):
        text = viewer.get(path).text
        assert 'href="/start"' not in text
        assert re.findall(r'method="post" action="([^"]+)"', text) == ["/sign-out"]
    for path in ("/demo", "/start", f"/runs/{run_id}/again", f"/runs/{run_id}/cancel"):
        assert viewer.post(path).status == 403
    assert lasting.caller("viewers").run_ids() == [run_id]


def test_what_an_agent_is_called_cannot_become_markup(visitor: Visitor, newcomer: Caller):
    newcomer.evaluate(a_suite(1), agent_id=RIGHT, tags=["<img src=x onerror=alert(1)>"])
    text = visitor.get("/runs").text
    assert "<img src=x" not in text
    assert "&lt;img" in text


def test_chosen_runs_are_compared_with_the_oldest_as_the_baseline(
    visitor: Visitor, newcomer: Caller
):
    old, new = newcomer.evaluate(a_suite(1)), newcomer.evaluate(a_suite(1))
    assert f'name="run" value="{new}"' in visitor.get("/runs").text
    answer = visitor.get(f"/compare?oldest_first=1&run={new}&run={old}")
    assert (answer.status, answer.location) == (303, f"/compare?baseline={old}&new={new}")


def test_a_list_with_a_run_that_goes_on_keeps_itself_up_to_date(
    served: ServedHost, caller: Caller, gate: Journal
):
    visitor = signed_in(served.url, served.key())
    caller.evaluate(a_suite(1))
    assert 'hx-trigger="every 5s"' not in visitor.get("/runs").text
    caller.start(a_suite([a_task("one", input="wait")], version="2.0.0"), GATED)
    text = visitor.get("/runs?status=open").text
    assert 'hx-get="/runs?status=open" hx-trigger="every 5s"' in text
    assert "<b>0 of 1</b>" in text, "how far it is"


def test_a_run_is_found_by_its_number(visitor: Visitor, newcomer: Caller):
    old, new = newcomer.evaluate(a_suite(1)), newcomer.evaluate(a_suite(1), agent_id=WRONG)
    numbers = re.findall(r'data-run="(\d+)"', visitor.get("/runs").text)
    assert len(numbers) == 2
    page = visitor.get(f"/runs/{numbers[0]}").text
    assert f"Run {numbers[0]}" in page
    assert f"/runs/{new}/tasks/task-1" in page
    pair = visitor.get(f"/compare?baseline={numbers[1]}&new={numbers[0]}").text
    assert f"/runs/{old}" in pair
    assert visitor.get("/runs/999999999").status == 404


def test_home_says_what_needs_attention_and_where_each_agent_stands(
    visitor: Visitor, newcomer: Caller
):
    newcomer.evaluate(a_suite(2))
    assert 'data-verdict="pass"' in visitor.get("/").text
    wrong = newcomer.evaluate(a_suite(2), agent_id=WRONG)
    text = visitor.get("/").text
    assert 'data-verdict="fail"' in text
    assert "1 of 2 agents may not ship" in text
    assert "2 tasks did not pass" in text
    assert f'href="/runs/{wrong}?show=failed"' in text
    assert 'data-table="suites"' in text


def test_a_suite_shows_its_tasks_over_all_runs(visitor: Visitor, newcomer: Caller):
    newcomer.evaluate(a_suite(2))
    newcomer.evaluate(a_suite(2), agent_id=WRONG)
    text = visitor.get("/suites/acme.shop.evals.refunds").text
    assert text.count('class="cell p"') - 1 == 2  # but for the legend
    assert text.count('class="cell f"') - 1 == 2
    assert 'data-task="task-1" data-failed' in text
    assert "No task fits" in visitor.get("/suites/acme.shop.evals.refunds?show=never").text
    assert "<dt><code>1.0.0</code></dt><dd>2 tasks; 2 runs, " in text
    assert visitor.get("/suites/unknown").status == 404


def test_runs_are_a_matrix_of_answers(visitor: Visitor, newcomer: Caller):
    right, wrong = newcomer.evaluate(a_suite(2)), newcomer.evaluate(a_suite(2), agent_id=WRONG)
    text = visitor.get(f"/matrix?run={right}&run={wrong}").text
    assert 'table class="table" role="table" data-table="matrix"' in text
    assert re.findall(r'data-task="([^"]+)"', text) == ["task-1", "task-2"]
    assert text.count("data-cell=") == 4
    assert "may ship" in text
    assert "No task fits" in visitor.get(f"/matrix?run={right}&run={wrong}&show=none").text
    assert visitor.get(f"/matrix?run={right}").status == 400


def matrix_links(text: str) -> list[str]:
    """Where the links to a matrix lead, each once."""
    found = re.findall(r'href="(/matrix\?[^"]+)"', text)
    return list(dict.fromkeys(html.unescape(each) for each in found))


def test_agents_that_ran_the_same_suite_are_one_click_from_their_matrix(
    visitor: Visitor, newcomer: Caller
):
    alone = newcomer.evaluate(a_suite(2))
    assert matrix_links(visitor.get("/runs").text) == []
    assert matrix_links(visitor.get(f"/runs/{alone}").text) == []
    other = newcomer.evaluate(a_suite(2), agent_id=WRONG)
    latest = newcomer.evaluate(a_suite(2), agent_id=WRONG)
    assert matrix_links(visitor.get("/runs").text) == [f"/matrix?run={latest}&run={alone}"]
    assert "Matrix of 2 agents" in visitor.get("/runs").text
    assert matrix_links(visitor.get(f"/runs/{other}").text) == [f"/matrix?run={other}&run={alone}"]
    (address,) = matrix_links(visitor.get("/suites/acme.shop.evals.refunds").text)
    assert address == f"/matrix?run={latest}&run={alone}"
    limited = visitor.get(f"{address}&least=80")
    assert "At least 80.0%" in limited.text
    assert 'name="least" inputmode="decimal" size="4" value="80"' in limited.text


def test_repeats_are_one_click_from_their_matrix(lasting: ServedHost):
    tenant = a_tenant(lasting)
    runs = [
        tenant.keep(f"r{n}", {"a": Told("x", ok())}, group=Group("group-1", n, 3), ago_s=90 - n)
        for n in (1, 2, 3)
    ]
    (address,) = matrix_links(tenant.visitor.get(f"/runs/{runs[2]}").text)
    assert sorted(re.findall(r"run=([^&]+)", address)) == runs
    assert "Matrix of 3 repeats" in tenant.visitor.get("/runs").text
    assert tenant.visitor.get(address).status == 200


def test_repeats_have_one_result_in_the_list_and_at_home(lasting: ServedHost):
    tenant = a_tenant(lasting)
    came = {1: ok(), 2: bad(), 3: ok()}
    ids = [
        tenant.keep(f"r{n}", {"a": Told("x", check)}, group=Group("g", n, 3), ago_s=90 - n)
        for n, check in came.items()
    ]
    home = tenant.visitor.get("/").text
    assert "refunds: 1 of 3 repeats failed" in home
    assert f'href="/runs/{ids[1]}?show=failed"' in home
    for query in ("", "?status=open", "?suite=unknown"):
        page = tenant.visitor.get(f"/runs{query}").text
        assert "The agent may not ship" in page, "what failed last stays visible"
        assert f'href="/runs/{ids[1]}?show=failed"' in page
    assert "66.7" in tenant.visitor.get("/runs").text, "the rate of all three"


def test_a_run_says_on_which_branch_it_was_started(lasting: ServedHost):
    tenant = a_tenant(lasting)
    entries = entries_of({"a": Told("yes", ok())})
    told = {"branch": "refund-tool-v2", "commit": "4f2c1a90b7d3e8f1", "by": "mara"} | {
        "title": "Give it a refund tool"
    }
    started = msgspec.structs.replace(entries[0][1], metadata={"provenance": told})
    run = f"branched-{tenant.name}"
    write(tenant.log, run, [(None, started), *entries[1:]], 60)
    for address in ("/runs", "/runs?text=refund-tool", f"/runs/{run}"):
        text = tenant.visitor.get(address).text
        assert "refund-tool-v2" in text
        assert "4f2c1a9<" in text
        assert ">Give it a refund tool</" in text
    assert "No run fits" in tenant.visitor.get("/runs?text=other-branch").text
    found = tenant.visitor.get("/runs?text=give+it+a").text
    assert re.search(r'Give it a refund tool</a> <span class="muted">\d+</span>', found)


def test_chips_count_the_runs_of_the_other_filters(visitor: Visitor, newcomer: Caller):
    for agent in (RIGHT, WRONG, RIGHT):
        newcomer.evaluate(a_suite(1), agent_id=agent)
    for query in ("", "?status=failed", "?since=1d&status=open"):
        assert counted(visitor, query) == [3, 1, 0, 2, 0, 0]
    assert counted(visitor, f"?agent={WRONG}&status=passed") == [1, 1, 0, 0, 0, 0]


def counted(visitor: Visitor, query: str) -> list[int]:
    """How many runs each chip says that it shows, in their order."""
    chips = re.search(r'data-chips="result".*?</div>', visitor.get(f"/runs{query}").text)
    assert chips
    return [int(each) for each in re.findall(r'<span class="n">(\d+)</span>', chips[0])]


def test_counts_of_many_runs_are_the_least(
    visitor: Visitor, newcomer: Caller, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runs_page, "MOST_COUNTED", 1)
    for _ in range(2):
        newcomer.evaluate(a_suite(1))
    assert '<span class="n">1+</span>' in visitor.get("/runs").text


def test_a_suite_says_what_fall_shows_and_how_often_people_agree(lasting: ServedHost):
    tenant = a_tenant(lasting)
    few = {f"t{n}": Told("x", ok() if n < 4 else bad()) for n in range(5)}
    run = tenant.keep("few", few)
    pages = (f"/runs/{run}", "/suites/acme.shop.evals.refunds")
    for path in pages:
        page = tenant.visitor.get(path).text
        assert "No fall would be more than chance." in page
        assert "verdicts that they reviewed" not in page
    for task, verdict in (("t0", "pass"), ("t1", "fail"), ("t4", "fail")):
        said = {"verdict": verdict}
        assert tenant.visitor.post(f"/review/{run}/{task}", said).status == 303
    for path in pages:
        assert "People agreed with 2 of the 3 verdicts" in tenant.visitor.get(path).text
    tenant.keep("many", {f"t{n}": Told("x", ok()) for n in range(40)}, ago_s=1)
    page = tenant.visitor.get(pages[1]).text
    assert "A fall of 6 tasks (15 points) is more than chance." in page
