"""Ten jobs that people come for, walked in a browser with their clicks counted from home."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import Visit
from evalwright.contracts.events import Found, Payload, Planned, RunCompleted, RunStarted
from evalwright.contracts.run_plan import AgentFacts
from evalwright.contracts.summary import SafetyFinding
from evalwright.engine.baselines import set_baseline
from host.server import ServedHost, running_host
from host.web.recorded import Tenant, a_tenant, entries_of, write
from reports.run.page_samples import Told, bad, ok

MOST_CLICKS = 3  # from home to the answer that failed, with its cause
CAUSE = "the word is missing"
KEY = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


class Shop(NamedTuple):
    """A host with a good run, a worse one, and one with a finding."""

    host: ServedHost
    tenant: Tenant
    good: str
    worse: str


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with running_host(tmp_path_factory.mktemp("jobs") / "host.db") as host:
        tenant = a_tenant(host)
        told = {each: Told(f"right {each}", ok()) for each in ("bill", "order", "refund", "stock")}
        leak = SafetyFinding("secret_in_output", "critical")
        said = Told(f"Your key is {KEY}.", ok(), more=[Found("signals", [leak])])
        write(tenant.log, f"leaks-{tenant.name}", summed(entries_of({"key": said}), leak), 900)
        good = tenant.keep("good", told, ago_s=600)
        set_baseline(tenant.log, "main", good, allow_partial=False)
        failed = {each: Told(f"wrong {each}", bad(reason=CAUSE)) for each in ("order", "refund")}
        dear, cheap = by_another(entries_of(told)), entries_of(told | failed)
        write(tenant.log, f"b-{tenant.name}", summed(dear, total_cost_usd=0.48), 300)
        worse = f"worse-{tenant.name}"
        write(tenant.log, worse, summed(cheap, total_cost_usd=0.16), 60)
        yield Shop(host, tenant, good, worse)


def summed(
    entries: list[tuple[str | None, Payload]], leak: SafetyFinding | None = None, **figures: float
) -> list[tuple[str | None, Payload]]:
    """The same run, with what it cost and what was found in its summary."""
    *others, (_, ended) = entries
    assert isinstance(ended, RunCompleted)
    assert ended.outputs is not None
    summary = ended.outputs["evalSummary"]
    if leak is not None:
        tasks = [msgspec.structs.replace(each, safety_findings=[leak]) for each in summary.tasks]
        summary = msgspec.structs.replace(summary, tasks=tasks)
    summary = msgspec.structs.replace(summary, **figures)
    return [*others, (None, msgspec.structs.replace(ended, outputs={"evalSummary": summary}))]


def by_another(entries: list[tuple[str | None, Payload]]) -> list[tuple[str | None, Payload]]:
    """The same run by another agent."""
    agent = "acme.shop.model-b"

    def of_it(payload: Payload) -> Payload:
        if isinstance(payload, RunStarted):
            inputs = {**(payload.inputs or {}), "agentId": agent}
            return msgspec.structs.replace(payload, inputs=inputs)
        if isinstance(payload, Planned):
            return msgspec.structs.replace(payload, agent=AgentFacts(agent, "agent.py:b"))
        return payload

    return [(task_id, of_it(payload)) for task_id, payload in entries]


class Walker:
    """Somebody at the pages who counts what was clicked, ticked or typed."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.clicks = 0
        page.goto(url)

    def click(self, what: Locator) -> None:
        """Click once."""
        self.clicks += 1
        what.click()

    def visit(self, name: str) -> None:
        """Click an entry of the navigation."""
        pages = self.page.get_by_label("Pages", exact=True)
        self.click(pages.get_by_role("link", name=re.compile(f"^{name}")))

    def type(self, what: Locator, text: str) -> None:
        """Type and press Enter: one step."""
        self.clicks += 1
        what.fill(text)
        what.press("Enter")

    def run(self, run_id: str) -> Locator:
        """The row of a run in the list."""
        href = f'a[href="/runs/{run_id}"]'
        return self.page.locator("tr[data-run]").filter(has=self.page.locator(href))


@pytest.fixture
def walker(visit: Visit, shop: Shop) -> Iterator[Walker]:
    cookies = shop.tenant.visitor.cookies.items()
    visit.context.add_cookies(
        [{"name": name, "value": value, "url": shop.host.url} for name, value in cookies]
    )
    walker = Walker(visit.page, shop.host.url)
    yield walker
    assert (visit.errors, visit.dialogs) == ([], [])
    assert walker.clicks <= MOST_CLICKS


def open_the_worse_run(walker: Walker, shop: Shop) -> None:
    walker.visit("Runs")
    walker.click(walker.run(shop.worse).locator(".reach"))
    expect(walker.page.locator("[data-verdict=fail]")).to_be_visible()


def test_which_tasks_broke_and_why(walker: Walker, shop: Shop):
    walker.click(walker.page.get_by_role("link", name="See what broke").first)
    changes = walker.page.locator("details.change[data-task]")
    expect(changes).to_have_count(2)
    walker.click(changes.first.locator("summary"))
    expect(changes.first).to_contain_text("wrong order")
    expect(changes.first).to_contain_text(CAUSE)


def test_is_model_b_worth_its_price(walker: Walker):
    walker.visit("Runs")
    walker.click(walker.page.get_by_role("link", name="Matrix of 2 agents"))
    expect(walker.page.locator("table[data-table=matrix]")).to_be_visible()
    order = walker.page.locator('tr[data-task="order"] td[data-cell]')
    expect(order).to_have_count(2)
    expect(order.filter(has_text="wrong order")).to_have_count(1)
    expect(order.filter(has_text="right order")).to_have_count(1)
    verdict = walker.page.locator("[data-verdict]")
    expect(verdict).to_contain_text("passes 2 tasks more")
    expect(verdict).to_contain_text("which chance may explain")
    expect(verdict).to_contain_text("3.0 times the price")


def test_find_the_answer_that_leaked_a_key(walker: Walker):
    walker.visit("Signals")
    finding = walker.page.locator("details[data-signal=critical]")
    walker.click(finding.first.locator("summary"))
    walker.click(finding.first.get_by_role("link").first)
    answer = walker.page.locator("[data-step]").filter(has_text="Your key is")
    expect(answer.locator(".finding")).to_contain_text("Secret in the output")
    expect(answer).not_to_contain_text(KEY)


def test_review_a_task(walker: Walker):
    walker.visit("Review")
    walker.click(walker.page.get_by_role("button", name="Review the next task"))
    expect(walker.page.get_by_text("Is the answer right?")).to_be_visible()
    walker.page.keyboard.press("y")
    expect(walker.page.get_by_role("radio", name="Right")).to_be_checked()
    walker.page.keyboard.press("s")
    walker.page.wait_for_url("**/refund")


def test_start_a_run(walker: Walker):
    walker.click(walker.page.get_by_role("link", name="Start a run").first)
    expect(walker.page.get_by_role("heading", level=1)).to_have_text("Start a run")


def test_find_a_run_by_its_number(walker: Walker, shop: Shop):
    number = shop.tenant.log.facts(shop.good).number
    walker.type(walker.page.get_by_label("Search runs and tasks"), str(number))
    walker.click(walker.run(shop.good).locator(".reach"))
    expect(walker.page.locator("[data-verdict=pass]")).to_be_visible()


def test_compare_a_run_with_its_baseline(walker: Walker, shop: Shop):
    open_the_worse_run(walker, shop)
    walker.click(walker.page.get_by_role("link", name="Compare with the baseline"))
    expect(walker.page.locator("details.change[data-task]")).to_have_count(2)


def test_see_what_broke_and_what_never_failed_in_a_suite(walker: Walker):
    walker.visit("Suites")
    walker.click(walker.page.locator("[data-table=suites] .reach").first)
    expect(walker.page.locator("[data-chips]").first).to_be_visible()
    walker.click(walker.page.locator("[data-chip]").filter(has_text="Never failed"))
    expect(walker.page.locator("[data-chip][aria-current=true]")).to_contain_text("Never failed")


def test_filter_the_tasks_of_a_run_by_a_check(walker: Walker, shop: Shop):
    open_the_worse_run(walker, shop)
    walker.click(walker.page.locator('[data-chips="check"] [data-chip]').first)
    expect(walker.page.locator('[data-chips="check"] [aria-current="true"]')).to_be_visible()
    expect(walker.page.locator("tr[data-task]:not([data-failed])")).to_have_count(0)


def test_the_next_failure_is_one_key_away(walker: Walker, shop: Shop):
    open_the_worse_run(walker, shop)
    task = "document.activeElement.closest('tr')?.dataset.task"
    for expected in ("order", "refund"):
        walker.page.keyboard.press("f")
        assert walker.page.evaluate(task) == expected
    walker.page.keyboard.press("Enter")
    expect(walker.page.locator("aside[data-drawer]")).to_contain_text(CAUSE)
