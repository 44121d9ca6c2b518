"""JUnit XML: one test case per task, as CI systems read it."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from evalwright.contracts.summary import EvalSummary, TaskResult
from evalwright.reports.findings import TaskStory
from evalwright.reports.text import one_line

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(
    run_id: str, summary: EvalSummary, broken_bars: Sequence[str], stories: Sequence[TaskStory]
) -> bytes:
    """The run as a JUnit report; a bar of the whole run that was missed is a failure of its own."""
    told = {story.task.task_id: story for story in stories}
    name = f"{summary.suite_id}@{summary.suite_version}"
    suite = ET.Element("testsuite", name=name)
    for result in summary.tasks:
        suite.append(_case(name, result, told.get(result.task_id)))
    for number, reason in enumerate(broken_bars, 1):
        case = ET.SubElement(suite, "testcase", classname=name, name=f"threshold-{number}")
        ET.SubElement(case, "failure", message=xml_text(reason), type="threshold")
    properties = ET.Element("properties")
    ET.SubElement(properties, "property", name="runId", value=run_id)
    suite.insert(0, properties)
    errors = sum(story.error is not None for story in stories)
    counts = {
        "tests": str(summary.task_count + len(broken_bars)),
        "failures": str(len(stories) - errors + len(broken_bars)),
        "errors": str(errors),
        "time": seconds(sum(result.latency_ms or 0 for result in summary.tasks)),
    }
    suite.attrib.update(counts)
    root = ET.Element("testsuites", counts)
    root.append(suite)
    return xml_document(root)


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
    match = story.task.expected.match
    wanted = f"expected {match.strategy} {one_line(match.value)}; " if match else ""
    failure = ET.SubElement(
        case, "failure", message=xml_text(f"{wanted}got {one_line(story.decision)}"), type="golden"
    )
    failure.text = xml_text(one_line(story.decision, None))
    return case


def seconds(milliseconds: float) -> str:
    """A duration as JUnit writes it."""
    return f"{milliseconds / 1000:.3f}"


def xml_text(text: str) -> str:
    """The text without the characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
