"""`any`: at least one of several checks passes."""

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

    def look(examined: Examined, answers: Answers) -> Look:
        looks = look_at_all(inner, examined, answers)
        expected = [each.expected for each in looks]
        if unknown := broken(inner, looks, expected):
            return unknown
        best = max(looks, key=lambda each: (each.passed, each.score))
        if best.passed:
            return Look(True, best.score, best.expected, best.actual)
        reason = f"none of {len(inner)} holds: {told(inner, looks)}"
        return Look(False, best.score, expected, best.actual, reason)

    return combined("any", look, inner)


CHECK = CheckKind(
    name="any",
    description="At least one of these checks passes; the score is that of the best.",
    example='any: [{equals: "yes"}, {equals: y}]',
    schema=CHECKS_SCHEMA,
    prepare=_prepare,
    cause="wrong_answer",
)
