"""The pages for all readers: small screens, dark rooms, paper, keyboards, screen readers."""

from itertools import pairwise

import pytest

from evalwright.contracts.report import FailedAssertion
from reports.html.hostile import hostile_case
from reports.html.samples import (
    a_case,
    a_signal,
    call,
    many_rows,
    output,
    response,
    result,
    write_report,
)

PHONE = {"viewport": {"width": 360, "height": 740}}
DARK = {"color_scheme": "dark"}
PAGES = ("report.html", "case-case_1.html")


@pytest.fixture
def report(tmp_path):
    long_word = "x" * 400
    old = response(call("pay", {"to": "IBAN of Anna", long_word: long_word}), result({"ok": True}))
    new = response(
        call("pay", {"to": "IBAN of Eve"}), result(long_word), output("Paid " + long_word)
    )
    failed = [FailedAssertion("must_include", long_word, [long_word], "the output lacks it")]
    case = a_case(old, new, signals=[a_signal(), a_signal("low")], failed=failed)
    write_report(tmp_path, [case], many_rows(150))
    return tmp_path


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("visit", [PHONE], indirect=True, ids=["phone"])
def test_a_page_never_scrolls_sideways_on_a_phone(visit, report, name):
    page = visit.open(report / name)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("visit", [PHONE], indirect=True, ids=["phone"])
def test_a_hostile_page_does_not_scroll_sideways_either(visit, tmp_path):
    write_report(tmp_path, [hostile_case()])
    page = visit.open(tmp_path / "case-case_1.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("name", PAGES)
def test_headings_begin_with_one_h1_and_skip_no_level(visit, report, name):
    page = visit.open(report / name)
    levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", PAGES)
def test_there_is_one_main_and_every_region_has_a_name(visit, report, name):
    page = visit.open(report / name)
    assert page.locator("main").count() == 1
    unnamed = "all => all.filter(e => !e.ariaLabel && !e.getAttribute('aria-labelledby')).length"
    assert page.locator("nav, section, form, [role=region]").evaluate_all(unnamed) == 0


@pytest.mark.parametrize("name", PAGES)
def test_every_control_link_and_picture_has_a_name(visit, report, name):
    page = visit.open(report / name)
    nameless = """all => all.filter(e => !(e.textContent.trim() || e.ariaLabel
        || e.getAttribute('aria-labelledby') || e.labels?.length)).map(e => e.outerHTML)"""
    controls = page.locator("a, button, input, select, svg:not([aria-hidden]), img, summary")
    assert controls.count() > 5
    assert controls.evaluate_all(nameless) == []


@pytest.mark.parametrize("name", PAGES)
def test_tables_have_header_cells_with_a_scope(visit, report, name):
    page = visit.open(report / name)
    assert page.locator("table").count() == (name == "report.html") * 2
    assert page.locator("th:not([scope])").count() == 0


def test_the_table_of_cases_is_still_a_table_for_a_screen_reader_on_a_phone(browser, report):
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.goto((report / "report.html").as_uri())
    table = page.get_by_role("table", name="Cases, gated ones and regressions first")
    assert table.get_by_role("row").count() == 101
    assert table.get_by_role("rowheader").count() == 100
    context.close()


def test_the_number_of_results_is_announced(visit, report):
    page = visit.open(report / "report.html")
    assert page.get_by_role("status").get_attribute("aria-live") == "polite"


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("visit", [{}, DARK], indirect=True, ids=["light", "dark"])
def test_what_is_shown_has_enough_contrast(visit, report, name):
    page = visit.open(report / name)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate(LOW_CONTRAST) == []


@pytest.mark.parametrize("visit", [DARK], indirect=True, ids=["dark"])
def test_a_dark_room_gets_a_dark_page(visit, report):
    page = visit.open(report / "report.html")
    assert (
        page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        == "rgb(14, 15, 18)"
    )


@pytest.mark.parametrize("name", PAGES)
def test_on_paper_the_controls_are_gone_and_nothing_is_cut_off(visit, report, name):
    page = visit.open(report / name)
    page.emulate_media(media="print")
    assert page.locator("#filters:visible, #pager:visible, .skip:visible").count() == 0
    clipped = """all => all.filter(e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)
        && e.clientWidth).length"""
    assert page.locator("main *").evaluate_all(clipped) == 0
    assert len(page.pdf()) > 10_000


def test_what_differs_is_said_without_colour(visit, report):
    page = visit.open(report / "case-case_1.html")
    assert "Step 1, changed" in page.inner_text(".talk")
    gone = page.locator("del").first
    assert "line-through" in gone.evaluate("each => getComputedStyle(each).textDecorationLine")


# The ratio of every visible text to the ground that is really behind it.
LOW_CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, place) => sum + c * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = rgb(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const texts = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    const drawn = element.disabled || element.closest("svg");
    if (!texts || !element.checkVisibility() || drawn) continue;
    const ink = light(rgb(getComputedStyle(element).color)), behind = light(ground(element));
    const ratio = (Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05);
    const isSign = element.ariaHidden === "true" || element.closest("[aria-hidden=true]");
    if (ratio < (isSign ? 3 : 4.5)) found.push([element.outerHTML.slice(0, 90), ratio]);
  }
  return found;
}"""
