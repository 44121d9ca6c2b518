"""`regex`: a pattern (RE2) is found in the output."""

from functools import lru_cache
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
from evalwright.scoring.checks.quotes import shown

_MOST_MATCHED = 10_000  # bytes of a match that is shown
_FLAG = {"type": "boolean"}


def _prepare(argument: Any, _preparing: Preparing) -> Prepared:
    options = argument if isinstance(argument, dict) else {"pattern": argument}
    pattern, full = options["pattern"], options.get("full", False)
    ignore_case = options.get("ignore_case", False)
    try:
        compiled = _compiled(pattern, ignore_case)
    except ValueError as error:
        place = "$.pattern" if isinstance(argument, dict) else "$"
        raise RefusedCheck(f"not a pattern of RE2: {error}", _remedy(pattern), place) from None
    matches = compiled.fullmatch if full else compiled.search
    where = "the whole output does not match" if full else "the output has no match of"

    def look(examined: Examined, _answers: Answers) -> Look:
        found = matches(examined.once(_encoded))
        if found is None:
            return Look(False, 0.0, pattern, examined.shown, f"{where} {pattern}")
        matched = found.group()[:_MOST_MATCHED].decode("utf-8", "replace")
        return Look(True, 1.0, pattern, shown(matched, brief=True))

    return Prepared("regex", look)


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


CHECK = CheckKind(
    name="regex",
    description=(
        "A pattern of RE2 is found in the output; with `full` it is all of it. "
        "(?i) ignores case, (?s) lets . match line ends, (?m) makes ^ and $ match at lines."
    ),
    example='regex: "A-[0-9]+"',
    schema={
        "anyOf": [
            {"type": "string", "minLength": 1},
            fields(
                ["pattern"],
                pattern={"type": "string", "minLength": 1},
                ignore_case=_FLAG,
                full=_FLAG,
            ),
        ]
    },
    prepare=_prepare,
    cause="format_violation",
    main="pattern",
)
