"""A comparison as JUnit: a case fails when its new side does, or when it asks for a gate."""

from xml.etree import ElementTree as ET

import msgspec

from evalwright.comparison.summary import facts_of
from evalwright.contracts.report import Item
from evalwright.reports.comparison.machine import MachineReport
from evalwright.reports.junit import seconds, xml_document, xml_text
from evalwright.reports.text import one_line


def render_comparison_junit(report: MachineReport) -> bytes:
    """One test case per case; a case without an answer is an error."""
    name = f"compare {report.report_id}"
    suite = ET.Element("testsuite", name=xml_text(name))
    counts = {"failure": 0, "error": 0}
    for item in report.items:
        suite.append(_case(name, item, counts))
    suite.attrib.update(
        tests=str(len(report.items)), failures=str(counts["failure"]), errors=str(counts["error"])
    )
    root = ET.Element(
        "testsuites", {key: suite.attrib[key] for key in ("tests", "failures", "errors")}
    )
    root.append(suite)
    return xml_document(root)


def _case(name: str, item: Item, counts: dict[str, int]) -> ET.Element:
    latency = 0 if item.latency_ms is msgspec.UNSET else item.latency_ms.new
    case = ET.Element(
        "testcase", classname=xml_text(name), name=xml_text(item.case_id), time=seconds(latency)
    )
    gated = item.security.new.requires_gate_recommendation
    if item.new_pass and not gated:
        return case
    failures = item.failed_assertions.new
    tag = "failure" if facts_of(item).new.answered else "error"
    counts[tag] += 1
    kind = "gate" if gated else "regression" if item.change == "regression" else "still_failing"
    lines = [f"{each.name}: {one_line(each.message, 500)}" for each in failures]
    lines += [
        f"{each.severity} {each.kind}: {one_line(each.title)}" for each in item.security.new.signals
    ]
    found = ET.SubElement(case, tag, message=xml_text(_message(item)), type=kind)
    found.text = xml_text("\n".join(lines))
    return case


def _message(item: Item) -> str:
    if item.security.new.requires_gate_recommendation:
        return item.governance_preview.new.reason
    before = "passed before" if item.baseline_pass else "failed before, too"
    root = "unknown" if item.new_root is msgspec.UNSET else item.new_root
    return f"{root} ({before})"
