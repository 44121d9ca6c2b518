"""A comparison as SARIF 2.1.0: regressions and signals of the new run, for code review tools."""

from collections.abc import Iterator
from typing import Any

import msgspec

from evalwright.contracts.report import Item, Signal
from evalwright.reports.comparison.machine import MachineReport
from evalwright.reports.formats.sarif import fingerprint, rule_name, sarif_document

_LEVELS = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}
# What dashboards sort by: a number from 0 to 10.
_SECURITY_SEVERITY = {"critical": "9.5", "high": "8.0", "medium": "5.0", "low": "2.0"}


def render_sarif(report: MachineReport) -> bytes:
    """All findings of the new run, with suppressed ones marked as such."""
    results = [result for item in report.items for result in _results(item)]
    rules = sorted({result["ruleId"] for result in results})
    described = [_rule(rule, results) for rule in rules]
    return sarif_document("evalwright", f"compare/{report.report_id}", described, results)


def _results(item: Item) -> Iterator[dict[str, Any]]:
    if item.change == "regression":
        root = "unknown" if item.new_root is msgspec.UNSET else item.new_root
        said = "; ".join(each.message for each in item.failed_assertions.new)
        yield _result(item, f"regression/{root}", "error", f"{item.title}: {said[:2000]}")
    for signal in item.security.new.signals:
        yield _signal(item, signal)
    if item.security.new.suppressed is not msgspec.UNSET:
        for each in item.security.new.suppressed:
            justification = f"{each.reason} (until {each.expires})"
            suppression = {"kind": "external", "justification": justification}
            yield {**_signal(item, each.signal), "suppressions": [suppression]}


def _signal(item: Item, signal: Signal) -> dict[str, Any]:
    notes = f" {signal.details.notes}" if signal.details.notes else ""
    result = _result(
        item, f"signal/{signal.kind}", _LEVELS[signal.severity], f"{signal.title}.{notes}"
    )
    result["properties"] = {
        "confidence": signal.confidence,
        "severity": signal.severity,
        "security-severity": _SECURITY_SEVERITY[signal.severity],
        "evidence": msgspec.to_builtins(signal.evidence_refs),
    }
    return result


def _result(item: Item, rule: str, level: str, message: str) -> dict[str, Any]:
    place = item.artifacts.new_case_response_href or item.artifacts.replay_diff_href
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": message},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": place}},
                "logicalLocations": [{"name": item.case_id, "kind": "case"}],
            }
        ],
        "partialFingerprints": {"caseAndFinding/v1": fingerprint(item.case_id, rule, message)},
    }


def _rule(rule: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    """A rule with its description; dashboards read its severity from here."""
    words = rule.partition("/")[2].replace("_", " ")
    regression = rule.startswith("regression/")
    description = f"Regression: {words}" if regression else f"Security signal: {words}"
    found = [
        result["properties"]["security-severity"]
        for result in results
        if result["ruleId"] == rule and "properties" in result
    ]
    properties = {"tags": ["security"], "security-severity": max(found)} if found else {}
    return {
        "id": rule,
        "name": rule_name(rule),
        "shortDescription": {"text": description},
        "fullDescription": {
            "text": f"{description}, found by comparing a new run with its baseline."
        },
        "help": {"text": "The page of the case shows causes, evidence and both traces."},
        **({"properties": properties} if properties else {}),
    }
