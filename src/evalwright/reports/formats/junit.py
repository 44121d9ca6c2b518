"""JUnit XML as CI systems read it: suites of test cases, with counts that add up."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple
from xml.etree import ElementTree as ET

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JunitProblem(NamedTuple):
    """Why a test case did not pass: it failed, could not be evaluated, or was passed over."""

    tag: Literal["failure", "error", "skipped"]
    kind: str
    message: str
    text: str = ""


class JunitCase(NamedTuple):
    """One test case."""

    classname: str
    name: str
    milliseconds: float | None = None
    problem: JunitProblem | None = None
    file: str = ""
    title: str = ""


class JunitSuite(NamedTuple):
    """Test cases that belong together; `milliseconds` is what all of them took, where known."""

    name: str
    cases: Sequence[JunitCase]
    milliseconds: float | None = None
    properties: Sequence[tuple[str, str]] = ()


def junit_document(suites: Sequence[JunitSuite]) -> bytes:
    """The suites as a document."""
    known = [suite.milliseconds for suite in suites if suite.milliseconds is not None]
    cases = [case for suite in suites for case in suite.cases]
    root = ET.Element("testsuites", _counts(cases, sum(known) if known else None))
    root.extend(map(_suite, suites))
    ET.indent(root)
    text = ET.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _counts(cases: Iterable[JunitCase], milliseconds: float | None) -> dict[str, str]:
    found = [case.problem.tag if case.problem else "" for case in cases]
    counts = {
        "tests": str(len(found)),
        "failures": str(found.count("failure")),
        "errors": str(found.count("error")),
    }
    if "skipped" in found:
        counts["skipped"] = str(found.count("skipped"))
    return counts if milliseconds is None else {**counts, "time": _seconds(milliseconds)}


def _suite(suite: JunitSuite) -> ET.Element:
    counts = _counts(suite.cases, suite.milliseconds)
    element = ET.Element("testsuite", {"name": _xml_text(suite.name), **counts})
    if suite.properties:
        properties = ET.SubElement(element, "properties")
        for name, value in suite.properties:
            ET.SubElement(properties, "property", name=name, value=_xml_text(value))
    element.extend(map(_case, suite.cases))
    return element


def _case(case: JunitCase) -> ET.Element:
    element = ET.Element("testcase", classname=_xml_text(case.classname), name=_xml_text(case.name))
    if case.file:
        element.set("file", _xml_text(case.file))
    if case.milliseconds is not None:
        element.set("time", _seconds(case.milliseconds))
    if case.title:
        properties = ET.SubElement(element, "properties")
        ET.SubElement(properties, "property", name="title", value=_xml_text(case.title))
    if case.problem is not None:
        tag, kind, message, text = case.problem
        problem = ET.SubElement(element, tag, message=_xml_text(message), type=_xml_text(kind))
        problem.text = _xml_text(text) or None
    return element


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.3f}"


def _xml_text(text: str) -> str:
    """The text without the characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
