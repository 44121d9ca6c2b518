"""Golden scoring: the table of strategies, and what runs, checks and reports ask of it."""

from typing import Any

import msgspec

from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.jsonvalue import NotJson
from evalwright.contracts.suite import Match, Suite, check_suite_document, parse_suite
from evalwright.scoring.strategies import CONTAINS, EXACT, JSON_MATCH

PASSING_GOLDEN_SCORE = 1.0

# A new strategy is a module and one line here.
STRATEGIES = {each.name: each for each in (EXACT, CONTAINS, JSON_MATCH)}


def score_golden(output: Any, match: Match) -> float:
    """1.0 when the output meets the expectation, else 0.0."""
    return 1.0 if STRATEGIES[match.strategy].matches(output, match.value) else 0.0


def explain_difference(output: Any, strategy: Any, value: Any) -> str:
    """Where an output differs from what was expected of it.

    Empty where it does not differ, and where that cannot be said: of a strategy that is not known
    here, and of values that a run of our own cannot hold.
    """
    known = STRATEGIES.get(strategy) if isinstance(strategy, str) else None
    try:
        return known.explain(output, value) if known and not known.matches(output, value) else ""
    except NotJson:
        return ""


def golden_assertion(match: Match) -> dict[str, Any]:
    """What a case of a compare report expects; empty where only the score can tell."""
    known = STRATEGIES.get(match.strategy)
    return known.assertion(match.value) if known else {}


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
        elif known.refuse is not None and (reason := known.refuse(match.value)) is not None:
            problems.append(Problem(f"{path}.value", reason))
    return problems
