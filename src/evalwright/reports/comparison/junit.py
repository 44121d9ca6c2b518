"""A comparison as JUnit: a case fails when its new side does, or when it asks for a gate."""

import msgspec

from evalwright.comparison.summary import facts_of
from evalwright.contracts.report import Item
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
    cases = [_case(name, item) for item in report.items]
    return junit_document([JunitSuite(name, cases, None, properties)])


def _case(name: str, item: Item) -> JunitCase:
    latency = 0 if item.latency_ms is msgspec.UNSET else item.latency_ms.new
    passed = item.new_pass and not item.security.new.requires_gate_recommendation
    called, problem = case_called(item.case_id, item.title), None if passed else _problem(item)
    if passed and item.expected is False:
        told = difference(item) or "answer and calls are the same"
        message = f"nothing was expected: {told}"
        problem = JunitProblem("skipped", "nothing_expected", message, _found(item))
    return JunitCase(name, called.name, latency, problem, title=called.beside)


def _found(item: Item) -> str:
    lines = [f"{each.name}: {one_line(each.message, 500)}" for each in item.failed_assertions.new]
    signals = item.security.new.signals
    lines += [f"{each.severity} {each.kind}: {one_line(each.title)}" for each in signals]
    return "\n".join(lines)


def _problem(item: Item) -> JunitProblem:
    new = item.security.new
    if new.requires_gate_recommendation:
        kind, message = "gate", item.governance_preview.new.reason
    else:
        kind = "regression" if item.change == "regression" else "still_failing"
        before = "passed before" if item.baseline_pass else "also failed before"
        root = "unknown" if item.new_root is msgspec.UNSET else item.new_root
        message = f"{root} ({before})"
    answered = facts_of(item).new.answered
    return JunitProblem("failure" if answered else "error", kind, message, _found(item))
