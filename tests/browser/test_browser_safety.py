"""Hostile content in a real browser: nothing runs, nothing leaves."""

import pytest

from evalwright.reports.comparison.overview import render_overview
from reports.html.hostile import hostile_case, hostile_overview, hostile_rows
from reports.html.samples import a_case, many_rows, write_report


@pytest.fixture
def hostile_report(tmp_path):
    rows = [*hostile_rows(150), *many_rows(200)]
    write_report(tmp_path, [hostile_case()], rows)
    hrefs = ["assets/rows-0001.js"]
    shown = hostile_overview(rows=rows[:100], total_rows=len(rows), chunk_hrefs=hrefs)
    (tmp_path / "report.html").write_bytes(render_overview(shown))
    return tmp_path


def assert_harmless(visit):
    assert visit.page.evaluate("window.__pwned") is None
    assert visit.dialogs == []
    assert visit.errors == []
    assert visit.foreign_requests == []


def test_a_hostile_case_page_runs_nothing_and_asks_for_nothing(visit, hostile_report):
    page = visit.open(hostile_report / "case-case_1.html")
    for details in page.locator("details").all():
        details.evaluate("each => each.open = true")
    page.mouse.wheel(0, 5_000)
    page.wait_for_timeout(200)
    assert "<script>" in page.inner_text("h1")
    assert page.locator("main img, main iframe, main script").count() == 0
    assert_harmless(visit)


def test_hostile_rows_run_nothing_also_when_the_script_shows_them(visit, hostile_report):
    page = visit.open(hostile_report / "report.html")
    page.fill("input[name=q]", "onerror")
    page.wait_for_function("document.getElementById('count').textContent.includes('150 cases')")
    page.click("#next")
    page.wait_for_function("document.getElementById('page').textContent.startsWith('Page 2 ')")
    assert "<script>" in page.inner_text("tbody tr:first-child th")
    assert page.locator("tbody img, tbody iframe, tbody script").count() == 0
    page.select_option("select[name=kind]", index=1)
    page.wait_for_timeout(200)
    assert_harmless(visit)


def test_the_pages_forbid_scripts_that_are_not_theirs(visit, hostile_report):
    for name in ("case-case_1.html", "report.html"):
        page = visit.open(hostile_report / name)
        visit.plant_script()
        assert page.evaluate("window.__pwned") is None


def test_ordinary_pages_load_their_style_and_nothing_else(visit, tmp_path):
    write_report(tmp_path, [a_case()])
    for name in ("report.html", "case-case_1.html"):
        page = visit.open(tmp_path / name)
        assert page.evaluate("getComputedStyle(document.body).margin") == "0px"
    assert {url.rpartition("/")[2] for url in visit.requests} == {
        "report.html",
        "case-case_1.html",
        "report.css",
    }
    assert visit.errors == []
