"""Cases of which nothing was expected: what differs is told, and nobody says that they passed."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import evalwright as ew
from comparing import Pair, a_call, a_case, a_failure, a_response, a_result, items_of
from evalwright.reports.comparison.check import check_report
from subjects.command import Evalwright

CARD = "4539 1488 0343 6467"
SENTENCE = (
    "Cannot tell: nothing was expected of 8 cases. Answers differ in 6, calls in 3, "
    "1 new high signal."
)
NOWHERE = ("ship", "100.0%", "ass rate")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path / "runs")


def compare(evalwright: Evalwright, *more: str) -> Any:
    sides = ("--baseline", "runs/baseline", "--new", "runs/new")
    return evalwright("compare", *sides, "--out", "report", *more)


def a_changed_pair(pair: Pair) -> None:
    """Eight cases: six have another answer, three of these after other calls, one a card."""
    for number in range(8):
        name = f"case-{number}"
        new = f"other {number}" if number < 6 else "done"
        calls = [a_call("guess"), a_result()] if number < 3 else []
        told = f"Use card {CARD}" if number == 5 else new
        pair.add(
            a_case(name),
            a_response(case_id=name),
            a_response(*calls, case_id=name, output=told),
        )


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [("any", 3), ("regression", 3), ("gate", 0), ("none", 0), ("signals", 1), ("changes", 1)],
)
def test_the_first_line_says_what_differs_and_what_can_be_decided_is(
    evalwright: Evalwright, pair: Pair, fail_on: str, code: int
) -> None:
    a_changed_pair(pair)
    done = compare(evalwright, "--fail-on", fail_on)
    assert done.flat.startswith(f"▲ {SENTENCE} ")
    assert done.code == code
    assert ("--cases" in done.err) is (code == 3)


def test_nothing_that_is_written_speaks_of_shipping_or_of_a_rate(
    evalwright: Evalwright, pair: Pair
) -> None:
    a_changed_pair(pair)
    forms = ("--markdown", "m.md", "--junit", "j.xml", "--sarif", "s.sarif", "--codequality", "q")
    done = compare(evalwright, *forms)
    report = evalwright.folder / "report"
    pages = [page.read_text() for page in report.glob("*.html")]
    written = [(evalwright.folder / name).read_text() for name in forms[1::2]]
    for text in (done.out, *pages, *written):
        assert not [words for words in NOWHERE if words in text]
    assert SENTENCE in (report / "report.html").read_text()
    assert (evalwright.folder / "m.md").read_text().startswith(f"### ▲ {SENTENCE}")
    cases = ET.fromstring((evalwright.folder / "j.xml").read_bytes()).iter("testcase")
    skipped = [case.findall("skipped") for case in cases]
    assert {each.attrib["type"] for (each,) in skipped} == {"nothing_expected"}


def test_the_machine_report_keeps_its_booleans_and_says_that_nothing_was_expected(
    evalwright: Evalwright, pair: Pair
) -> None:
    a_changed_pair(pair)
    compare(evalwright)
    report = evalwright.folder / "report"
    assert check_report(report) == 8
    document = json.loads((report / "compare-report.json").read_bytes())
    assert all(item["expected"] is False for item in document["items"])
    assert all(item["baseline_pass"] and item["new_pass"] for item in document["items"])
    summary = document["summary"]
    assert (summary["baseline_pass"], summary["new_pass"]) == (8, 8)
    assert summary["judged"] == {"cases": 0, "baseline_pass": 0, "new_pass": 0}
    assert summary["differing"] == {"answers": 6, "calls": 3}
    assert summary["new_signal_counts"]["high"] == 1
    assert "significance" not in summary


def test_where_nothing_differs_it_cannot_be_told_either(evalwright: Evalwright, pair: Pair) -> None:
    pair.add(a_case(), a_response(), a_response())
    done = compare(evalwright)
    words = "nothing was expected of 1 case. Answers and calls are the same."
    assert done.flat.startswith(f"▲ Cannot tell: {words}")
    assert done.code == 3
    assert compare(evalwright, "--fail-on", "changes").code == 0


def test_an_answer_that_is_missing_is_told_and_never_passes(
    evalwright: Evalwright, pair: Pair
) -> None:
    pair.add(a_case(), a_response(), a_failure())
    done = compare(evalwright)
    assert "1 case has no answer" in done.out
    assert done.code == 3
    item = items_of(evalwright.folder / "report")["one"]
    assert (item["new_pass"], item["change"]) == (False, "regression")


def test_what_is_expected_is_judged_and_the_rest_is_counted_apart(
    evalwright: Evalwright, pair: Pair
) -> None:
    a_changed_pair(pair)
    wanted = {"must_include": ["done"]}
    good, bad = a_response(case_id="judged"), a_response(case_id="judged", output="no")
    pair.add(a_case("judged", **wanted), bad, good)
    done = compare(evalwright, "--fail-on", "regression")
    assert done.code == 0
    assert (
        "1 compared, pass rate 0.0% → 100.0%; nothing was expected of 8 more: answers differ in 6, "
        "calls in 3, 1 new high signal)" in done.flat
    )
    items = items_of(evalwright.folder / "report")
    assert "expected" not in items["judged"]
    assert items["case-0"]["expected"] is False


def test_what_one_side_alone_was_judged_for_is_not_compared(
    evalwright: Evalwright, pair: Pair
) -> None:
    judged = a_response(scored={"passed": True, "score": 1.0})
    pair.add(a_case(), a_response(), judged)
    assert compare(evalwright).code == 3
    pair.write(pair.baseline, "one", judged)
    assert compare(evalwright).code == 0


def test_in_python_such_a_comparison_neither_passed_nor_failed(tmp_path: Path, pair: Pair) -> None:
    a_changed_pair(pair)
    result = ew.compare(pair.baseline, pair.new)
    assert result.passed is None
    assert result.verdict == SENTENCE
    assert SENTENCE in repr(result)


def test_a_run_beside_itself_is_no_change(evalwright: Evalwright, pair: Pair) -> None:
    pair.add(a_case(), a_response(), a_response())
    done = evalwright("compare", "runs/new", "runs/new")
    assert done.flat.startswith("PASSED ● No change: a run compared with itself (1 compared).")
    assert done.code == 0
