"""Trends of a suite and findings over all runs: figures with their noise, tasks that broke."""

import re
from typing import Any, NamedTuple

import msgspec
import pytest

from builders import closing
from evalwright.contracts.summary import SafetyFinding
from evalwright.host.web import recent_runs
from evalwright.host.web.pages import signals as signals_page
from evalwright.host.web.pages import trends as trends_page
from evalwright.host.web.pages.suite_trends import suite_id_of
from evalwright.store.protocol import RunFacts
from host.server import ServedHost
from host.web.recorded import HOSTILE_TEXT as EVIL
from host.web.recorded import Tenant, a_tenant, entries_of, write
from reports.run.page_samples import Told, a_result, bad, ok

SUITE = "acme.shop.evals.refunds"


@pytest.fixture
def tenant(lasting: ServedHost) -> Tenant:
    return a_tenant(lasting)


def keep(
    tenant: Tenant,
    name: str,
    outcomes: dict[str, bool],
    *,
    version: str = "1.0.0",
    ago_s: float = 60,
    findings: dict[str, list[SafetyFinding]] | None = None,
    commit: str = "",
    **figures: Any,
) -> str:
    """A run with such outcomes, and with the figures and findings in its summary."""
    tasks = {each: Told("x", ok() if passed else bad()) for each, passed in outcomes.items()}
    summary = a_result(tasks)
    results = [
        msgspec.structs.replace(
            each, latency_ms=100 * n, safety_findings=(findings or {}).get(each.task_id)
        )
        for n, each in enumerate(summary.tasks, 1)
    ]
    summary = msgspec.structs.replace(summary, tasks=results, **figures)
    (_, started), *opened = entries_of(tasks, version=version)[: -len(closing(summary))]
    if commit:
        told = {"provenance": {"branch": "main", "commit": commit}}
        started = msgspec.structs.replace(started, metadata=told)
    run_id = f"{name}-{tenant.name}"
    write(tenant.log, run_id, [(None, started), *opened, *closing(summary)], ago_s)
    return run_id


def shown(tenant: Tenant, path: str, **headers: str) -> str:
    answer = tenant.visitor.get(path, **headers)
    assert answer.status == 200, answer.text
    return answer.text


class Chart(NamedTuple):
    """What is drawn of a measure: the runs with their figures, oldest first, and whiskers."""

    points: list[str]
    whiskers: int


def charts(page: str) -> dict[str, Chart]:
    found = {}
    for figure in re.findall(r"<figure>.*?</figure>", page, re.DOTALL):
        (name,) = re.findall(r"<h2>(.*?)</h2>", figure)
        told = re.findall(r'<a href="/runs/[^"]*" aria-label="[^"]*: ([^":]*)"', figure)
        assert len(re.findall(r'<circle|<rect class="out"', figure)) == len(told)
        found[name] = Chart(told, figure.count('class="whisker"'))
    return found


def broken_in(page: str) -> list[str]:
    """The tasks that broke or are flaky, in their order."""
    return re.findall(r'<tr data-task="([^"]+)"', page)


def test_figures_over_versions_have_their_noise_band(tenant: Tenant):
    keep(tenant, "r1", {"a": True, "b": True}, ago_s=90, total_cost_usd=0.5)
    last = keep(tenant, "r2", {"a": True, "b": False}, version="1.1.0", total_cost_usd=0.25)
    page = shown(tenant, "/trends")
    drawn = charts(page)
    assert drawn.keys() == {"Pass rate", "Cost per run", "p95 time"}, "a score that is no other"
    assert drawn["Pass rate"] == Chart(["100%", "50%"], 2), "oldest first"
    assert drawn["Cost per run"].points == ["$0.50", "$0.25"]
    assert drawn["p95 time"] == Chart(["200 ms", "200 ms"], 0)
    assert f'<a href="/runs/{last}" aria-label=' in page
    assert "version 1.1.0" in page, "the table has what the charts have"
    assert "9\N{EN DASH}91%" in page
    assert "$0.25" in page
    assert "is within what chance explains" in page
    assert "It passes 50.0%; chance explains 7\N{EN DASH}100%, by the run before it." in page
    assert 'class="chance"' in page
    assert ">version 1.1.0</text>" in page


def test_a_latest_run_that_chance_does_not_explain_is_called_worse_or_better(tenant: Tenant):
    good = dict.fromkeys((f"t{n}" for n in range(20)), True)
    keep(tenant, "r1", good, ago_s=90)
    keep(tenant, "r2", {**good, **dict.fromkeys([f"t{n}" for n in range(12)], False)}, ago_s=80)
    page = shown(tenant, "/trends")
    assert 'data-verdict="fail"' in page
    assert "fell further than chance explains" in page
    assert page.count('<rect class="out"') == 1
    keep(tenant, "r3", good)
    assert "is better than chance explains" in shown(tenant, "/trends")


def test_commits_branches_and_changes_of_the_suite_are_marked(tenant: Tenant):
    good = dict.fromkeys((f"t{n}" for n in range(20)), True)
    keep(tenant, "r1", good, ago_s=90, commit="1111111aaa", total_cost_usd=0.1)
    keep(tenant, "r2", dict.fromkeys(good, False), ago_s=80, commit="2222222bbb")
    keep(tenant, "r3", good | {"new": True}, commit="3333333ccc")
    page = shown(tenant, "/trends")
    assert re.findall(r">(\d{7}\w*)</text>", page) == ["3333333", "2222222", "1111111"]
    assert ">1 task more</text>" in page
    keep(tenant, "r4", dict.fromkeys(good, False), ago_s=1, commit="4444444ddd")
    assert ">main</text>" in shown(tenant, "/trends"), "the branch of what fell"


def test_a_cost_beyond_the_spread_of_those_before_stands_out(tenant: Tenant):
    for n, cost in enumerate([0.10, 0.11, 0.12, 0.10, 0.11, 0.30]):
        keep(tenant, f"r{n}", {"a": True}, ago_s=90 - n, total_cost_usd=cost)
    page = shown(tenant, "/trends")
    assert page.count('<rect class="out"') == 1
    assert re.search(r': \$0\.30</title><rect class="out"', page)


def test_one_run_is_one_point_and_no_trend(tenant: Tenant):
    keep(tenant, "r1", {"a": True, "b": False})
    page = shown(tenant, "/trends")
    assert "One run is not a trend yet" in page
    assert charts(page)["Pass rate"] == Chart(["50%"], 1)


def test_tasks_that_broke_or_are_flaky_are_named(tenant: Tenant):
    all_pass = {"breaks": True, "flaps": True, "fine": True, "never": False}
    keep(tenant, "r1", all_pass, ago_s=90)
    keep(tenant, "r2", all_pass | {"flaps": False}, ago_s=80)
    keep(tenant, "r3", all_pass, ago_s=70)
    last = keep(tenant, "r4", all_pass | {"breaks": False}, version="2.0.0")
    page = shown(tenant, "/trends")
    assert broken_in(page) == ["breaks", "flaps"], "what is broken now comes first"
    assert '<tr data-task="breaks" data-failed>' in page
    assert f'href="/runs/{last}/tasks/breaks"' in page
    assert "broken now" in page
    assert '<span class="sr">passed in </span>3 of 4<span class="sr"> runs</span>' in page
    flaky = shown(tenant, "/trends?tasks=flaky", HX_Request="true")
    assert broken_in(flaky) == ["flaps"]
    assert "<html" not in flaky


def test_a_suite_says_since_when_a_task_fails_and_when_it_was_fixed(tenant: Tenant):
    came = [("now", [1, 1, 0]), ("long", [1, 0, 0]), ("mended", [0, 0, 1]), ("never", [0, 0, 0])]
    for n in range(3):
        outcomes = {task: bool(passed[n]) for task, passed in came}
        keep(tenant, f"r{n}", outcomes, ago_s=90 - n, commit=f"{n}" * 8)
    page = shown(tenant, f"/suites/{SUITE}")
    notes = re.findall(
        r'<tr data-task="(\w+)".*?<span class="badge \w+">([A-Za-z ]+?)(?: run)?[ \d]*<', page
    )
    assert dict(notes) == {
        "now": "Broke in",
        "long": "Fails since",
        "mended": "Fixed in",
        "never": "Always failed",
    }


def test_what_changed_with_the_commit_is_a_change_and_not_flaky(tenant: Tenant):
    now, other = {"a": True, "b": True}, {"a": False, "b": True}
    keep(tenant, "r1", now, ago_s=90, commit="1111111aaa")
    keep(tenant, "r2", other, ago_s=80, commit="2222222bbb")
    suite = f"/suites/{SUITE}"
    for page in ("/trends?tasks=flaky", f"{suite}?show=flaky"):
        assert broken_in(shown(tenant, page)) == []
    assert "passed in" not in shown(tenant, "/review?kind=flaky")
    keep(tenant, "r3", now, ago_s=70, commit="2222222bbb")
    for page in ("/trends?tasks=flaky", f"{suite}?show=flaky"):
        assert broken_in(shown(tenant, page)) == ["a"]
    assert "passed in 1 of 2 runs" in shown(tenant, "/review?kind=flaky")


def test_another_suite_agent_or_tag_has_no_runs_here(tenant: Tenant):
    keep(tenant, "r1", {"a": True})
    for query in ("suite=other", "agent=nobody", "tag=none", f"suite={SUITE}&agent=%3Cscript%3E"):
        page = shown(tenant, f"/trends?{query}")
        assert "No completed run fits" in page
        assert "<script>" not in page
    assert "No completed run" not in shown(tenant, f"/trends?suite={SUITE}&model=")


def test_without_runs_there_is_no_trend(tenant: Tenant):
    assert "no run that has ended" in shown(tenant, "/trends")


def test_large_runs_follow_the_page(tenant: Tenant, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recent_runs, "LIGHT", 5)
    keep(tenant, "r1", {"a": True})
    assert "Looking for findings" in shown(tenant, "/signals")
    page = shown(tenant, "/trends")
    assert 'hx-get="/trends"' in page
    assert "<table" not in page
    assert "<table" in tenant.visitor.get("/trends", HX_Request="true").text
    assert "<table" in shown(tenant, "/trends")  # now it is known


def test_runs_beyond_what_a_page_can_look_at_are_counted(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recent_runs, "MOST_EVENTS", 5)
    keep(tenant, "r1", {"a": True})
    keep(tenant, "r2", {"a": True})
    assert "1 beyond 5 events in all" in shown(tenant, "/trends")
    assert "1 beyond 5 events in all" in shown(tenant, "/signals")


def test_a_run_that_was_deleted_a_moment_ago_does_not_hide_the_others(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    kept = keep(tenant, "r1", {"a": True})
    find = trends_page.runs_of

    def with_a_deleted_one(*asked: Any) -> list[RunFacts]:
        found = find(*asked)
        return [*found, found[0]._replace(run_id="deleted")]

    monkeypatch.setattr(trends_page, "runs_of", with_a_deleted_one)
    page = shown(tenant, f"/trends?suite={SUITE}")
    assert f'href="/runs/{kept}"' in page
    assert "Not looked at: 1 that cannot be read" in page


@pytest.mark.parametrize(("suite", "name"), [("a.b@1.0.0", "a.b"), ("plain", "plain")])
def test_a_suite_is_followed_over_its_versions(suite: str, name: str):
    assert suite_id_of(suite) == name


# Signals.


def test_findings_of_all_runs_are_counted_by_kind_the_worst_first(tenant: Tenant):
    leak, tone = SafetyFinding("secret_in_output", "critical"), SafetyFinding("tone", "low")
    first = keep(tenant, "r1", {"a": False, "b": True}, findings={"a": [leak], "b": [tone]})
    second = keep(tenant, "r2", {"a": False, "b": True}, findings={"a": [tone], "b": [tone]})
    page = shown(tenant, "/signals")
    assert "4 findings in 2 runs" in page
    assert page.index(">Secret in output</a>") < page.index(">Tone</a>")
    assert 'data-verdict="fail"' in page
    graves = re.findall(r'data-signal="(\w+)"', page)
    assert graves == ["critical", "low", "low", "low"], "all of them, the worst first"

    page = shown(tenant, "/signals?kind=tone")
    assert 'data-signal="low"' in page
    assert re.findall(r'<a class="link" href="/runs/([^"]+)">', page) == [
        f"{second}/tasks/a",
        f"{second}/tasks/b",
        f"{first}/tasks/b",
    ]
    part = shown(tenant, "/signals?severity=critical&kind=nothing", HX_Request="true")
    assert part.lstrip().startswith('<div id="signals"')
    assert "1 finding in 2 runs" in part
    assert "Tone</a>" not in part


def test_older_runs_are_on_further_pages(tenant: Tenant, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(signals_page, "MOST_RUNS", 1)
    monkeypatch.setattr(signals_page, "AT_ONCE", 1)
    found = [SafetyFinding("leak", "high"), SafetyFinding("leak", "high")]
    keep(tenant, "r1", {"a": False}, findings={"a": [SafetyFinding("old_kind", "high")]})
    second = keep(tenant, "r2", {"a": False}, findings={"a": found})
    page = shown(tenant, "/signals?kind=leak")
    assert "page 1 of 2" in page
    assert f"before={second}" in page
    assert "old kind" in shown(tenant, f"/signals?before={second}")
    assert "0 findings" in shown(tenant, "/signals?before=unknown")


def test_a_hostile_kind_is_only_a_text(tenant: Tenant):
    keep(tenant, "r1", {"a": False}, findings={"a": [SafetyFinding(EVIL, "high")]})
    page = shown(tenant, "/signals").replace('<img src="/static/', "")
    assert "<img" not in page
    assert "<script>" not in page


def test_without_findings_the_page_says_how_they_are_found(tenant: Tenant):
    keep(tenant, "r1", {"a": True})
    assert "No run here has a safety finding" in shown(tenant, "/signals")
    assert "No finding fits these filters" in shown(tenant, "/signals?severity=high")


def test_a_row_without_an_id_is_called_by_its_name_in_lists_over_runs(tenant: Tenant):
    leak, row = SafetyFinding("secret_in_output", "critical"), "row-0123456789ab"
    keep(tenant, "r1", {row: True})
    run_id = keep(tenant, "r2", {row: False}, findings={row: [leak]})
    name = "where-is-it-0123"
    for path in (
        "/signals?kind=secret_in_output",
        "/trends",
        f"/review?q={name}",
        "/review?q=Where",
    ):
        page = shown(tenant, path)
        assert name in page, path
        assert row not in page, path
    page = shown(tenant, f"/review/{run_id}/{name}")
    assert f"<title>Review {name} · Evalwright</title>" in page
    assert row not in shown(tenant, f"/compare?run={run_id}&run={run_id.replace('r2', 'r1')}")
