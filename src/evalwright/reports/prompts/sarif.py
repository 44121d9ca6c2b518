"""Records as SARIF 2.1.0: what the linter found, and what did not pass, with places."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from evalwright.contracts.prompt_result import FindingSeverity, PromptResult
from evalwright.prompts.change import percentages
from evalwright.prompts.evaluate import NO_TASK
from evalwright.prompts.results import percent
from evalwright.prompts.rules.rule_table import CATALOGUE
from evalwright.reports.formats.console import printable
from evalwright.reports.formats.sarif import fingerprint, rule_name, sarif_document
from evalwright.reports.prompts.context import ReportContext
from evalwright.reports.prompts.groups import File, FileRuns, Overview

BELOW_THRESHOLD = "below-threshold"
TEST_CASE_FAILED = "test-case-failed"

_LEVELS: dict[FindingSeverity, str] = {"error": "error", "warning": "warning", "info": "note"}
_ROOT = "%SRCROOT%"
_OUR_RULES = {
    BELOW_THRESHOLD: (
        "The prompt scores below the threshold.",
        "Improve the criteria that the message names, the worst first.",
    ),
    TEST_CASE_FAILED: (
        "A test case of the prompt failed.",
        "The prompt was run with its test data, and an evaluator did not accept the completion.",
    ),
}


def render_sarif(results: Sequence[PromptResult], context: ReportContext) -> bytes:
    """One run of the tool; an evaluation that could not be made is a notification."""
    overview = Overview(results)
    found = [each for file in overview.files for each in _results(file, context.texts)]
    # The whole catalogue, and those of our own that are needed.
    known = {
        rule.id: {
            "id": rule.id,
            "name": rule_name(rule.name),
            "shortDescription": {"text": rule.summary},
            "fullDescription": {"text": f"{rule.summary} {rule.explanation}"},
            "help": {"text": rule.explanation},
            "defaultConfiguration": {"level": _LEVELS[rule.severity]},
            "properties": {"tags": [rule.criterion], "fixable": rule.fixable},
        }
        for rule in CATALOGUE
    }
    others = [each for each in dict.fromkeys(one["ruleId"] for one in found) if each not in known]
    rules = [*known.values(), *map(_other_rule, others)]
    notifications = [
        {
            "level": "error",
            "descriptor": {"id": str(result.execution.error_code)},
            "message": {"text": _text(f"{group.judge}: {result.execution.error}")},
            "locations": [_location(group.path)],
        }
        for group in overview.groups
        for result in group.errors
    ]
    about = {
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            _ROOT: {"description": {"text": "The folder in which prompteval was called."}}
        },
        "invocations": [
            {
                "executionSuccessful": not notifications,
                "toolExecutionNotifications": notifications,
            }
        ],
    }
    automation = f"prompteval/tier-{context.tier.number}/"
    return sarif_document("prompteval", automation, rules, found, about)


def _results(file: File, texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    lines = texts.get(file.path, "").split("\n")
    seen: Counter[str] = Counter()
    for finding in file.findings:
        line = lines[finding.line - 1] if finding.line <= len(lines) else ""
        # Where the text is known the line itself tells findings apart, else what is said of it.
        mark = "\0".join(
            (finding.rule, " ".join(line.split()) or re.sub(r"\d+", "0", finding.message))
        )
        seen[mark] += 1
        is_told_only = file.status == "skipped" and finding.rule == NO_TASK
        yield {
            "ruleId": _text(finding.rule),
            "level": "note" if is_told_only else _LEVELS[finding.severity],
            "message": {"text": _text(finding.message)},
            "locations": [_location(file.path, finding.line, finding.column)],
            "partialFingerprints": _fingerprint(file.path, mark, str(seen[mark])),
            "properties": {"criterion": finding.criterion},
        }
    for group in file.groups:
        if group.status == "failed":
            # What did not pass, by the score or by test cases
            score = group.score
            assert score is not None
            if any(run < group.threshold for run in percentages(group.records)):
                words = f"{percent(score, group.threshold)} ({group.grade})"
                words += f", threshold {group.threshold:g}%"
                advice = "; ".join(group.recommendations)
                yield _failure(group, BELOW_THRESHOLD, "warning", f"{words}. {advice}")
            failed = [each for each in group.issues if each.startswith("test case ")]
            if failed:
                yield _failure(group, TEST_CASE_FAILED, "error", "; ".join(failed))


def _failure(group: FileRuns, rule: str, level: str, message: str) -> dict[str, Any]:
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": _text(f"{group.judge}: {message}")},
        "locations": [_location(group.path, 1, 1)],
        "partialFingerprints": _fingerprint(group.path, rule, group.judge),
    }


def _location(path: str, line: int | None = None, column: int | None = None) -> dict[str, Any]:
    try:
        name = path.encode("utf-8", "surrogateescape")  # the bytes of a name that is not text
    except UnicodeEncodeError:
        name = path.encode("utf-8", "backslashreplace")
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(name), "uriBaseId": _ROOT}}
    if line is not None:
        physical["region"] = {"startLine": line, "startColumn": column}
    return {"physicalLocation": physical}


def _fingerprint(*parts: str) -> dict[str, str]:
    return {"promptFinding/v1": fingerprint(*parts)}


def _other_rule(rule: str) -> dict[str, Any]:
    summary, advice = _OUR_RULES.get(rule, (f"Rule {_text(rule)} of another version.", ""))
    help_ = {"help": {"text": advice}} if advice else {}
    return {"id": rule, "name": rule_name(rule), "shortDescription": {"text": summary}, **help_}


def _text(text: str) -> str:
    return printable(text).strip() or "(no message)"
