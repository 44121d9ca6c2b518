"""axe, the checker of accessibility, finds nothing serious on any page; and nothing is cut off."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from comparing import Pair, a_call, a_case, a_failure, a_response, a_result, an_output
from reported import write
from reports.html.samples import a_case as a_page
from reports.html.samples import call, output, response, result, write_report

SERIOUS = ("serious", "critical")
PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
LONG = "x" * 300
# What scrolls in a box of its own or ends with an ellipsis can be read; what is clipped cannot.
CUT = """() => [...document.querySelectorAll('body *')].filter((each) => each.checkVisibility()
    && each.clientWidth && each.scrollWidth > each.clientWidth + 1
    && !each.closest('.skip, .sr, .stacked thead, .stacked .word, svg')
    && !each.matches('.head, .tools, :has(> .tools, > .head)')
    && !['auto', 'scroll'].includes(getComputedStyle(each).overflowX)
    && getComputedStyle(each).textOverflow !== 'ellipsis')
    .map((each) => each.outerHTML.slice(0, 120))"""
# What stands beyond the right edge of a page that therefore scrolls sideways.
WIDE = """() => { const inBox = (each) => each && each !== document.body
    && (getComputedStyle(each).overflowX !== 'visible' || inBox(each.parentElement));
    return document.documentElement.scrollWidth <= innerWidth ? [] :
    [...document.querySelectorAll('body *')].filter((each) => each.checkVisibility()
    && each.getBoundingClientRect().right > innerWidth + 1 && !inBox(each))
    .map((each) => each.outerHTML.slice(0, 150)).slice(0, 5); }"""


def serious(page) -> list[str]:
    """What axe finds of at least serious impact: the rule, and an example."""
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in Axe().run(page).response["violations"]
        if each["impact"] in SERIOUS
    ]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report with a regression, a signal, an error and a case that stayed as it was."""
    folder = tmp_path_factory.mktemp("axe")
    pair = Pair(folder / "runs")
    key = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    fine = a_response(a_call("pay", {}), a_result("plain text"), an_output("Paid."))
    leak = a_response(a_call("pay", {LONG: LONG}), a_result({"ok": True}), output=f"{key} {LONG}")
    wanted = {"must_include": [LONG], "tool_required": ["refund"]}
    pair.add(a_case("worse", **wanted), fine, leak)
    pair.add(a_case("same"), fine, fine)
    pair.add(a_case("broken"), fine, a_failure())
    out = folder / "report"
    write(pair, out)
    return out


@pytest.mark.parametrize("visit", [PHONE], indirect=True, ids=["phone"])
def test_nothing_is_cut_off_on_a_phone(visit, report):
    found = {}
    for path in sorted(report.glob("*.html")):
        page = visit.open(path)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        found[path.name] = page.evaluate(CUT)
    assert {name: cut for name, cut in found.items() if cut} == {}


def test_a_page_leads_to_the_cases_beside_it(visit, report):
    page = visit.open(report / "case-worse.html")
    expect(page.get_by_role("link", name="Previous case")).to_have_count(0)
    page.get_by_role("link", name="Next case").click()
    page.wait_for_url("**/case-same.html")
    page.get_by_role("link", name="Next case").click()
    page.wait_for_url("**/case-broken.html")
    expect(page.get_by_role("link", name="Next case")).to_have_count(0)
    page.get_by_role("link", name="Previous case").click()
    page.wait_for_url("**/case-same.html")


def test_the_table_is_sorted_by_any_column_and_back(visit, report):
    page = visit.open(report / "report.html")
    first = page.locator("#case-table tbody tr:first-child .sub")
    expect(first).to_have_text("worse")
    head = page.get_by_role("columnheader", name="Case")
    head.get_by_role("button").click()
    expect(first).to_have_text("broken")
    expect(head).to_have_attribute("aria-sort", "ascending")
    page.reload()
    expect(first).to_have_text("broken")
    head.get_by_role("button").click()
    expect(first).to_have_text("worse")
    expect(head).to_have_attribute("aria-sort", "descending")
    head.get_by_role("button").click()
    expect(head).not_to_have_attribute("aria-sort", re.compile(""))


def test_a_reason_stands_beside_each_case_that_failed(visit, report):
    page = visit.open(report / "report.html")
    row = page.get_by_role("row").filter(has=page.locator("th .sub", has_text="broken"))
    assert "transport: the call to the agent failed" in row.locator(".c-reason").inner_text()


@pytest.mark.parametrize("visit", [{"java_script_enabled": False}], indirect=True, ids=["bare"])
def test_without_javascript_the_reasons_are_there_too(visit, report):
    page = visit.open(report / "report.html")
    assert page.locator("#case-table tbody tr").count() == 3
    assert page.locator(".c-reason", has_text="the call to the agent failed").count() == 1


def test_a_value_without_a_name_is_a_proper_list(visit, tmp_path):
    said = response(call("pay", {}), result("plain text"), output("Done."))
    write_report(tmp_path, [a_page(said, said)])
    assert serious(visit.open(tmp_path / "case-case_1.html")) == []
