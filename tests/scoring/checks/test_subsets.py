"""`json: {subset}`: each item that is wanted of a list has one of its own, however long it is."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from looking import calls, passes, said

from effort import takes_at_most
from evalwright.contracts.events import RowChange
from evalwright.scoring.checks import subsets
from evalwright.scoring.checks.base import EndState
from strategies import json_values

LONG = 5_000


def subset(wanted):
    return {"json": {"subset": wanted}}


@pytest.mark.parametrize(
    ("wanted", "output", "reason"),
    [
        ([2, 2, 2], [2], "$: 3 items are to be 2, got 1"),
        ([2, 2, 2], [2, 3, 2.0], "$: 3 items are to be 2, got 2"),
        ([2], [True], "$: no item is 2"),
        ([{"a": 1}, {"a": 1}], [{"a": 1, "b": 2}], '$: 2 items are to be {"a":1}, got 1'),
        ([{"a": 1}, {"b": 2}], [{"a": 1, "b": 2}], 'no item is left to be {"b":2}: the item that'),
        ([5, {"number": 5}], [5, 6], "no item is left to be"),
        ([[1], [1]], [[1, 1]], "$: 2 items are to be [1], got 1"),
        ({"a": [[], []]}, {"a": [[1]]}, "$.a: 2 items are to be [], got 1"),
    ],
)
def test_an_item_stands_for_one_that_is_wanted(wanted, output, reason):
    result = said(subset(wanted), output)
    assert not result.passed
    assert reason in result.reason


@pytest.mark.parametrize(
    ("wanted", "output"),
    [
        ([2, 2], [2, 1, 2]),
        ([{"number": {"between": [1, 3]}}, 2], [2, 3]),
        ([{"number": {"between": [1, 9]}}, {"number": {"between": [1, 3]}}, 2], [2, 3, 4]),
        ([{"a": {"number": {"between": [1, 9]}}}, {"a": 5}], [{"a": 5}, {"a": 6}]),
        ([{"a": {"b": 1}}, {"c": 2}], [{"c": 2, "a": {"b": 1}}, {"a": {"b": 1}}]),
        ([[], [1]], [[1], [2]]),
        ([None, True, "x"], ["x", None, True, 1]),
    ],
)
def test_what_chose_first_gives_way_where_that_helps(wanted, output):
    assert passes(subset(wanted), output)
    assert passes(subset(wanted[::-1]), output[::-1])


small = st.lists(st.sampled_from([1, 2, 3]), max_size=4)
kinds = st.sampled_from(
    [1, 2, {"number": {"between": [1, 2]}}, {"number": {"between": [2, 3]}}, {"number": 9}]
)


@given(st.lists(kinds, max_size=4), small)
def test_a_pairing_is_found_if_there_is_one(wanted, output):
    fits = [[passes(subset([each]), [item]) for item in output] for each in wanted]
    exists = any(
        all(row[place] for row, place in zip(fits, places, strict=True))
        for places in permutations(range(len(output)), len(wanted))
    )
    assert passes(subset(wanted), output) is exists


@given(json_values)
def test_every_value_is_a_subset_of_itself(value):
    assert passes({"json": {"subset": {"a": {"equals": value}}}}, {"a": value})
    if not isinstance(value, dict | list):
        assert passes(subset([value, value]), [value, 0, value])


LISTS = {
    "numbers": (list(range(20_000)), list(range(20_000))[::-1]),
    "equal numbers": ([2] * LONG, [2] * LONG),
    "objects": ([{"id": n} for n in range(LONG)], [{"id": n, "x": 1} for n in range(LONG)][::-1]),
    "objects of a type": (
        [{"type": "a", "id": n} for n in range(LONG)],
        [{"type": "a", "id": n, "x": 1} for n in range(LONG)][::-1],
    ),
    "nested": (
        [{"order": {"id": n}} for n in range(LONG)],
        [{"order": {"id": n, "x": 1}} for n in range(LONG)][::-1],
    ),
    "checks in one order": (
        [{"id": {"number": n}} for n in range(2_000)],
        [{"id": n} for n in range(2_000)],
    ),
}


@pytest.mark.parametrize("kind", LISTS)
def test_long_lists_are_compared_in_a_moment(kind):
    wanted, output = LISTS[kind]
    check = subset(wanted)
    assert passes(check, output)
    assert takes_at_most(1.5, lambda: passes(check, output))
    assert takes_at_most(1.5, lambda: passes(subset([*wanted, wanted[-1]]), output))
    assert not passes(subset([*wanted, wanted[-1]]), output)


def test_lists_that_nothing_tells_apart_are_compared_for_so_long_and_then_nobody_knows(
    monkeypatch,
):
    monkeypatch.setattr(subsets, "MOST_PAIRS", 50)
    wanted = [{"a": {"number": n}} for n in range(20)]
    output = [{"a": n * 7 % 20} for n in range(20)]
    for check in (subset(wanted), {"not": subset(wanted)}):
        result = said(check, output)
        assert (result.passed, result.broken) == (False, True)
        assert "more than 50 pairs" in result.reason
    made = calls(("t", {"list": output}))
    unwanted = {"does_not_call": {"tool": "t", "args": {"list": wanted}}}
    assert said(unwanted, "x", calls=made).broken


def test_of_thousands_of_calls_those_with_the_arguments_are_found_at_once():
    made = calls(*[("get", {"id": n}) for n in range(5_000)])
    checks = [{"calls": {"tool": "get", "args": {"id": n}, "times": 1}} for n in range(0, 5_000, 9)]
    assert all(passes(each, "x", calls=made) for each in checks[:3])
    assert not passes({"calls": {"tool": "get", "args": {"id": -1}}}, "x", calls=made)
    assert said({"does_not_call": [{"tool": "get", "args": {"id": 7}}, "put"]}, "x", calls=made)
    reason = said({"does_not_call": ["put", {"tool": "get", "args": {"id": 7}}]}, calls=made).reason
    assert reason == "get is called: call 8 of 5000"


WORLD = EndState(
    {"orders": [{"id": 1}, {"id": 2}], "users": [1]},
    [
        RowChange("orders", 0, {"id": 1}),
        RowChange("orders", 1, {"id": 2}, {"id": 2, "paid": True}),
        RowChange("orders", 2, after={"id": 3}),
    ],
)


def test_a_world_is_as_its_changes_left_it():
    assert WORLD.after == {"orders": [{"id": 2, "paid": True}, {"id": 3}], "users": [1]}
    assert WORLD.before["orders"] == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ({"path": "$.orders", "changed": True}, ""),
        ({"path": "$.orders", "changed": False}, "$.orders has changed"),
        ({"path": "$.orders", "unchanged": True}, "$.orders has changed"),
        ({"path": "$.users", "unchanged": True}, ""),
        ({"path": "$.users", "changed": True}, "$.users is as it was"),
    ],
)
def test_what_an_agent_changed_in_its_world_is_told_from_what_it_left(argument, reason):
    result = said({"state": argument}, world=WORLD)
    assert (result.passed, result.score) == (not reason, 0.0 if reason else 1.0)
    assert result.reason == reason
    assert result.actual == WORLD.after[argument["path"][2:]]


def test_a_world_without_the_collection_or_no_world_at_all_tells_nothing():
    result = said({"state": {"path": "$.bills", "changed": True}}, world=WORLD)
    assert result.broken
    assert result.reason == "the world has no collection 'bills'; there are: orders, users"
    empty = said({"state": {"path": "$.bills"}}, world=EndState({}, []))
    assert empty.reason.endswith("there are: none")
    assert said({"state": {"path": "$.bills"}}).broken
