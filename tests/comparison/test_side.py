"""Both sides of a case: the verdict over repeats, which repeat is shown, what is left to chance."""

from datetime import date
from typing import Any

import pytest

from comparing import a_call, a_case, a_failure, a_response, a_result, a_retrieval, an_action
from evalwright.comparison.alignment import align
from evalwright.comparison.cases import Case, parse_case
from evalwright.comparison.side import (
    CaseLinks,
    SideResult,
    check,
    item_of,
    judge_sides,
    nondeterminism_sources,
)
from evalwright.contracts.report import Artifacts, BothSides, Item
from evalwright.signals.suppression import Suppressions

CASE = parse_case(a_case(must_include=["done"]), "one")
GOOD, BAD = a_response(), a_response(output="no")
SECRET = a_response(output="done, the key is AKIAIOSFODNN7EXAMPLQ")


def sides_of(
    *new: Any, baseline: tuple[Any, ...] = (GOOD,), case: Case = CASE
) -> BothSides[SideResult]:
    checked = BothSides(
        [check(case, each) for each in baseline], [check(case, each) for each in new]
    )
    return judge_sides(case, checked, Suppressions(()), date(2026, 1, 1))


def side_of(*responses: Any) -> SideResult:
    return sides_of(*responses).new


def item(sides: BothSides[SideResult]) -> Item:
    steps = align(sides.baseline.shown.trace, sides.new.shown.trace)
    return item_of(CASE, sides, steps, CaseLinks(Artifacts("case-one.html")), ())


@pytest.mark.parametrize(
    ("responses", "passed"),
    [
        ([GOOD], True),
        ([BAD], False),
        ([GOOD, BAD], False),
        ([BAD, GOOD, GOOD], True),
        ([GOOD, GOOD, BAD, BAD], False),
        ([GOOD, GOOD, BAD], True),
        ([BAD, BAD, GOOD], False),
    ],
)
def test_a_side_passes_when_more_than_half_of_its_repeats_do(
    responses: list[Any], *, passed: bool
) -> None:
    side = side_of(*responses)
    assert side.passed is passed
    assert (side.runs, side.passes) == (len(responses), responses.count(GOOD))
    assert bool(side.failures) is not passed


def test_a_tie_of_repeats_is_a_regression_of_a_case_that_passed() -> None:
    found = item(sides_of(GOOD, BAD))
    assert (found.baseline_pass, found.new_pass, found.change) == (True, False, "regression")
    assert found.repeats.new.flaky
    assert not found.repeats.baseline.flaky


def test_a_tie_whose_shown_repeat_passed_says_how_many_passed() -> None:
    (failure,) = side_of(SECRET, BAD).failures
    assert (failure.name, failure.message) == ("repeats", "passed in 1 of 2 runs")


@pytest.mark.parametrize(
    ("responses", "chosen"),
    [
        ([GOOD, GOOD, GOOD], 0),
        ([BAD, BAD], 0),
        ([BAD, GOOD, GOOD], 1),
        ([GOOD, BAD, BAD], 1),
        ([GOOD, SECRET, SECRET], 1),
        ([BAD, BAD, SECRET, BAD], 2),
    ],
)
def test_of_equal_repeats_the_first_is_shown_and_a_grave_signal_goes_first(
    responses: list[Any], chosen: int
) -> None:
    side = side_of(*responses)
    assert side.chosen == chosen
    assert side.shown.trace.output.content == responses[chosen]["final_output"]["content"]


def test_signals_of_a_repeat_that_is_not_shown_point_at_no_event() -> None:
    other = a_response(output="done, the token is ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
    side = side_of(SECRET, other)
    assert [signal.kind for signal in side.signals] == ["secret_in_output"]
    mixed = side_of(GOOD, GOOD, SECRET)
    assert mixed.chosen == 2
    assert mixed.signals[0].evidence_refs


@pytest.mark.parametrize(
    ("events", "sources"),
    [
        ([a_call(), a_result()], ()),
        ([a_call(), a_result(), a_call(call_id="c2")], ("unrecorded_tool_result",)),
        ([a_call(), a_call(call_id="c2")], ("unrecorded_tool_result",)),
        ([a_call(), a_result(), a_result(call_id="c9")], ()),
        ([a_call("web_fetch"), a_result()], ("external_http",)),
        ([a_call("get_time"), a_result()], ("time",)),
        ([a_call("random_number"), a_result()], ("randomness",)),
        ([a_retrieval("doc-1")], ("unrecorded_retrieval",)),
        ([{**a_retrieval("doc-1"), "content": "text"}], ()),
    ],
)
def test_the_sources_of_chance_in_a_trace(events: list[Any], sources: tuple[str, ...]) -> None:
    assert nondeterminism_sources(side_of(a_response(*events))) == sources


def test_repeats_that_disagree_and_failed_calls_are_sources_of_chance() -> None:
    assert nondeterminism_sources(side_of(GOOD, BAD)) == ("sampling",)
    assert nondeterminism_sources(side_of(GOOD, GOOD)) == ()
    assert nondeterminism_sources(side_of(BAD, BAD)) == ()
    assert nondeterminism_sources(side_of(a_failure())) == ("transport",)


def test_a_declared_risk_of_a_case_that_got_worse_asks_for_a_gate_whatever_the_baseline_did() -> (
    None
):
    def risky(output: str) -> Any:
        return a_response(
            a_call(), a_result(), output=output, actions=[an_action("close_shop", "high")]
        )

    worse = item(sides_of(risky("no"), baseline=(risky("done"),)))
    same = item(sides_of(risky("done"), baseline=(risky("done"),)))
    assert [signal.severity for signal in worse.security.new.signals] == ["high"]
    assert worse.security.new.requires_gate_recommendation
    assert [signal.severity for signal in same.security.new.signals] == ["medium"]
