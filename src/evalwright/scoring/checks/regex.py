"""`regex`: a pattern (RE2) is found in the output."""

from functools import cached_property, lru_cache
from typing import Any

from evalwright.scoring.checks.base import (
    AnswerCheck,
    CheckOutcome,
    Examined,
    Preparing,
    RefusedCheck,
    fields,
)
from evalwright.scoring.checks.quotes import shown

_MOST_MATCHED = 10_000  # bytes of a match that is shown
_FLAG = {"type": "boolean"}
_PATTERN = {"type": "string", "minLength": 1}


class Regex(AnswerCheck):
    """A pattern of RE2 is found in the output; with `full` it is all of it.
    (?i) ignores case, (?s) lets . match line ends, (?m) makes ^ and $ match at lines.
    """

    example = 'regex: "A-[0-9]+"'
    schema = {
        "anyOf": [
            _PATTERN,
            fields(["pattern"], pattern=_PATTERN, ignore_case=_FLAG, full=_FLAG),
        ]
    }
    main = "pattern"
    cause = "format_violation"

    pattern: str
    full: bool = False
    ignore_case: bool = False

    @classmethod
    def of(cls, argument: Any, preparing: Preparing) -> AnswerCheck:
        check = super().of(argument, preparing)
        assert isinstance(check, Regex)
        try:
            _compiled(check.pattern, check.ignore_case)
        except ValueError as error:
            place = "$.pattern" if isinstance(argument, dict) else "$"
            remedy = _remedy(check.pattern)
            raise RefusedCheck(f"not a pattern of RE2: {error}", remedy, place) from None
        return check

    @cached_property
    def _match(self) -> Any:
        compiled = _compiled(self.pattern, self.ignore_case)
        return compiled.fullmatch if self.full else compiled.search

    def evaluate(self, examined: Examined) -> CheckOutcome:
        found = self._match(examined.once(_encoded))
        if found is None:
            where = "the whole output does not match" if self.full else "the output has no match of"
            reason = f"{where} {self.pattern}"
            return CheckOutcome(False, 0.0, self.pattern, examined.shown, reason)
        matched = found.group()[:_MOST_MATCHED].decode("utf-8", "replace")
        return CheckOutcome(True, 1.0, self.pattern, shown(matched, brief=True))


def _encoded(examined: Examined) -> bytes:
    return examined.text.encode("utf-8", "replace")


@lru_cache(maxsize=1024)
def _compiled(pattern: str, ignore_case: bool) -> Any:  # noqa: FBT001
    import re2

    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False
    try:
        # Texts are searched as bytes: for others the library counts characters, which takes longer.
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        said = error.args[0] if error.args else error
        told = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise ValueError(told) from None


def _remedy(pattern: str) -> str:
    if any(mark in pattern for mark in ("(?=", "(?!", "(?<=", "(?<!")):
        return "RE2 cannot look ahead or behind; say it with two checks, such as `not: {regex: …}`"
    if any(f"\\{number}" in pattern for number in range(1, 10)):
        return "RE2 cannot refer back to a group; check that part by `python`"
    return "see the syntax of RE2; a backslash is written twice between double quotes"
