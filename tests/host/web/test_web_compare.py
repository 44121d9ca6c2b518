"""Comparing runs in the browser: what got worse, how sure that is, causes, gates, warnings."""

import io
import re
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from builders import AGENT_ID
from evalwright.contracts.run_plan import Group
from evalwright.host.web import recent_runs
from evalwright.host.web.pages import compare as compare_page
from host.server import ServedHost
from host.web.recorded import HOSTILE_TEXT as EVIL
from host.web.recorded import Tenant, a_tenant
from reports.run.page_samples import Told, a_trace, bad, ok


@pytest.fixture(scope="module")
def tenant(lasting: ServedHost) -> Tenant:
    return a_tenant(lasting)


@pytest.fixture(scope="module")
def pair(tenant: Tenant) -> tuple[str, str]:
    """Of five tasks one got worse, one better, one fails still."""
    before = {name: Told("shipped on Monday", bad() if name in "cd" else ok()) for name in "abcde"}
    after = {name: Told("shipped on Friday", bad() if name in "ad" else ok()) for name in "abcde"}
    old = tenant.keep("old", before, ago_s=12 * 86_400)
    return old, tenant.keep("new", after)


def shown(tenant: Tenant, path: str, **headers: str) -> str:
    answer = tenant.visitor.get(path, **headers)
    assert answer.status == 200, answer.text
    return answer.text


def tasks_in(page: str) -> list[str]:
    """The tasks that changed, in their order."""
    return re.findall(r'<details class="change"[^>]* data-task="(\w+)"', page)


def counted(page: str) -> dict[str, str]:
    """The groups that a page offers, with how many tasks are in each."""
    found = re.findall(r'data-chip="\w+".*?>([A-Z][^<]*) <span class="n">(\d+)</span></a>', page)
    return dict(found)


def rows_in(page: str) -> list[str]:
    """The tasks of a matrix, in their order."""
    return re.findall(r'<tr [^>]*data-task="(\w+)"', page)


def test_it_opens_on_what_got_worse_and_the_rest_is_folded(tenant: Tenant, pair: tuple[str, str]):
    page = shown(tenant, f"/compare?run={pair[0]}&run={pair[1]}")
    assert tasks_in(page) == ["a"]
    assert re.search(r'data-verdict="fail".*?<h1[^>]*>Do not ship', page, re.DOTALL)
    assert 'data-chip="worse" href' in page
    assert counted(page) == {
        "Got worse": "1",
        "Got better": "1",
        "Still failing": "1",
        "Unchanged": "2",
    }
    part = shown(tenant, f"/compare?run={pair[0]}&run={pair[1]}&group=unchanged", HX_Request="true")
    assert tasks_in(part) == ["b", "e"]
    assert "<html" not in part


def test_significance_flakiness_cause_gate_and_signals_are_together(
    tenant: Tenant, pair: tuple[str, str]
):
    page = shown(tenant, f"/compare?run={pair[0]}&run={pair[1]}")
    assert "Do not ship yet: 1 case got worse" in page
    assert "95% interval" in page
    assert "Within chance: " in page
    for words in ("Flaky <b>", "Gated <b>", "With signals <b>", "Causes of failures"):
        assert words in page


def test_the_age_of_the_baseline_and_what_cannot_be_compared_are_said(
    tenant: Tenant, pair: tuple[str, str]
):
    page = shown(tenant, f"/compare?run={pair[0]}&run={pair[1]}")
    assert "The baseline is 11 days older" in page
    assert "Compare with care" in page
    assert "The baseline is old" in page
    other = tenant.keep("other", {"a": Told("x", ok())}, version="2.0.0")
    page = shown(tenant, f"/compare?run={pair[1]}&run={other}")
    assert "other version of the suite, 1.0.0 before, 2.0.0 now" in page
    assert "not compared: removed: b, c, d, e" in page
    same = tenant.keep("same", {"a": Told("x", ok())}, version="2.0.0")
    assert "Compare with care" not in shown(tenant, f"/compare?run={other}&run={same}")


def test_runs_without_a_common_task_are_not_called_good(tenant: Tenant, pair: tuple[str, str]):
    other = tenant.keep("stranger", {"z": Told("x", ok())})
    page = shown(tenant, f"/compare?run={pair[1]}&run={other}")
    assert re.search(r'data-verdict="unsure".*?Nothing was compared', page, re.DOTALL)


def test_scores_can_be_bounded_in_the_address(tenant: Tenant, pair: tuple[str, str]):
    both = f"/compare?run={pair[0]}&run={pair[1]}"
    assert tasks_in(shown(tenant, f"{both}&before_least=0.5&after_most=0.5")) == ["a"]
    page = shown(tenant, f"{both}&after_least=0.5")
    assert tasks_in(page) == []
    assert "No task within these thresholds" in page
    assert "Still failing" not in counted(page)


def test_both_answers_are_shown_word_by_word(tenant: Tenant, pair: tuple[str, str]):
    part = shown(tenant, f"/compare/task?run={pair[0]}&run={pair[1]}&task=a")
    assert "shipped on <del>Monday</del>" in part
    assert "shipped on <ins>Friday</ins>" in part
    assert "It is lost." in part, "what was expected"
    assert "First divergence: step 2" in part
    page = shown(tenant, f"/compare?run={pair[0]}&run={pair[1]}")
    address = f"/compare/task?baseline={pair[0]}&amp;new={pair[1]}&amp;task=a"
    assert f'<noscript><a class="link" href="{address}"' in page, "without a script"


def test_the_portable_report_can_be_downloaded(tenant: Tenant, pair: tuple[str, str]):
    visitor = tenant.visitor
    headers = {"Cookie": "; ".join(f"{k}={v}" for k, v in visitor.cookies.items())}
    import http.client

    connection = http.client.HTTPConnection(*visitor.address, timeout=240)
    connection.request("GET", f"/compare/report.zip?run={pair[0]}&run={pair[1]}", None, headers)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    assert response.status == 200
    assert "attachment" in (response.getheader("Content-Disposition") or "")
    assert {"report.html", "compare-report.json"} <= set(
        zipfile.ZipFile(io.BytesIO(content)).namelist()
    )
    assert visitor.get(f"/compare/report.zip?run={pair[0]}").status == 400


def test_three_runs_are_a_matrix_of_their_answers(tenant: Tenant, pair: tuple[str, str]):
    third = tenant.keep("third", {name: Told("x", ok()) for name in "abcde"})
    runs = f"run={pair[0]}&run={pair[1]}&run={third}"
    answer = tenant.visitor.get(f"/compare?{runs}")
    assert (answer.status, answer.location) == (303, f"/matrix?{runs}")
    page = shown(tenant, answer.location)
    assert counted(page) == {
        "Runs disagree": "3",
        "All tasks": "5",
        "None passes": "0",
        "With findings": "0",
    }
    assert rows_in(page) == ["a", "c", "d"]
    assert page.count('<td role="cell" data-cell=') == 9
    assert f'href="/runs/{third}/tasks/a"' in page
    assert "shipped on Monday" in page


def test_runs_can_be_chosen_and_the_oldest_is_the_baseline(tenant: Tenant, pair: tuple[str, str]):
    page = shown(tenant, f"/compare?run={pair[1]}")
    assert f'value="{pair[1]}" checked>' in page
    assert f'value="{pair[0]}">' in page
    newer = tenant.keep("newer", {"a": Told("x", ok())}, version="3.0.0")
    assert f'value="{newer}">' in shown(tenant, f"/compare?run={pair[1]}"), "another version"
    assert shown(tenant, "/compare").count("checkbox") >= 2
    answer = tenant.visitor.get(f"/compare?oldest_first=1&run={pair[1]}&run={pair[0]}")
    assert (answer.status, answer.location) == (
        303,
        f"/compare?baseline={pair[0]}&new={pair[1]}",
    )
    assert tenant.visitor.get("/compare?run=unknown&run=nothing").status == 404


def test_repeats_show_which_changes_are_flaky_and_decide_together(lasting: ServedHost):
    tenant, runs = a_tenant(lasting), []
    for side in ("old", "new"):
        for number in (1, 2):
            passes = side == "old" and number == 1
            group = Group(f"{side}-{tenant.name}", number, 2)
            tasks = {"a": Told("x", ok() if passes else bad())}
            runs.append(tenant.keep(f"{side}-{number}", tasks, group=group))
    page = shown(tenant, f"/compare?run={runs[0]}&run={runs[2]}")
    assert '<span class="badge warn">flaky</span>' in page
    assert 'aria-label="1 of 2 passed"' in page
    assert "All repeats together (2 and 2): Within chance: 1 of 2 → 0 of 2 passed" in page
    assert "These two runs alone: Within chance: 1 of 1 → 0 of 1 passed" in page
    assert "All repeats" not in shown(tenant, f"/compare?run={runs[0]}&run={runs[1]}"), "of one"


def test_several_runs_show_first_where_they_disagree_and_who_stands_alone(lasting: ServedHost):
    tenant = a_tenant(lasting)
    outcomes = ({"a": False, "b": True, "c": True}, {"a": True, "b": True, "c": True})
    outcomes += ({"a": True, "b": False, "c": True},)
    runs = [
        tenant.keep(
            f"r{n}", {name: Told("x", ok() if right else bad()) for name, right in of.items()}
        )
        for n, of in enumerate(outcomes)
    ]
    address = "/matrix?" + "&".join(f"run={run}" for run in runs)
    page = shown(tenant, address)
    assert rows_in(page) == ["a", "b"]
    assert page.count(' class="odd"') == 2, "the run that alone fails a task"
    assert len(re.findall(r"Only [^<]* fails</b>", page)) == 2
    assert rows_in(shown(tenant, f"{address}&show=all")) == ["a", "b", "c"]
    assert "No task fits these filters" in shown(tenant, f"{address}&show=none")
    assert tenant.visitor.get("/matrix?" + 9 * f"run={runs[0]}&").status == 400
    assert tenant.visitor.get(f"/matrix?run={runs[0]}&run=unknown").status == 404


def test_scores_that_fell_beyond_chance_are_no_good_news_even_if_every_task_passes(
    tenant: Tenant,
):
    before, after = (
        tenant.keep(
            name,
            {f"t{n}": Told("x", ok(), score=score) for n in range(12)},
        )
        for name, score in (("high", 0.9), ("low", 0.8))
    )
    page = shown(tenant, f"/compare?run={before}&run={after}&wait=1")
    assert 'data-verdict="unsure"' in page
    assert "No task got worse, but the score fell (p &lt; 0.001)." in page
    assert "No verdict changed: 12 of 12 passed on both sides." in page
    back = shown(tenant, f"/compare?run={after}&run={before}&wait=1")
    assert 'data-verdict="pass"' in back


def test_a_run_that_goes_on_is_compared_as_far_as_it_is(tenant: Tenant, pair: tuple[str, str]):
    running = tenant.keep("running", {"a": Told("x", ok())}, is_open=True)
    page = shown(tenant, f"/compare?run={pair[0]}&run={running}")
    assert "told of runs that have ended" in page
    assert "The new run is not ended" in page


def test_the_page_of_large_runs_comes_first_then_its_tasks_then_their_causes(
    lasting: ServedHost, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recent_runs, "LIGHT", 5)
    tenant = a_tenant(lasting)
    runs = [tenant.keep("r1", {"a": Told("x", ok())}), tenant.keep("r2", {"a": Told("x", bad())})]
    address = f"/compare?run={runs[0]}&run={runs[1]}"
    page = shown(tenant, address)
    assert 'aria-busy="true"' in page
    assert "score 1" in page
    assert "The baseline is" in page
    assert tasks_in(page) == []
    assert f'<a href="{address.replace("&", "&amp;")}&amp;wait=1"' in page  # without a script
    tasks = tenant.visitor.get(f"{address}&soon=1", HX_Request="true").text
    assert tasks_in(tasks) == ["a"]
    assert "<main" not in tasks
    whole = tenant.visitor.get(address, HX_Request="true").text
    assert "Gated" in whole
    assert 'aria-busy="true"' not in whole


def test_the_page_asks_how_far_the_search_for_causes_is(
    tenant: Tenant, pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    runs = pair
    query = f"run={runs[0]}&run={runs[1]}"
    assert "tasks" not in shown(tenant, f"/compare/progress?{query}"), "nobody is at it"
    (tmp_path / "progress.txt").write_text("1500 100000")
    known = {(tenant.name, *runs): tmp_path / "progress.txt"}
    views = SimpleNamespace(compared_so_far=known)
    monkeypatch.setattr(compare_page, "views_of", lambda _host: views)
    assert "1,500 of 100,000 tasks" in shown(tenant, f"/compare/progress?{query}")


def test_without_a_script_everything_comes_on_one_page(
    lasting: ServedHost, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recent_runs, "LIGHT", 5)
    tenant = a_tenant(lasting)
    runs = [tenant.keep("r1", {"a": Told("x", ok())}), tenant.keep("r2", {"a": Told("x", bad())})]
    page = shown(tenant, f"/compare?run={runs[0]}&run={runs[1]}&wait=1")
    assert tasks_in(page) == ["a"]
    assert "Gated" in page
    for path in (f"/review?run={runs[1]}", f"/trends?agent={AGENT_ID}", "/signals"):
        assert 'aria-busy="true"' not in shown(tenant, f"{path}{'&' if '?' in path else '?'}wait=1")


def test_nothing_that_agents_said_becomes_markup(lasting: ServedHost):
    tenant = a_tenant(lasting)
    told = {"more": a_trace(EVIL, EVIL), "question": EVIL}
    old = tenant.keep("old", {"a": Told(EVIL, ok(), **told)})
    new = tenant.keep("new", {"a": Told(EVIL[::-1], bad(EVIL, EVIL, reason=EVIL), **told)})
    for path in (
        f"/compare?run={old}&run={new}",
        f"/compare/task?run={old}&run={new}&task=a",
        f"/matrix?run={old}&run={new}",
    ):
        page = shown(tenant, path).replace('<img src="/static/', "")
        assert "<script>window" not in page
        assert "<img" not in page
        assert "<iframe" not in page
