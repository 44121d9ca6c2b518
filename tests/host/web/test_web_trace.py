"""The trace of a task in the browser: steps with links, in parts; payloads when they are opened."""

import re

import pytest

from builders import AGENT_ID, a_usage
from evalwright.contracts.events import Payload, Reasoned, ToolCalled, ToolReturned
from evalwright.host.web import run_views
from host.server import ServedHost
from host.web.recorded import Tenant, a_tenant
from reports.run.page_samples import Told, a_trace, bad, ok

TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture
def tenant(lasting: ServedHost) -> Tenant:
    return a_tenant(lasting)


def calls(count: int, text: str = "x") -> list[Payload]:
    return [
        each
        for n in range(count)
        for each in (
            ToolCalled(AGENT_ID, "shop:get", f"c{n}", {"n": n, "text": text}),
            ToolReturned(AGENT_ID, "shop:get", f"c{n}", {"state": text}, duration_ms=3),
        )
    ]


def shown(tenant: Tenant, path: str, **headers: str) -> str:
    answer = tenant.visitor.get(path, **headers)
    assert answer.status == 200, answer.text
    return answer.text


def test_a_call_is_shown_with_its_result_time_tokens_and_cost(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok(), more=[a_usage(0.25), *calls(1, "A-17")])})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    assert "<b>calls</b> <code>shop:get</code>" in page
    assert "Came back" in page
    assert '"state": "A-17"' in page
    assert "100 tokens in, 20 out" in page
    assert "$0.25" in page
    assert "3 ms" in page
    assert "tool calls: recorded · model usage: recorded · messages: not observed" in page


def test_every_step_has_a_link_of_its_own(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok(), more=calls(2))})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    steps = re.findall(r'<li data-step[^>]* id="(s\d+)"', page)
    links = re.findall(r'class="when" href="([^"]*)"', page)
    address = f"/runs/{run}/tasks/a"
    assert links == [f"{address}#{step}" for step in steps]
    assert len(steps) == 6


def test_reasoning_is_folded_and_a_long_payload_comes_when_it_is_opened(tenant: Tenant):
    more = [Reasoned(AGENT_ID, "short thought"), *calls(1, "long " * 1000)]
    run = tenant.keep("run", {"a": Told("yes", ok(), more=more)})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    assert re.search(r"<details><summary>Show</summary><pre[^>]*>short thought", page)
    assert page.count("long ") < 200
    (href,) = set(re.findall(r'hx-get="([^"]*steps[^"]*)"', page))
    whole = shown(tenant, href)
    assert whole.count("long ") == 2000
    assert f'<noscript><a href="{href}">Show all of it</a></noscript>' in page
    assert tenant.visitor.get(f"/runs/{run}/tasks/a/steps/99").status == 404
    assert tenant.visitor.get(f"/runs/{run}/tasks/a/steps/x").status == 404


def test_a_long_trace_comes_in_parts_and_a_link_leads_to_the_right_one(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok(), more=calls(200))})
    address = f"/runs/{run}/tasks/a"
    page = shown(tenant, address)
    assert page.count("<li data-step") == 80
    assert "124 more steps" in page
    part = shown(tenant, f"{address}?view=timeline&from=160", HX_Request="true")
    assert part.count("<li data-step") == 44
    assert "more steps" not in part
    assert 'id="s300"' not in page
    linked = shown(tenant, f"{address}?step=300")
    assert 'id="s300"' in linked
    assert "Earlier steps" in linked


def test_the_tree_shows_each_step_on_a_bar_of_its_time(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok(), more=calls(3))})
    page = shown(tenant, f"/runs/{run}/tasks/a?view=waterfall")
    assert page.count('<svg class="fall"') == 7
    assert 'class="step d0 is-invocation"' in page
    assert page.count('class="step d1 is-call"') == 3
    assert "style=" not in page


def test_keys_lead_to_the_tasks_beside_and_to_the_next_failure(tenant: Tenant):
    tasks = {name: Told("x", bad() if name in "bd" else ok()) for name in "abcd"}
    run = tenant.keep("run", tasks)
    page = shown(tenant, f"/runs/{run}/tasks/b")
    found = dict(re.findall(r'data-key="(\w)" href="([^"]*)"', page))
    assert {key: href.rpartition("/")[2] for key, href in found.items()} == {
        "k": "a",
        "j": "c",
        "f": "d",
    }
    assert "Task 2 of 4" in page


def test_the_tasks_beside_one_of_a_large_run_follow_its_page(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_views, "FEW_EVENTS", 5)
    run = tenant.keep("run", {name: Told("said", bad()) for name in "abc"})
    address = f"/runs/{run}/tasks/b"
    page = shown(tenant, address)
    assert f'hx-get="{address}?beside=1"' in page
    assert "data-key" not in page
    assert "said" in page
    assert "Task 2 of 3" in shown(tenant, f"{address}?wait=1")
    beside = shown(tenant, f"{address}?beside=1", HX_Request="true")
    assert "<main" not in beside
    assert re.findall(r'data-key="(\w)" href="([^"]*)"', beside) == [
        (key, f"/runs/{run}/tasks/{name}") for key, name in (("k", "a"), ("j", "c"), ("f", "c"))
    ]
    assert "Task 2 of 3" in shown(tenant, address), "now it is known"
    assert tenant.visitor.get(f"/runs/{run}/tasks/d?beside=1").status == 404


def test_secrets_are_masked_in_steps_payloads_and_results(tenant: Tenant):
    more = calls(1, f"key {TOKEN} " + "x" * 500) + a_trace("A-17", name=f"shop:{TOKEN}")
    run = tenant.keep("run", {"a": Told(f"it is {TOKEN}", bad(actual=TOKEN), more=more)})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    assert TOKEN not in page
    for step in re.findall(r"id=\"s(\d+)\"", page):
        assert TOKEN not in shown(tenant, f"/runs/{run}/tasks/a/steps/{step}")
    assert TOKEN not in shown(tenant, f"/runs/{run}/tasks/a?view=waterfall")


def test_the_tree_says_what_can_be_folded_and_gives_a_part_up_to_a_place(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok(), more=calls(200))})
    address = f"/runs/{run}/tasks/a?view=waterfall"
    page = shown(tenant, address)
    (fold,) = re.findall(r'<button [^>]*class="fold"[^>]*>', page)
    assert 'aria-expanded="true"' in fold
    assert 'aria-label="201 steps within"' in fold
    assert 'data-until="202"' in fold
    assert re.findall(r'data-place="(\d+)"', page) == [str(n) for n in range(121)]
    assert 'class="fold"' not in shown(tenant, f"/runs/{run}/tasks/a"), "only in the tree"

    part = shown(tenant, f"{address}&from=10&to=14", HX_Request="true")
    assert part.count("<li data-step") == 4
    assert "data-more" not in part
    part = shown(tenant, f"{address}&from=10&to=150", HX_Request="true")
    assert part.count("<li data-step") == 120
    assert "to=150" in part
    assert "20 more steps" in part
    assert shown(tenant, f"{address}&from=10&to=-4", HX_Request="true").strip() == ""
