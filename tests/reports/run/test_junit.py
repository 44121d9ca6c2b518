"""JUnit XML: well-formed whatever an agent says, with counts that add up."""

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import Answer, Answers, a_log, a_suite, a_tally, a_task, an_error
from evalwright.contracts.suite import Suite
from evalwright.reports.run.junit import FailedRun, ReportedRun, render_junit
from evalwright.reports.run.stories import task_stories
from reports.run.page_samples import Told, a_result, bad, ok, run_events
from strategies import json_values

any_text = st.text(st.characters(exclude_categories=["Cs"]))
outcomes = st.sampled_from(["yes", "no", an_error()])


def junit(suite: Suite, answers: Answers | None = None) -> ET.Element:
    tally = a_tally(suite, answers)
    stories = task_stories(suite, a_log(suite, answers))
    run = ReportedRun("run_a", tally.summary(), tally.broken_bars(), stories)
    return ET.fromstring(render_junit([run]))


def counts(element: ET.Element) -> tuple[int, ...]:
    return tuple(int(element.attrib[name]) for name in ("tests", "failures", "errors"))


def cases(root: ET.Element) -> dict[str, ET.Element]:
    return {case.attrib["name"]: case for case in root.iter("testcase")}


def test_a_task_is_a_test_case_with_its_time():
    root = junit(a_suite(2), {"task-2": Answer(latency_ms=1500)})
    [suite] = root
    assert suite.attrib["name"] == "acme.shop.evals.refunds@1.0.0"
    assert list(cases(root)) == ["task-1", "task-2"]
    assert cases(root)["task-2"].attrib["time"] == "1.500"
    assert suite.attrib["time"] == "1.505"
    assert counts(root) == counts(suite) == (2, 0, 0)


def test_a_task_without_a_measured_latency_took_no_time():
    root = junit(a_suite(1), {"task-1": Answer(latency_ms=None)})
    assert cases(root)["task-1"].attrib["time"] == root[0].attrib["time"] == "0.000"


def test_a_wrong_answer_is_a_failure_with_what_was_expected_and_what_came():
    root = junit(a_suite(4, pass_score=0.7), {"task-2": "no"})
    [failure] = cases(root)["task-2"]
    assert failure.tag == "failure"
    assert failure.attrib["message"] == "expected exact yes; got no"
    assert failure.text == "no"
    assert counts(root) == (4, 1, 0)


def test_a_task_with_checks_says_which_of_them_failed_and_why():
    tasks = {"task-1": Told("It is shipped.", ok(), bad())}
    log = run_events(tasks)
    suite = a_suite([told.task(task_id) for task_id, told in tasks.items()])
    run = ReportedRun("run_a", a_result(tasks), [], task_stories(suite, log))
    [failure] = cases(ET.fromstring(render_junit([run])))["task-1"]
    assert failure.attrib["message"] == "equals: the texts differ"
    assert failure.attrib["type"] == "checks"
    assert failure.text.splitlines() == [
        "equals: the texts differ",
        "  expected  It is lost.",
        "  actual    It is shipped.",
        "output  It is shipped.",
    ]


def test_an_agent_that_gave_no_answer_is_an_error_and_no_failure():
    root = junit(
        a_suite(4, pass_score=0.7), {"task-3": an_error("agent_timeout", "no answer within 1 s")}
    )
    [error] = cases(root)["task-3"]
    assert error.tag == "error"
    assert error.attrib == {
        "type": "agent_timeout",
        "message": "agent_timeout: no answer within 1 s",
    }
    assert counts(root) == (4, 0, 1)


def test_a_bar_that_was_missed_is_a_failure_of_its_own():
    root = junit(a_suite(2, max_p95_latency_ms=1), {"task-1": "no"})
    assert counts(root) == (4, 3, 0)
    messages = {name: case[0].attrib["message"] for name, case in cases(root).items() if len(case)}
    assert messages == {
        "task-1": "expected exact yes; got no",
        "threshold-1": "1 of 2 tasks passed, and every task must pass (default)",
        "threshold-2": "p95 latency 5 ms is above 1 ms (maxP95LatencyMs)",
    }


def test_the_full_answer_stands_in_the_report_though_the_message_is_short():
    [failure] = cases(junit(a_suite(1), {"task-1": "n" * 1000}))["task-1"]
    assert len(failure.attrib["message"]) < 300
    assert failure.text == "n" * 1000


def test_the_run_can_be_found_from_the_report():
    [properties, *_] = junit(a_suite(1))[0]
    assert properties.tag == "properties"
    run, verdict = properties
    assert run.attrib == {"name": "runId", "value": "run_a"}
    assert verdict.attrib == {"name": "verdict", "value": "Passed"}


@given(st.lists(outcomes, min_size=1, max_size=6), st.booleans())
def test_the_counts_are_those_of_the_elements(results, limited):
    suite = a_suite(len(results), **({"max_p95_latency_ms": 1} if limited else {}))
    answers = {f"task-{number}": answer for number, answer in enumerate(results, 1)}
    root = junit(suite, answers)
    found = tuple(len(list(root.iter(tag))) for tag in ("testcase", "failure", "error"))
    assert counts(root) == counts(root[0]) == found
    assert all(len(case) <= 1 for case in root.iter("testcase"))


@given(json_values | any_text)
def test_the_report_is_well_formed_whatever_an_agent_says(output: Any):
    suite = a_suite([a_task(strategy="json-match", value=["never this"])])
    assert counts(junit(suite, {"task-1": output}))[1] == 2
    assert counts(junit(suite, {"task-1": an_error("agent_error", f"it said {output}")}))[2] == 1


@pytest.mark.parametrize("text", ["]]>", "<b>&amp;", '"quoted"', "\x00\x1b\ufffe\ud800", "é😀"])
def test_the_report_of_a_run_that_failed_is_one_error_whatever_the_message(text):
    root = ET.fromstring(render_junit([FailedRun("run_a", "agent_unavailable", f"why: {text}")]))
    assert counts(root) == (1, 0, 1)
    [error] = root.iter("error")
    assert error.attrib["type"] == "agent_unavailable"
    assert error.attrib["message"].startswith("why: ")


def test_text_that_xml_can_carry_comes_through_unchanged():
    [failure] = cases(junit(a_suite(1), {"task-1": "a < b & \"c\" ]]> 'é' 😀"}))["task-1"]
    assert failure.text == "a < b & \"c\" ]]> 'é' 😀"
