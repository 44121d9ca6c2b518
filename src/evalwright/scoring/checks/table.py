"""The table of checks, and what runs, validation and comparisons ask of it."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from evalwright.contracts.errors import Problem
from evalwright.contracts.verdicts import CheckResult
from evalwright.scoring.checks import contains
from evalwright.scoring.checks.base import Answers, CheckKind, Examined, Prepared, RefusedCheck

# A new check is a module and one line here.
CHECKS: dict[str, CheckKind] = {check.name: check for check in (contains.CHECK,)}


def prepare_checks(documents: Sequence[Any], path: str) -> tuple[list[Prepared], list[Problem]]:
    """Checks from their documents, and every problem of those that cannot be used."""
    prepared, problems = [], []
    for index, document in enumerate(documents):
        place = f"{path}[{index}]"
        try:
            prepared.append(_prepare(document, place))
        except RefusedCheck as refused:
            problems.append(Problem(refused.path, refused.message, refused.remedy))
    return prepared, problems


def _prepare(document: Any, path: str) -> Prepared:
    names = [key for key in document if key != "weight"] if isinstance(document, dict) else []
    if len(names) != 1 or names[0] not in CHECKS:
        known = ", ".join(CHECKS)
        raise RefusedCheck("not a check", f"write one of {known} with its argument", path)
    name = names[0]
    prepared = CHECKS[name].prepare(document[name], _prepare)
    return msgspec.structs.replace(prepared, weight=document.get("weight", 1.0))


def run_checks(
    prepared: Sequence[Prepared], examined: Examined, answers: Answers
) -> list[CheckResult]:
    """What each check says of an answer."""
    results = []
    for check in prepared:
        seen = check.look(examined, answers)
        results.append(
            CheckResult(
                check.name,
                seen.passed,
                seen.score,
                seen.expected,
                seen.actual,
                seen.reason,
                check.weight,
            )
        )
    return results


def verdict_of(results: Sequence[CheckResult], threshold: float | None) -> tuple[float, bool]:
    """The score of an answer, and whether it passes."""
    total = math.fsum(each.weight for each in results)
    score = math.fsum(each.weight * each.score for each in results) / total if total else 1.0
    if threshold is not None:
        return score, score >= threshold
    return score, all(each.passed for each in results)
