"""`not`: a check does not pass."""

from typing import Any

from evalwright.scoring.checks.base import (
    NESTED,
    Answers,
    CheckKind,
    Examined,
    Look,
    Prepared,
    Preparing,
)
from evalwright.scoring.checks.combined import combined
from evalwright.scoring.checks.quotes import quoted


def _prepare(argument: Any, preparing: Preparing) -> Prepared:
    inner = preparing.nested(argument, "$")

    def look(examined: Examined, answers: Answers) -> Look:
        seen = inner.look(examined, answers)
        expected = {"not": {inner.name: seen.expected}}
        if seen.broken:  # nobody knows, and that is no pass
            return Look(
                False, 0.0, expected, seen.actual, seen.reason, True, "missing_required_data"
            )
        if seen.passed:
            told = f" {quoted(seen.expected)}" if isinstance(seen.expected, str) else ""
            reason = f"{inner.name}{told} holds, and must not"
            return Look(False, 0.0, expected, seen.actual, reason)
        return Look(True, 1.0, expected, seen.actual)

    return combined("not", look, [inner])


CHECK = CheckKind(
    name="not",
    description="This check does not pass. One that could not be made does not pass here either.",
    example="not: {contains: sorry}",
    schema=NESTED,
    prepare=_prepare,
    cause="wrong_answer",
)
