"""Short words for tests of checks: what does a check say of an answer?"""

from typing import Any

from evalwright.contracts.coverage import Coverage
from evalwright.contracts.errors import Problem
from evalwright.contracts.verdicts import CheckResult
from evalwright.scoring.checks.base import Examined, MadeCall, run_checks
from evalwright.scoring.checks.table import prepare_checks

SEEN = Coverage("recorded", "recorded", "recorded")  # all that a test says, or does not say
SIGNAL_KINDS = ("secret_in_output", "injected_instruction_followed")


def said(check: dict[str, Any], output: Any = None, **examined: Any) -> CheckResult:
    examined["told"] = examined.pop("answers", {})
    prepared, problems = prepare_checks([check], "$.checks", SIGNAL_KINDS)
    assert problems == []
    examined.setdefault("coverage", SEEN)
    return run_checks(prepared, Examined(output=output, **examined))[0]


def passes(check: dict[str, Any], output: Any = None, **examined: Any) -> bool:
    return said(check, output, **examined).passed


def refused(check: Any) -> Problem:
    prepared, problems = prepare_checks([check], "$.checks", SIGNAL_KINDS)
    assert prepared == []
    return problems[0]


def asked(check: dict[str, Any]) -> Any:
    prepared, problems = prepare_checks([check], "$.checks", SIGNAL_KINDS)
    assert problems == []
    (ask,) = prepared[0].asks
    return ask


def calls(*tools: str | tuple[str, Any]) -> list[MadeCall]:
    return [MadeCall(each, {}) if isinstance(each, str) else MadeCall(*each) for each in tools]
