"""The page of one run in a real browser: open, search, filter, keyboard, small and dark screens."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.test_browser_access import DARK, LOW_CONTRAST, PHONE
from reports.run.page_samples import Told, a_page, a_trace, bad, many, ok
from reports.run.test_run_page import hostile_page


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "run.html"
    path.write_bytes(a_page(many(1_000)))
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    long_word = "x" * 400
    tasks = {
        "wrong": Told(long_word, ok(), bad(actual=long_word), more=a_trace(long_word)),
        "fine": Told("ok", ok()),
    }
    path = tmp_path_factory.mktemp("small") / "run.html"
    path.write_bytes(a_page(tasks, reasons=["too low"]))
    return path


def wait_for_count(page: Page, words: str) -> None:
    page.wait_for_function(
        "words => document.getElementById('count').textContent.includes(words)", arg=words
    )


def test_a_task_that_is_not_in_the_page_is_found_and_opened(visit, large):
    page = visit.open(large)
    assert page.locator("#list > details").count() == 100
    page.fill("input[name=q]", "answer 777 is")
    wait_for_count(page, "1 task that matches, of 1,000")
    page.wait_for_selector("#list .inside dl")
    expect(page.locator("#list")).to_contain_text("answer 777 is shipped")
    assert visit.errors == []
    assert visit.foreign_requests == []


def test_filters_narrow_each_other_and_are_kept_in_the_address(visit, large):
    page = visit.open(large)
    page.select_option("select[name=result]", "failed")
    wait_for_count(page, "100 tasks that match")
    page.select_option("select[name=tag]", "even")
    page.select_option("select[name=check]", "equals")
    wait_for_count(page, "100 tasks that match")
    expect(page).to_have_url(re.compile("result=failed.*check=equals"))
    page.reload()
    wait_for_count(page, "100 tasks that match")
    page.click("button[type=reset]")
    wait_for_count(page, "100 tasks did not pass, of 1,000")


def test_pages_and_tasks_can_be_reached_with_the_keyboard(visit, large):
    page = visit.open(large)
    page.select_option("select[name=result]", "passed")
    wait_for_count(page, "1\u2013100 of 900")
    page.focus("#next")
    page.keyboard.press("Enter")
    wait_for_count(page, "101\u2013200 of 900")
    page.focus("#list summary")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("#list > details:nth-child(2)[open] .inside dl")
    page.keyboard.press("k")
    expect(page.locator("#list > details:first-child > summary")).to_be_focused()


@pytest.mark.parametrize("visit", [PHONE], indirect=True, ids=["phone"])
def test_nothing_is_cut_on_a_phone(visit, small):
    page = visit.open(small)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth).length"
    assert page.locator("main pre, main summary, main dd").evaluate_all(cut) == 0


@pytest.mark.parametrize("visit", [{}, DARK], indirect=True, ids=["light", "dark"])
def test_what_is_shown_has_enough_contrast(visit, small):
    page = visit.open(small)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate(LOW_CONTRAST) == []


@pytest.mark.parametrize("visit", [{"java_script_enabled": False}], indirect=True)
def test_without_javascript_failures_can_be_read_and_it_says_where_the_rest_is(visit, large):
    page = visit.open(large)
    assert page.locator("#list > details").count() == 100
    assert page.locator("#list mark").count() > 2
    assert "evalwright show" in page.inner_text("noscript")
    assert page.locator("table[data-table=passed] tbody tr").count() == 100
    assert not page.is_visible("#filters")


def test_hostile_content_runs_nothing_and_asks_for_nothing(visit, tmp_path):
    (tmp_path / "run.html").write_bytes(hostile_page())
    page = visit.open(tmp_path / "run.html")
    page.fill("input[name=q]", "where is it?")
    wait_for_count(page, "1 task that matches, of 2")  # it was looked for in everything
    page.fill("input[name=q]", "script")
    expect(page.locator("#count")).to_have_text("2 tasks")
    page.evaluate("document.querySelectorAll('#list > details').forEach(each => each.open = true)")
    page.wait_for_selector("#list > details:last-child .inside dl")
    assert page.evaluate("window.__pwned") is None
    assert page.locator("main img, main iframe, main script").count() == 0
    assert (visit.dialogs, visit.errors, visit.foreign_requests) == ([], [], [])
