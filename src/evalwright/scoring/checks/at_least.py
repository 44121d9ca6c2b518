"""`at_least`: so many of several checks pass."""

from typing import Any

from evalwright.scoring.checks.base import (
    Answers,
    CheckKind,
    Examined,
    Look,
    Prepared,
    Preparing,
    RefusedCheck,
    fields,
)
from evalwright.scoring.checks.combined import (
    CHECKS_SCHEMA,
    broken,
    combined,
    look_at_all,
    prepare_all,
    told,
)


def _prepare(argument: Any, preparing: Preparing) -> Prepared:
    count, inner = argument["n"], prepare_all(argument["of"], preparing, "$.of")
    if count > len(inner):
        remedy = f"write {len(inner)} or less, or add checks"
        message = f"{count} of {len(inner)} checks can never pass"
        raise RefusedCheck(message, remedy, "$.n")

    def look(examined: Examined, answers: Answers) -> Look:
        looks = look_at_all(inner, examined, answers)
        expected = f"{count} of {len(inner)}"
        if unknown := broken(inner, looks, expected):
            return unknown
        passed = sum(each.passed for each in looks)
        actual = f"{passed} of {len(inner)}"
        if passed >= count:
            return Look(True, 1.0, expected, actual)
        reason = f"{passed} of {len(inner)} hold, {count} are wanted: {told(inner, looks)}"
        return Look(False, passed / count, expected, actual, reason)

    return combined("at_least", look, inner)


CHECK = CheckKind(
    name="at_least",
    description="At least `n` of these checks pass.",
    example="at_least: {n: 2, of: [{contains: red}, {contains: green}, {contains: blue}]}",
    schema=fields(["n", "of"], n={"type": "integer", "minimum": 1}, of=CHECKS_SCHEMA),
    prepare=_prepare,
    cause="wrong_answer",
)
