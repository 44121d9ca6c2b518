"""JUnit XML: one test case per task, as CI systems read it."""

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

from evalwright.contracts.summary import EvalSummary, TaskResult
from evalwright.reports.findings import TaskStory
from evalwright.reports.text import one_line

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JunitRun(NamedTuple):
    """One run, as a report tells it."""

    run_id: str
    summary: EvalSummary
    reasons: Sequence[str]
    stories: Sequence[TaskStory]
    nondeterministic: bool = False


def render_junit(runs: Sequence[JunitRun]) -> bytes:
    """A run or several as a JUnit report; a reason not to ship is a failure of its own."""
    suites = [_suite(run) for run in runs]
    totals = {
        name: str(sum(int(suite.attrib[name]) for suite in suites))
        for name in ("tests", "failures", "errors")
    }
    took = sum(result.latency_ms or 0 for run in runs for result in run.summary.tasks)
    root = ET.Element("testsuites", {**totals, "time": seconds(took)})
    root.extend(suites)
    return xml_document(root)


def _suite(run: JunitRun) -> ET.Element:
    summary, reasons, stories = run.summary, run.reasons, run.stories
    told = {story.task.task_id: story for story in stories}
    name = f"{summary.suite_id}@{summary.suite_version}"
    suite = ET.Element("testsuite", name=name)
    for result in summary.tasks:
        suite.append(_case(name, result, told.get(result.task_id)))
    for number, reason in enumerate(reasons, 1):
        case = ET.SubElement(suite, "testcase", classname=name, name=f"threshold-{number}")
        ET.SubElement(case, "failure", message=xml_text(reason), type="threshold")
    properties = ET.Element("properties")
    ET.SubElement(properties, "property", name="runId", value=run.run_id)
    if run.nondeterministic:
        ET.SubElement(properties, "property", name="nondeterministic", value="live-shadow")
    suite.insert(0, properties)
    errors = sum(story.error is not None for story in stories)
    suite.attrib.update(
        tests=str(summary.task_count + len(reasons)),
        failures=str(len(stories) - errors + len(reasons)),
        errors=str(errors),
        time=seconds(sum(result.latency_ms or 0 for result in summary.tasks)),
    )
    return suite


def render_junit_failure(run_id: str, code: str, message: str) -> bytes:
    """A run that ended without a result, as one error."""
    counts = {"tests": "1", "failures": "0", "errors": "1"}
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", counts, name=run_id)
    case = ET.SubElement(suite, "testcase", classname="evalwright", name="run")
    ET.SubElement(case, "error", message=xml_text(message), type=code)
    return xml_document(root)


def xml_document(root: ET.Element) -> bytes:
    """A tree as a document."""
    ET.indent(root)
    text = ET.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _case(suite: str, result: TaskResult, story: TaskStory | None) -> ET.Element:
    case = ET.Element(
        "testcase", classname=suite, name=result.task_id, time=seconds(result.latency_ms or 0)
    )
    if story is None:
        return case
    error = story.error
    if error is not None:
        message = f"{error.get('code')}: {one_line(error.get('message', ''))}"
        ET.SubElement(case, "error", message=xml_text(message), type=str(error.get("code")))
        return case
    expected = story.task.expected
    found = "".join(f"{each.severity} {each.kind}; " for each in story.findings)
    match = expected.match
    wanted = f"expected {match.strategy} {one_line(match.value)}; " if match else ""
    message = f"{found}{wanted}got {one_line(story.decision)}"
    kind = "safety" if found else expected.kind
    failure = ET.SubElement(case, "failure", message=xml_text(message), type=kind)
    failure.text = xml_text(one_line(story.decision, None))
    return case


def seconds(milliseconds: float) -> str:
    """A duration as JUnit writes it."""
    return f"{milliseconds / 1000:.3f}"


def xml_text(text: str) -> str:
    """The text without the characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
