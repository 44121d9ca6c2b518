"""Scorecard, trace and comparison in a real browser: keys, long traces, phones, hostile content."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from browser.conftest import Visit
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
        f"/runs/{kept.new}/tasks/b?view=waterfall",
        f"/compare?run={kept.old}&run={kept.new}",
        f"/compare?run={kept.old}&run={kept.new}&run={kept.long}",
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
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, path
        assert page.evaluate("window.__pwned") is None
    assert visit.dialogs == []
    assert visit.errors == []
    assert [url for url in visit.requests if not url.startswith(kept.url)] == []


@pytest.mark.parametrize("visit", [LIGHT], indirect=True)
def test_keys_lead_through_tasks_failures_and_steps(visit: Visit, kept: Kept):
    page = opened(visit, kept, f"/runs/{kept.new}")
    focus = "document.activeElement.textContent"

    def arrive(task: str) -> None:
        """Keys are heard once the page is loaded, and lead on once it knows the other tasks."""
        page.wait_for_url(f"{kept.url}/runs/{kept.new}/tasks/{task}")
        expect(page.locator("[data-key=k]")).to_be_attached()

    for key, name in (("j", "b"), ("j", "d"), ("j", "a"), ("k", "d"), ("f", "d")):
        page.keyboard.press(key)
        assert page.evaluate(focus) == name
    page.keyboard.press("Enter")
    arrive("d")
    page.keyboard.press("n")
    page.keyboard.press("n")
    second = page.evaluate("document.activeElement.closest('[data-step]').id")
    page.keyboard.press("p")
    page.keyboard.press("n")
    assert page.evaluate("document.activeElement.closest('[data-step]').id") == second
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
    expect(steps).to_have_count(80)
    page.locator("[data-more]").scroll_into_view_if_needed()
    expect(steps.nth(150)).to_be_attached()
    folded = page.locator(".step.is-call details").first
    expect(folded.locator(".payload")).to_be_empty()
    folded.locator("summary").click()
    expect(folded.locator(".payload")).to_contain_text("Came back")

    page = opened(visit, kept, f"/runs/{kept.long}/tasks/deep#s9000")
    expect(page.locator("#s9000")).to_be_in_viewport()
    assert visit.errors == []


@pytest.mark.parametrize("visit", [LIGHT], indirect=True)
def test_the_tree_folds_what_is_within_a_step_also_what_has_not_come_yet(visit: Visit, kept: Kept):
    page = opened(visit, kept, f"/runs/{kept.long}/tasks/deep?view=waterfall")
    shown = page.locator("[data-step]:visible")
    page.get_by_role("button", name="7,501 steps within").click()
    expect(shown).to_have_count(3)
    expect(shown.last.locator("b")).to_have_text("score")
    assert page.locator("[data-step]").count() < 250, "what is folded is not loaded"
    page.keyboard.press("n")
    assert page.evaluate("document.activeElement.closest('[data-step]').id") == (
        shown.nth(1).get_attribute("id")
    ), "keys pass over what is folded"
    page.keyboard.press("p")
    page.keyboard.press("ArrowRight")
    page.locator("[data-more]").scroll_into_view_if_needed()
    expect(page.locator("[data-step]").nth(240)).to_be_attached()
    places = page.evaluate(
        "[...document.querySelectorAll('.trail > li')].map((each) => Number(each.dataset.place))"
    )
    assert places == sorted(set(places)), "each is there once, in its place"
    page.get_by_role("button", name="Fold all", exact=True).click()
    expect(shown).to_have_count(3)
    page.get_by_role("button", name="Unfold all").click()
    expect(shown.nth(100)).to_be_visible()
    assert visit.errors == []


@pytest.mark.parametrize("visit", [LIGHT], indirect=True)
def test_a_comparison_opens_on_what_got_worse_and_brings_the_rest_when_asked(
    visit: Visit, kept: Kept
):
    page = opened(visit, kept, f"/compare?run={kept.old}&run={kept.new}")
    rows = page.locator("[data-task]")
    expect(rows).to_have_count(1)
    expect(page.locator(".tiles")).to_contain_text("Gated")
    page.get_by_text("Answers to d side by side").click()
    expect(page.locator("[data-task] .both")).to_contain_text("old")
    page.get_by_text("Unchanged (3)").click()
    expect(rows).to_have_count(4)
    page.fill("#after_least", "0.5")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No task within these thresholds")).to_be_visible()
    expect(page).to_have_url(re.compile("after_least=0.5"))
    assert visit.errors == []
