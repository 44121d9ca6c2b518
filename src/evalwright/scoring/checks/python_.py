"""`python`: a function of the user's own decides."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from evalwright.scoring.checks.base import (
    SHARE,
    AnswerCheck,
    Ask,
    CheckOutcome,
    CodeAsk,
    Examined,
    Unanswered,
    cannot_tell,
    fields,
)
from evalwright.scoring.checks.quotes import quoted, shown

_FUNCTION = {"type": "string", "pattern": r"^[^:]+(:\\[^:]+)?:[A-Za-z_][A-Za-z0-9_.]*$"}


class Python(AnswerCheck):
    """A function of your own, as `file.py:name` from the suite's folder, returns true, a score
    that passes at 1 or `at_least`, or a result with `passed`, `score` and `reason`.
    """

    example = "python: checks.py:is_polite"
    schema = {"anyOf": [_FUNCTION, fields(["function"], function=_FUNCTION, at_least=SHARE)]}
    main = "function"

    function: str
    at_least: float = 1.0

    @property
    def asks(self) -> Sequence[Ask]:
        return (CodeAsk(self.function),)

    def evaluate(self, examined: Examined) -> CheckOutcome:
        returned = examined.told.get(self.asks[0], Unanswered("the function was not called"))
        if isinstance(returned, Unanswered):
            return cannot_tell(self.function, returned.reason)
        try:
            passed, score, reason = _field(returned, "passed"), _field(returned, "score"), ""
            expected, actual = self.function, examined.shown_briefly
            if passed is None and score is None:
                passed, score = (returned, None) if isinstance(returned, bool) else (None, returned)
            else:
                reason = _readable(str(_field(returned, "reason") or "")[:2_000])
                expected = _readable(shown(_field(returned, "expected") or self.function))
                given = _field(returned, "actual")
                actual = actual if given is None else _readable(shown(given))
            if score is None and isinstance(passed, bool):
                score = float(passed)
            is_number = isinstance(score, int | float) and not isinstance(score, bool)
            is_score = is_number and math.isfinite(score) and 0 <= score <= 1
            if not is_score or not isinstance(passed, bool | None):
                wanted = "a bool, a number from 0 to 1, or a result with `passed` or `score`"
                return cannot_tell(
                    self.function, f"it returned {quoted(_told(returned))}, not {wanted}"
                )
            passed = score >= self.at_least if passed is None else passed
            said = reason or ("" if passed else f"{self.function} gave {quoted(_told(returned))}")
            return CheckOutcome(passed, float(score), expected, actual, said)
        except Exception as error:  # noqa: BLE001 - an object of the user's, whose fields may raise
            return cannot_tell(
                self.function, _readable(f"what it returned cannot be read: {error!r}")[:2_000]
            )


def portable(returned: Any) -> Any:
    """What a function returned, as another process can be given it: without the user's classes."""
    if isinstance(returned, Unanswered):
        return returned
    try:
        if returned is None or isinstance(returned, bool | int | float | str | dict | list):
            return msgspec.json.decode(msgspec.json.encode(returned))
        names = ("passed", "score", "reason", "expected", "actual")
        told = {name: shown(_field(returned, name)) for name in names}
        if told["passed"] is None and told["score"] is None:
            return _told(returned)  # which is no result, and is quoted
        return msgspec.json.decode(msgspec.json.encode(told, enc_hook=str))
    except Exception as error:  # noqa: BLE001 - an object of the user's, whose fields may raise
        return Unanswered(_readable(f"what it returned cannot be read: {error!r}")[:2_000])


def _field(returned: Any, name: str) -> Any:
    if isinstance(returned, dict):
        return returned.get(name, returned.get("pass") if name == "passed" else None)
    if returned is None or isinstance(returned, bool | int | float | str | list | tuple):
        return getattr(returned, name, None) if hasattr(returned, "_fields") else None
    value = getattr(returned, name, None)
    scalar = getattr(value, "item", None)  # of numpy and the like
    return value if scalar is None else scalar()


def _told(returned: Any) -> str:
    return str(_readable(returned if isinstance(returned, str) else repr(returned)))


def _readable(value: Any) -> Any:
    """A text without the halves of characters that JSON cannot carry."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
