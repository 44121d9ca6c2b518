"""The page of evaluated prompts in a real browser: sorting, jumping, phones, hostile texts."""

import re
from itertools import pairwise

import pytest
from playwright.sync_api import expect
from test_browser_access import LOW_CONTRAST

from evalwright.prompts.change import compare_results
from evalwright.reports.forms import renderer
from reports.prompts.prompt_samples import (
    HOSTILE_TEXTS,
    a_context,
    a_finding,
    a_result,
    an_error,
    hostile_results,
)

PHONE = {"viewport": {"width": 360, "height": 740}}
DARK = {"color_scheme": "dark"}
NO_SCRIPT = {"java_script_enabled": False}
TEXT = "\n".join(["# Title", "", *(f"Say some {'words ' * 40} {n}" for n in range(60)), "x" * 900])


def write(folder, results, texts=None, **more):
    folder.mkdir(exist_ok=True)
    place = folder / "report.html"
    place.write_bytes(renderer("prompts", "html")(results, a_context(texts, **more)))
    return place


@pytest.fixture
def report(tmp_path):
    findings = [
        a_finding(line, 5, severity=severity)
        for line, severity in ((3, "error"), (40, "warning"), (63, "info"))
    ]
    results = [
        a_result("prompts/b.md", 9.0, tier=0),
        a_result("prompts/10-ten.md", 5.0, findings=findings, tier=0, notes=["y" * 300]),
        a_result(f"prompts/{'deep/' * 30}c.md", 7.5, tier=0),
        an_error("prompts/a.md", tier=0, message="z" * 500),
    ]
    before = [a_result("prompts/b.md", 9.5, tier=0), a_result("prompts/10-ten.md", 4.0, tier=0)]
    change = compare_results(before, results)
    return write(tmp_path, results, {"prompts/10-ten.md": TEXT}, change=change)


def column(page, number):
    return page.locator(f"#files tbody tr:not([hidden]) > :nth-child({number})")


def expect_column(page, number, texts):
    expect(column(page, number)).to_have_text(texts, use_inner_text=True)


def assert_harmless(visit):
    assert visit.page.evaluate("window.__pwned") is None
    assert visit.dialogs == []
    assert visit.errors == []
    assert visit.foreign_requests == []


def test_the_table_is_sorted_by_number_and_what_is_missing_comes_last(visit, report):
    page = visit.open(report)
    page.get_by_role("button", name="Score").click()
    expect_column(page, 3, ["50", "75", "90", "\N{EN DASH}"])
    page.get_by_role("button", name="Score").click()
    expect_column(page, 3, ["90", "75", "50", "\N{EN DASH}"])
    head = page.get_by_role("columnheader", name="Score")
    expect(head).to_have_attribute("aria-sort", "descending")
    page.get_by_role("button", name="Change").click()
    expect(column(page, 5).first).to_have_text("\N{MINUS SIGN}5")
    expect(column(page, 5).nth(1)).to_have_text("+10")
    assert_harmless(visit)


def test_the_table_is_sorted_with_the_keyboard(visit, report):
    page = visit.open(report)
    page.get_by_role("button", name="Prompt", exact=True).focus()
    page.keyboard.press("Enter")
    expect(column(page, 2).first).to_have_text("prompts/10-ten.md")
    expect(column(page, 2).nth(1)).to_have_text("prompts/a.md")


def test_the_table_is_filtered_and_the_number_announced(visit, report):
    page = visit.open(report)
    page.click("[data-chip=passed]")
    expect(page.get_by_role("status")).to_have_text("2 of 4 rows")
    page.fill("input[name=q]", "B.md")
    expect_column(page, 2, ["prompts/b.md"])
    page.keyboard.press("Enter")  # sends nothing
    assert_harmless(visit)


@pytest.mark.parametrize("visit", [{}, NO_SCRIPT], indirect=True, ids=["script", "no script"])
def test_a_row_opens_the_details_of_its_file_also_without_the_script(visit, report):
    page = visit.open(report)
    expect(column(page, 1)).to_have_count(4)
    page.locator("#files tbody tr:nth-child(2) a").click()
    expect(page.locator("#f2 mark").first).to_be_visible()
    expect(page.locator("#f2 .said").first).to_have_text(re.compile("^ErrorPE206"))
    expect(page.locator("#f1")).to_be_hidden()


def test_lines_have_the_numbers_of_the_file(visit, report):
    page = visit.open(report, "#f2l40")
    line = page.locator("#f2l40")
    expect(line).to_be_visible()
    assert line.evaluate("each => [...each.parentElement.children].indexOf(each) + 1") == 40
    assert line.locator("mark").inner_text() == "some"


@pytest.mark.parametrize("visit", [PHONE], indirect=True, ids=["phone"])
def test_the_page_never_scrolls_sideways_on_a_phone(visit, report, tmp_path):
    for place in (report, write(tmp_path / "x", hostile_results(), HOSTILE_TEXTS)):
        page = visit.open(place)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("visit", [{}, DARK], indirect=True, ids=["light", "dark"])
def test_what_is_shown_has_enough_contrast(visit, report):
    page = visit.open(report)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate(LOW_CONTRAST) == []


def test_on_paper_everything_is_open_and_nothing_is_cut_off(visit, report):
    page = visit.open(report)
    page.emulate_media(media="print")
    expect(page.locator("#f2 mark").first).to_be_visible()
    expect(page.locator("#filters:visible, .skip:visible")).to_have_count(0)
    clipped = """all => all.filter(e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)
        && e.clientWidth).length"""
    assert page.locator("main *").evaluate_all(clipped) == 0


def test_headings_skip_no_level_and_every_region_has_a_name(visit, report):
    page = visit.open(report)
    levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(h => +h.tagName[1])")
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    unnamed = "all => all.filter(e => !e.ariaLabel && !e.getAttribute('aria-labelledby')).length"
    assert page.locator("section, form, [role=region]").evaluate_all(unnamed) == 0
    assert page.locator("th:not([scope])").count() == 0
    assert page.locator("svg:not([role=img]):not([aria-hidden=true])").count() == 0


def test_hostile_texts_run_nothing_and_ask_for_nothing(visit, tmp_path):
    page = visit.open(write(tmp_path, hostile_results(), HOSTILE_TEXTS))
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    for head in ("Prompt", "Judge", "Grade"):
        page.get_by_role("button", name=head, exact=True).click()
    page.fill("input[name=q]", "onerror")
    page.wait_for_timeout(200)
    assert "<script>" in page.inner_text("#files tbody tr:first-child th")
    assert page.locator("main img, main iframe, main script").count() == 0
    assert_harmless(visit)


def test_the_page_forbids_scripts_that_are_not_its_own(visit, report):
    page = visit.open(report)
    visit.plant_script()
    assert page.evaluate("window.__pwned") is None


def test_the_page_is_the_only_file_that_is_loaded(visit, report):
    page = visit.open(report)
    assert page.evaluate("getComputedStyle(document.body).margin") == "0px"
    assert [url.rpartition("/")[2] for url in visit.requests] == ["report.html"]
    assert visit.errors == []


@pytest.fixture
def large_report(tmp_path):
    """2,000 files, the better the later, and each with a finding; the worst is the last."""
    results = [
        a_result(f"prompts/p{n:04d}.md", 2 + n % 80 / 10, findings=[a_finding(3, 5)], tier=0)
        for n in range(1, 2001)
    ]
    texts = {each.input.path: "# Title\n\nSay some words\n" for each in results}
    return write(tmp_path, results, texts)


def test_a_large_library_loads_at_once_with_the_worst_first(visit, large_report):
    page = visit.open(large_report)
    assert page.evaluate("document.querySelectorAll('*').length") < 10_000
    expect(column(page, 1)).to_have_count(200)
    expect(column(page, 2).first).to_have_text("prompts/p0080.md")
    expect(page.get_by_role("status")).to_have_text("2000 rows")
    page.get_by_role("button", name="Show all 2000 rows").click()
    expect(column(page, 1)).to_have_count(2000)
    assert_harmless(visit)


def test_in_a_large_library_all_files_are_filtered_and_sorted(visit, large_report):
    page = visit.open(large_report)
    page.fill("input[name=q]", "p1999")
    expect_column(page, 2, ["prompts/p1999.md"])
    expect(page.get_by_role("status")).to_have_text("1 of 2000 rows")
    page.locator("#files tbody tr:not([hidden]) a").click()
    expect(page.locator("details[open] mark").first).to_be_visible()
    expect(page.locator("details[open]")).to_have_count(1)


@pytest.mark.parametrize("fragment", ["#f1500", "#f1500l3"])
def test_in_a_large_library_a_link_leads_to_a_file_and_a_line(visit, large_report, fragment):
    page = visit.open(large_report, fragment)
    expect(page.locator(fragment)).to_be_visible()
    top = "document.querySelector(fragment).getBoundingClientRect().top"
    page.wait_for_function(f"fragment => 0 <= {top} && {top} < innerHeight", arg=fragment)


@pytest.mark.parametrize("visit", [NO_SCRIPT], indirect=True, ids=["no script"])
def test_a_large_library_is_whole_without_the_script(visit, large_report):
    page = visit.open(large_report, "#f1500")
    expect(page.locator("table[data-table=prompts] tbody tr")).to_have_count(2000)
    expect(page.locator("#f1500 mark").first).to_be_visible()
