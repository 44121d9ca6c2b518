"""Reports in files: axe finds nothing, nothing is cut off, and they are small, in both themes."""

import gzip
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from browser.test_browser_axe import WIDE
from evalwright.reports.forms import renderer
from evalwright.reports.run.junit import ReportedRun
from evalwright.reports.run.page import render_html
from evalwright.reports.run.task_records import read_tasks
from reports.html.samples import (
    a_case,
    a_row,
    a_signal,
    call,
    output,
    response,
    result,
    write_report,
)
from reports.prompts.prompt_samples import a_context, a_finding, a_result, an_error
from reports.run.page_samples import Told, a_page, a_trace, bad, ok, run_events
from reports.run.page_samples import a_result as a_summary

SIZES = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
LONG = "x" * 300
NAMES = {  # what automated checks may rely on
    "report": ("[data-verdict=fail]", "details.change[data-task]", "table[data-table=tasks]"),
    "case-worse": ("[data-verdict=fail]", "[data-step]", "details[data-signal=critical]"),
    "run": ("[data-verdict=fail]", "details.change[data-task][data-failed]", "[data-step]"),
    "matrix": ("[data-verdict]", "table[data-table=matrix] tr[data-task] td[data-cell]"),
    "prompts": ("[data-verdict=fail]", "tr[data-prompt][data-failed]", "[data-chip=failed]"),
}


def a_reported_run(tasks: dict[str, Told], variant: str) -> ReportedRun:
    log = run_events(tasks)
    return ReportedRun(
        log[0].run_id,
        a_summary(tasks),
        [],
        [],
        read=lambda: read_tasks(log, show_secrets=False),
        variant=variant,
        page=f"{variant}.html",
    )


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report of each form, with what is long, what failed and what was found."""
    folder = tmp_path_factory.mktemp("reports")
    old = response(call("pay", {"to": "Anna"}), result({"ok": True}), output("Paid."))
    new = response(call("pay", {"to": LONG}), result("no"), call("mail", {}, "c2"), output(LONG))
    signals = [a_signal("critical"), a_signal("low")]
    changed = {"change": "regression", "new_pass": False, "new_root": "wrong_tool_choice"}
    worse = a_case(old, new, case_id="worse", signals=signals, **changed)
    rows = [a_row(1, before="Paid.", after=LONG, **changed), *map(a_row, range(2, 9))]
    write_report(folder, [worse], rows)
    tasks = {
        "wrong": Told(LONG, ok(), bad(actual=LONG), more=a_trace(LONG), tags=["refunds"]),
        "fine": Told("ok", ok()),
    }
    (folder / "run.html").write_bytes(a_page(tasks, reasons=["too low"]))
    both = [a_reported_run(each, name) for each, name in ((tasks, "a"), (dict(tasks), "b"))]
    (folder / "matrix.html").write_bytes(render_html(both))
    findings = [a_finding(1, 5, severity=each) for each in ("error", "warning", "info")]
    graded = [a_result("b.md", 9.0), a_result(f"{'deep/' * 30}c.md", 5.0, findings=findings)]
    text = renderer("prompts", "html")(
        [*graded, an_error("a.md", message="z" * 500)],
        a_context({f"{'deep/' * 30}c.md": f"Say some {LONG}\n"}),
    )
    (folder / "prompts.html").write_bytes(text)
    return {name: folder / f"{name}.html" for name in NAMES}


@pytest.mark.parametrize(
    "visit",
    [
        {"viewport": {"width": width, "height": 900}, "color_scheme": theme}
        for width, theme in SIZES
    ],
    indirect=True,
    ids=[f"{width} {theme}" for width, theme in SIZES],
)
def test_axe_finds_nothing_and_names_are_those_of_the_design(visit, reports):
    found = {}
    for name, path in reports.items():
        page = visit.open(path)
        assert (visit.errors, visit.foreign_requests) == ([], [])
        missing = [each for each in NAMES[name] if not page.locator(each).count()]
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        said = Axe().run(page).response["violations"]
        told = [(each["id"], each["nodes"][0]["html"][:120]) for each in said]
        found[name] = [*missing, *told, *page.evaluate(WIDE)]
        visit.errors.clear()  # axe asks for style sheets, which the pages do not allow
    assert {name: said for name, said in found.items() if said} == {}


@pytest.mark.parametrize(
    "visit", [{"viewport": {"width": 360, "height": 740}}], indirect=True, ids=["360"]
)
def test_nothing_overflows_on_a_small_phone_and_no_page_is_heavy(visit, reports):
    found = {}
    for name, path in reports.items():
        page = visit.open(path)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        found[name] = page.evaluate(WIDE)
        assert len(gzip.compress(path.read_bytes())) < 100_000
    assert {name: wide for name, wide in found.items() if wide} == {}
