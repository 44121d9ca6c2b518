"""`all`: every one of several checks passes."""

from typing import Any

from evalwright.scoring.checks.base import Answers, CheckKind, Examined, Look, Prepared, Preparing
from evalwright.scoring.checks.combined import (
    CHECKS_SCHEMA,
    broken,
    combined,
    look_at_all,
    prepare_all,
    told,
)


def _prepare(argument: Any, preparing: Preparing) -> Prepared:
    inner = prepare_all(argument, preparing, "$")
    total = sum(each.weight for each in inner) or 1.0

    def look(examined: Examined, answers: Answers) -> Look:
        looks = look_at_all(inner, examined, answers)
        expected = [each.expected for each in looks]
        if unknown := broken(inner, looks, expected):
            return unknown
        passed = all(each.passed for each in looks)
        score = sum(p.weight * each.score for p, each in zip(inner, looks, strict=True)) / total
        first = next((each for each in looks if not each.passed), looks[0])
        return Look(passed, min(1.0, score), expected, first.actual, told(inner, looks))

    return combined("all", look, inner)


CHECK = CheckKind(
    name="all",
    description="All of these checks pass; the score is their mean, by weight.",
    example="all: [{contains: shipped}, {not: {contains: sorry}}]",
    schema=CHECKS_SCHEMA,
    prepare=_prepare,
    cause="wrong_answer",
)
