"""A comparison as JUnit: a case fails when its new side does, or when it asks for a gate."""

from typing import Literal

import msgspec

from evalwright.comparison.summary import facts_of
from evalwright.engine.task_names import case_called
from evalwright.reports.comparison.machine import MachineReport
from evalwright.reports.comparison.overview import difference
from evalwright.reports.formats.console import one_line
from evalwright.reports.formats.junit import JunitCase, JunitProblem, JunitSuite, junit_document


def render_junit(report: MachineReport) -> bytes:
    """One test case per case; without an answer it is an error, with nothing expected skipped."""
    name = f"compare {report.report_id}"
    found = report.summary.significance
    properties = [("verdict", report.summary.verdict)]
    properties += [] if found is msgspec.UNSET else [("baseline", found.sentence)]
    cases = []
    for item in report.items:
        latency = 0 if item.latency_ms is msgspec.UNSET else item.latency_ms.new
        failed, signals = item.failed_assertions.new, item.security.new.signals
        lines = [f"{each.name}: {one_line(each.message, 500)}" for each in failed]
        lines += [f"{each.severity} {each.kind}: {one_line(each.title)}" for each in signals]
        tag: Literal["failure", "error", "skipped"]
        tag, problem = "failure" if facts_of(item).new.answered else "error", None
        if item.security.new.requires_gate_recommendation:
            kind, message = "gate", item.governance_preview.new.reason
        elif not item.new_pass:
            kind = "regression" if item.change == "regression" else "still_failing"
            before = "passed before" if item.baseline_pass else "also failed before"
            root = "unknown" if item.new_root is msgspec.UNSET else item.new_root
            message = f"{root} ({before})"
        elif item.expected is False:
            tag, kind = "skipped", "nothing_expected"
            told = difference(item) or "answer and calls are the same"
            message = f"nothing was expected: {told}"
        else:
            kind = message = ""
        if kind:
            problem = JunitProblem(tag, kind, message, "\n".join(lines))
        called = case_called(item.case_id, item.title)
        cases.append(JunitCase(name, called.name, latency, problem, title=called.subtitle))
    return junit_document([JunitSuite(name, cases, None, properties)])
