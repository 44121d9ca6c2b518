"""Golden scoring: the table of strategies, and what runs, checks and reports ask of it."""

from typing import Any

import msgspec

from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.jsonvalue import NotJson
from evalwright.contracts.suite import Match, Suite, check_suite_document, parse_suite
from evalwright.scoring.strategies import Exact, GoldenCheck, Included, JsonMatch

PASSING_GOLDEN_SCORE = 1.0
_JSON_MARKS = frozenset('{}[]"')


# A new strategy is a class and one line here.
STRATEGIES: dict[str, type[GoldenCheck]] = {
    each.name: each for each in (Exact, Included, JsonMatch)
}


def explain_difference(output: Any, strategy: Any, value: Any) -> str:
    """Where an output differs from what was expected of it.

    Empty where it does not differ, and where that cannot be said: of a strategy that is not known
    here, and of values that a run of our own cannot hold.
    """
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        return ""
    check = STRATEGIES[strategy](value)
    try:
        return "" if check.matches(output) else check.difference(output)
    except NotJson:
        return ""


def golden_assertion(match: Match) -> dict[str, Any]:
    """What a case of a compare report expects; empty where only the score can tell.

    Text that looks like JSON is left to the score: an output that is an object is compared in its
    canonical form, which is not the text that an assertion sees.
    """
    known, value = STRATEGIES.get(match.strategy), match.value
    if known is None or not known.is_assertion:
        return {}
    is_plain = isinstance(value, str) and value and not _JSON_MARKS & set(value)
    return {"must_include": [value]} if is_plain else {}


def read_suite(source: bytes, name: str) -> Suite:
    """A suite from the content of a file, with every strategy of the table.

    `parse_suite` knows only those of the published schema, which make a suite portable.
    """
    suite = parse_suite(source, name, STRATEGIES)
    if problems := match_problems(suite):
        raise InvalidDocument(name, problems)
    return suite


def check_suite(document: Any) -> list[Problem]:
    """Every rule that a suite document breaks, those of its strategies among them."""
    problems = check_suite_document(document, STRATEGIES)
    return problems or match_problems(msgspec.convert(document, Suite, strict=False))


def match_problems(suite: Suite) -> list[Problem]:
    """Every strategy that is not known, and every value that its strategy refuses."""
    problems = []
    for index, task in enumerate(suite.tasks):
        match, path = task.expected.match, f"$.tasks[{index}].expected.match"
        if match is None:
            continue
        known = STRATEGIES.get(match.strategy)
        if known is None:
            message = f"unknown strategy {match.strategy!r}"
            problems.append(Problem(f"{path}.strategy", message, f"one of {', '.join(STRATEGIES)}"))
        elif (reason := known.refuse(match.value)) is not None:
            problems.append(Problem(f"{path}.value", reason))
    return problems
