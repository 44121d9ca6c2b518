"""The overview in a real browser: filter, search, pages, keyboard, and back again."""

import re

import pytest
from playwright.sync_api import expect

from reports.html.samples import a_case, a_signal, many_rows, write_report


@pytest.fixture
def big_report(tmp_path):
    return write_report(tmp_path, [], many_rows(10_000))


def wait_for_count(page, words: str) -> None:
    page.wait_for_function(
        "words => document.getElementById('count').textContent.includes(words)", arg=words
    )


def test_ten_thousand_cases_open_with_the_first_hundred_only(visit, big_report):
    page = visit.open(big_report)
    assert page.locator("#case-table tbody tr").count() == 100
    expect(page.locator("#count")).to_have_text("1\u2013100 of 10,000 cases")
    assert not [url for url in visit.requests if url.endswith(".js")]


def test_rows_made_by_the_script_equal_those_of_the_page(visit, browser, big_report):
    plain = browser.new_context(java_script_enabled=False)
    still = plain.new_page()
    still.goto(big_report.as_uri())
    rows = "#case-table tbody tr"
    first = [row.inner_text() for row in still.locator(rows).all()[:20]]
    page = visit.open(big_report)
    page.fill("input[name=q]", "Title")
    wait_for_count(page, "of 10,000 cases")
    assert [row.inner_text() for row in page.locator(rows).all()[:20]] == first
    shape = "all => all.slice(0, 20).map(row => row.outerHTML.replaceAll('&nbsp;', ' '))"
    assert page.locator(rows).evaluate_all(shape) == still.locator(rows).evaluate_all(shape)
    plain.close()


def test_a_search_finds_a_case_that_is_not_in_the_page(visit, big_report):
    page = visit.open(big_report)
    page.fill("input[name=q]", "CASE_09999")
    wait_for_count(page, "1 case that matches, of 10,000")
    expect(page.locator("#case-table tbody")).to_contain_text("case_09999")


def test_filters_narrow_each_other(visit, big_report):
    page = visit.open(big_report)
    page.select_option("select[name=change]", "regression")
    wait_for_count(page, "1,000 cases that match")
    page.select_option("select[name=gated]", "no")
    wait_for_count(page, "500 cases that match")
    page.select_option("select[name=root]", "tool_failure")
    wait_for_count(page, "0 cases that match")
    page.click("button[type=reset]")
    wait_for_count(page, "1\u2013100 of 10,000 cases")


def test_signals_are_filtered_by_kind_and_by_least_severity(visit, big_report):
    page = visit.open(big_report)
    page.select_option("select[name=severity]", "high")
    wait_for_count(page, "500 cases that match")
    page.select_option("select[name=severity]", "critical")
    wait_for_count(page, "250 cases that match")
    page.select_option("select[name=severity]", "")
    page.select_option("select[name=kind]", "secret_in_output")
    wait_for_count(page, "500 cases that match")
    page.select_option("select[name=integrity]", "partial")
    wait_for_count(page, "46 cases that match")


def test_pages_can_be_turned_with_the_keyboard(visit, big_report):
    page = visit.open(big_report)
    page.focus("#next")
    page.keyboard.press("Enter")
    wait_for_count(page, "101\u2013200 of 10,000")
    expect(page.locator("#page")).to_have_text("Page 2 of 100")
    expect(page.locator("#case-table tbody tr")).to_have_count(100)
    page.focus("#previous")
    page.keyboard.press("Space")
    wait_for_count(page, "1\u2013100 of 10,000")
    expect(page.locator("#previous")).to_be_disabled()


def test_the_first_stop_of_the_keyboard_is_a_way_to_the_content(visit, big_report):
    page = visit.open(big_report)
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    expect(page.locator(".skip")).not_to_have_css("outline-style", "none")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#main$"))


def test_a_chip_and_a_bar_lead_to_their_cases(visit, big_report):
    page = visit.open(big_report)
    page.click("[data-chip=worse]")
    wait_for_count(page, "1,000 cases that match")
    expect(page.locator("[data-chip=worse]")).to_have_attribute("aria-current", "true")
    expect(page.locator("[data-chip=all]")).not_to_have_attribute("aria-current", "true")
    page.click(".causes a >> nth=0")
    wait_for_count(page, "1,000 cases that match")
    page.click("[data-chip=all]")
    wait_for_count(page, "1\u2013100 of 10,000 cases")


def test_a_filter_is_kept_when_the_reader_comes_back(visit, tmp_path):
    report = write_report(tmp_path, [a_case(case_id=f"c{n}") for n in range(3)])
    page = visit.open(report)
    page.fill("input[name=q]", "c2")
    wait_for_count(page, "1 case that matches")
    page.click("#case-table tbody a")
    page.wait_for_selector("h1:has-text('Pays a bill')")
    page.go_back()
    wait_for_count(page, "1 case that matches")
    expect(page.locator("input[name=q]")).to_have_value("c2")


def test_a_lost_part_is_told_and_the_rest_still_works(visit, big_report):
    (big_report.parent / "assets" / "rows-0003.js").unlink()
    page = visit.open(big_report)
    page.fill("input[name=q]", "case_00")
    wait_for_count(page, "could not be loaded: 1")
    expect(page.locator("#case-table tbody tr")).to_have_count(100)


@pytest.mark.parametrize("visit", [{"java_script_enabled": False}], indirect=True)
def test_without_javascript_the_first_rows_are_there_and_it_says_where_the_rest_is(
    visit, big_report
):
    page = visit.open(big_report)
    assert page.locator("#case-table tbody tr").count() == 100
    assert "compare-report.json" in page.inner_text("noscript")
    assert not page.is_visible("#filters")
    assert not page.is_visible("#pager")


def test_a_link_to_evidence_opens_and_shows_the_step(visit, tmp_path):
    write_report(tmp_path, [a_case(signals=[a_signal(index=1)])])
    page = visit.open(tmp_path / "case-case_1.html")
    page.click("a[href='#n-1']")
    expect(page.locator("details[open]:is(#n-1, :has(#n-1))")).to_be_visible()
    page.goto((tmp_path / "case-case_1.html").as_uri() + "#b-2")
    expect(page.locator("#b-2")).to_be_visible()
