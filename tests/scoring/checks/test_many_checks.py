"""A thousand checks of one very long answer: what they share is found once."""

import json
import random

import pytest
from looking import said

from effort import takes_at_most
from evalwright.scoring.checks.base import Examined, run_checks
from evalwright.scoring.checks.table import prepare_checks

COUNT = 1_000
LENGTH = 1_500_000
LIMIT_S = 0.5  # of CPU, for all checks of an answer; twice that where the machine is a slow one
PROSE = "".join(f"The order has been shipped to customer {n}. " for n in range(LENGTH // 40))[
    :LENGTH
]
UMLAUTS = ("Größe und Maß " * (LENGTH // 14))[:LENGTH]
ITEMS = [{"id": n, "name": f"item {n}", "price": n * 1.5} for n in range(LENGTH // 50)]
TEXT = json.dumps({"items": ITEMS})
_chosen = random.Random(7)
NUMBERS = " ".join(str(_chosen.randint(0, 99_999)) for _ in range(LENGTH // 6))[:LENGTH]


def numbered(form):
    return [form(n) for n in range(COUNT)]


CHECKS = {
    "contains": (numbered(lambda n: {"contains": f"absent {n}"}), PROSE),
    "contains, of which some are": (numbered(lambda n: {"contains": f"customer {n}9."}), PROSE),
    "contains, in any case": (
        numbered(lambda n: {"contains": {"value": f"ABSENT {n}", "ignore_case": True}}),
        PROSE,
    ),
    "contains, of any language": (
        numbered(lambda n: {"contains": {"value": f"GRÖSSE {n}", "ignore_case": True}}),
        UMLAUTS,
    ),
    "contains_all": (
        [{"contains_all": [f"{n} {m}" for m in range(10)]} for n in range(100)],
        PROSE,
    ),
    "any": ([{"any": numbered(lambda n: {"contains": f"absent {n}"})}], PROSE),
    "not": (numbered(lambda n: {"not": {"contains": f"absent {n}"}}), PROSE),
    "starts_with": (numbered(lambda n: {"starts_with": f"absent {n}"}), PROSE),
    "equals": (numbered(lambda n: {"equals": f"{PROSE[:500]}{n}"}), PROSE),
    "equals, of data": (numbered(lambda n: {"equals": {"items": n}}), TEXT),
    "number": (numbered(lambda n: {"number": n + 0.5}), NUMBERS),
    "number, the last": (numbered(lambda n: {"number": {"value": n, "which": "last"}}), NUMBERS),
    "number, of data": (numbered(lambda n: {"number": -n}), {"items": ITEMS}),
    "similar": (numbered(lambda n: {"similar": f"Order {n} was not shipped at all"}), PROSE),
    "similar, long": (numbered(lambda n: {"similar": PROSE[n : n + 900]}), PROSE),
    "regex": (numbered(lambda n: {"regex": f"A-{n}-[0-9]+"}), PROSE),
    "json": (numbered(lambda n: {"json": {"path": f"$.items[{n}].id", "equals": -1}}), TEXT),
    "json, each": (
        numbered(lambda n: {"json": {"path": "$.items[*].name", "contains": f"item {n}-"}}),
        TEXT,
    ),
    "json, subset": (numbered(lambda n: {"json": {"subset": {"items": [{"id": n}]}}}), TEXT),
    "json, no subset": (numbered(lambda n: {"json": {"subset": {"items": n}}}), TEXT),
    "json, schema": (numbered(lambda n: {"json": {"schema": {"required": [f"f{n}"]}}}), TEXT),
}


@pytest.mark.parametrize("kind", CHECKS)
def test_they_take_a_moment_and_say_together_what_each_says_alone(kind):
    """Hints aside, of which a long answer gets only so many."""
    documents, output = CHECKS[kind]
    prepared, problems = prepare_checks(documents, "$")
    assert problems == []
    results = []

    def look():
        results[:] = run_checks(prepared, Examined(output=output))

    assert takes_at_most(2 * LIMIT_S, look)
    for document, together in [*zip(documents, results, strict=True)][:: COUNT // 3]:
        alone = said(document, output)
        for field in ("passed", "score", "actual"):
            assert getattr(alone, field) == getattr(together, field)


def test_texts_that_are_found_everywhere_are_found_as_well():
    texts = [*["a" * n for n in range(1, 40)], "a" * 30 + "b", "b"]
    prepared, _ = prepare_checks([{"contains": text} for text in texts], "$")
    for output in ("a" * 200_000, "a" * 200_000 + "b"):
        results = run_checks(prepared, Examined(output=output))
        assert [each.passed for each in results] == [text in output for text in texts]


def test_only_so_many_misses_of_a_long_answer_have_a_hint():
    checks = [{"contains": f"the ORDER has been shipped to customer {n}."} for n in range(200)]
    prepared, _ = prepare_checks(checks, "$")
    reasons = [each.reason for each in run_checks(prepared, Examined(output=PROSE))]
    assert "in another case" in reasons[0]
    assert "in another case" not in reasons[-1]
    assert all("is not in the output" in reason for reason in reasons)
