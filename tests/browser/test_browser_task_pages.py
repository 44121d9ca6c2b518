"""Scorecard, trace and comparison in a real browser: keys, long traces, phones, hostile content."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from browser.conftest import Visit
from browser.test_browser_axe import WIDE
from builders import AGENT_ID
from evalwright.contracts.events import Payload, Reasoned, ToolCalled, ToolReturned
from evalwright.contracts.run_plan import Group
from host.server import running_host
from host.web.recorded import HOSTILE_TEXT, Tenant, a_tenant
from reports.run.page_samples import Told, a_trace, bad, ok

SERIOUS = ("serious", "critical")
LIGHT = {"reduced_motion": "reduce"}
DARK_PHONE = {
    "viewport": {"width": 360, "height": 780},
    "color_scheme": "dark",
    "reduced_motion": "reduce",
}
STEPS = 10_000


class Kept(NamedTuple):
    """A host with runs, and somebody who may read them."""

    url: str
    tenant: Tenant
    old: str
    new: str
    long: str


def many_calls(count: int) -> list[Payload]:
    return [
        each
        for n in range(count // 4)
        for each in (
            Reasoned(AGENT_ID, f"thought {n} " * (60 if n % 3 == 0 else 1)),
            ToolCalled(AGENT_ID, "shop:get", f"c{n}", {"n": n, "text": "word " * (n % 200)}),
            ToolReturned(AGENT_ID, "shop:get", f"c{n}", {"state": f"state {n}"}, duration_ms=3),
            Reasoned(AGENT_ID, "and on"),
        )
    ]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    with running_host(tmp_path_factory.mktemp("host") / "host.db") as host:
        tenant = a_tenant(host)
        evil = {"more": a_trace(HOSTILE_TEXT, HOSTILE_TEXT), "question": HOSTILE_TEXT}
        runs = []
        for name, failing in (("old", "b"), ("new", "bd")):
            tasks = {
                each: Told(
                    f"{HOSTILE_TEXT} {name}",
                    bad(HOSTILE_TEXT, HOSTILE_TEXT, reason=HOSTILE_TEXT)
                    if each in failing
                    else ok(HOSTILE_TEXT, HOSTILE_TEXT),
                    **evil,
                )
                for each in "abcde"
            }
            group = Group(f"{name}-{tenant.name}", 1, 2)
            runs.append(tenant.keep(name, tasks, group=group))
            tenant.keep(f"{name}-again", tasks, group=Group(f"{name}-{tenant.name}", 2, 2))
        long = tenant.keep("long", {"deep": Told("done", ok(), more=many_calls(STEPS))})
        yield Kept(host.url, tenant, *runs, long)


def opened(visit: Visit, kept: Kept, path: str) -> Page:
    """A page for somebody who is signed in."""
    cookies = kept.tenant.visitor.cookies
    visit.context.add_cookies(
        [{"name": name, "value": value, "url": kept.url} for name, value in cookies.items()]
    )
    visit.page.goto(kept.url + path)
    return visit.page


def all_pages(kept: Kept) -> list[str]:
    return [
        f"/runs/{kept.new}",
        f"/runs/{kept.new}/tasks/b",
        f"/runs/{kept.new}?task=b",
        f"/compare?baseline={kept.old}&new={kept.new}",
        f"/matrix?run={kept.old}&run={kept.new}&run={kept.long}",
        f"/compare?run={kept.new}",
    ]


@pytest.mark.parametrize("visit", [LIGHT, DARK_PHONE], indirect=True, ids=["desk", "phone"])
def test_pages_are_accessible_fit_a_phone_and_run_nothing_that_agents_said(
    visit: Visit, kept: Kept
):
    for path in all_pages(kept):
        page = opened(visit, kept, path)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        page.wait_for_load_state("networkidle")
        found = Axe().run(page).response["violations"]
        assert [each["id"] for each in found if each["impact"] in SERIOUS] == [], path
        assert (path, page.evaluate(WIDE)) == (path, [])
        assert page.evaluate("window.__pwned") is None
    assert visit.dialogs == []
    assert visit.errors == []
    assert [url for url in visit.requests if not url.startswith(kept.url)] == []


@pytest.mark.parametrize("visit", [LIGHT], indirect=True)
def test_keys_lead_through_tasks_failures_and_steps(visit: Visit, kept: Kept):
    page = opened(visit, kept, f"/runs/{kept.new}")
    focus = "document.activeElement.closest('tr').dataset.task"

    def arrive(task: str) -> None:
        """Keys are heard once the page is loaded, and lead on once it knows the other tasks."""
        page.wait_for_url(f"{kept.url}/runs/{kept.new}/tasks/{task}")
        expect(page.locator("[data-key=k]")).to_be_attached()

    for key, name in (("j", "b"), ("j", "d"), ("j", "a"), ("k", "d"), ("k", "b"), ("f", "d")):
        page.keyboard.press(key)
        assert page.evaluate(focus) == name
    page.keyboard.press("Enter")
    drawer = page.locator("aside[data-drawer]")
    expect(drawer).to_be_visible()
    expect(page.locator('tr[data-task="d"]')).to_have_attribute("aria-current", "true")
    expect(page).to_have_url(re.compile(r"task=d$"))
    page.keyboard.press("j")
    expect(page.locator('tr[data-task="a"]')).to_have_attribute("aria-current", "true")
    assert page.evaluate(focus) == "a", "the focus stays in the table"
    page.keyboard.press("k")
    expect(page.locator('tr[data-task="d"]')).to_have_attribute("aria-current", "true")
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    assert page.evaluate(focus) == "d"
    page.keyboard.press("Enter")
    expect(drawer).to_be_visible()
    page.keyboard.press("o")
    arrive("d")
    page.keyboard.press("n")
    page.keyboard.press("n")
    step = "document.activeElement.closest('.talk > li').id"
    second = page.evaluate(step)
    page.keyboard.press("p")
    page.keyboard.press("n")
    assert page.evaluate(step) == second
    link = f"{kept.url}/runs/{kept.new}/tasks/d#{second}"
    expect(page).to_have_url(link)
    page.goto("about:blank")
    page.goto(link)
    page.keyboard.press("p")
    page.keyboard.press("n")
    expect(page).to_have_url(link)
    page.keyboard.press("k")
    arrive("c")
    page.keyboard.press("f")
    arrive("d")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()


@pytest.mark.parametrize("visit", [LIGHT], indirect=True)
def test_a_trace_of_ten_thousand_events_scrolls_and_a_link_finds_its_step(visit: Visit, kept: Kept):
    page = opened(visit, kept, f"/runs/{kept.long}/tasks/deep")
    steps = page.locator("[data-step]")
    expect(steps).to_have_count(60)
    page.locator("[data-more]").scroll_into_view_if_needed()
    expect(steps.nth(100)).to_be_attached()
    folded = page.locator("details.call", has_text="shop:get").first
    expect(folded.locator("pre").first).to_be_hidden()
    folded.locator("summary").click()
    expect(folded).to_contain_text("Returned")
    expect(folded.locator("pre").last).to_be_visible()

    page = opened(visit, kept, f"/runs/{kept.long}/tasks/deep#s9000")
    expect(page.locator("#s9000")).to_be_in_viewport()
    assert visit.errors == []


@pytest.mark.parametrize("visit", [LIGHT], indirect=True)
def test_the_waterfall_leads_to_a_step_also_to_one_that_has_not_come_yet(visit: Visit, kept: Kept):
    page = opened(visit, kept, f"/runs/{kept.new}/tasks/b")
    bar = page.locator(".fall a").first
    bar.click()
    step = page.locator(bar.get_attribute("href") or "")
    expect(step).to_be_in_viewport()

    page = opened(visit, kept, f"/runs/{kept.long}/tasks/deep")
    assert page.locator("#s5000").count() == 0, "what is far away is not loaded"
    page.evaluate("location.hash = 's5000'")
    expect(page.locator("#s5000")).to_be_in_viewport()
    assert page.locator("[data-step]").count() < 250
    page.get_by_role("link", name="Earlier steps").click()
    expect(page).to_have_url(re.compile(r"from=\d+$"))
    expect(page.locator("[data-step]").first).to_be_visible()
    assert visit.errors == []


@pytest.mark.parametrize("visit", [LIGHT], indirect=True)
def test_a_comparison_opens_on_what_got_worse_and_brings_the_rest_when_asked(
    visit: Visit, kept: Kept
):
    page = opened(visit, kept, f"/compare?baseline={kept.old}&new={kept.new}")
    rows = page.locator("details.change[data-task]")
    expect(rows).to_have_count(1)
    expect(rows).to_have_attribute("data-task", "d")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(rows.locator(".versus")).to_contain_text("old")
    page.locator('[data-chip="unchanged"]').click()
    expect(rows).to_have_count(3)
    page.get_by_text("Only tasks with scores between").click()
    page.fill("#after_least", "0.5")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No task within these thresholds")).to_be_visible()
    expect(page).to_have_url(re.compile("after_least=0.5"))
    assert visit.errors == []
