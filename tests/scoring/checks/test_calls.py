"""Checks of what the agent did: the tools it called, and what it took."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from looking import calls, passes, refused, said

from evalwright.scoring.checks.base import Spent

MADE = calls(("orders.get", {"id": "A-17", "full": True}), "log", ("mail.send", {"to": "a@b.c"}))


@pytest.mark.parametrize(
    "check",
    [
        {"calls": "orders.get"},
        {"calls": {"tool": "orders.get", "args": {"id": "A-17"}, "times": 1}},
        {"calls": {"tool": "mail.send", "args": {"to": {"ends_with": "@b.c"}}}},
        {"calls": {"tool": "orders.get", "at_least": 1, "at_most": 2}},
        {"calls": {"tool": "orders.delete", "times": 0}},
        {"calls_in_order": ["orders.get", "mail.send"]},
        {"calls_in_order": [{"tool": "orders.get", "args": {"id": "A-17"}}, "log"]},
        {"calls_in_order": {"tools": ["orders.get", "log"], "exact": True}},
        {"calls_in_order": ["log", "mail.send"], "exact": True},
        {"does_not_call": "orders.delete"},
        {"does_not_call": ["orders.delete", {"tool": "orders.get", "args": {"id": "B-1"}}]},
    ],
)
def test_calls_that_were_made_as_expected_pass(check):
    assert passes(check, calls=MADE)


@pytest.mark.parametrize(
    ("check", "score", "reason"),
    [
        ({"calls": "orders.put"}, 0, "orders.put is not called; called: “orders.get”, “log”"),
        (
            {"calls": {"tool": "orders.get", "args": {"id": "B-1"}}},
            0,
            'called with other arguments: $.id: expected "B-1", got "A-17"',
        ),
        ({"calls": {"tool": "log", "times": 2}}, 0.5, "log is called once, expected 2 times"),
        ({"calls": {"tool": "log", "at_most": 0}}, 0, "called once, expected at most 0 times"),
        (
            {"calls_in_order": ["mail.send", "log"]},
            0.5,
            "log is not called after mail.send as expected; called: “orders.get”, “log”",
        ),
        (
            {"calls_in_order": {"tools": ["orders.get", "mail.send"], "exact": True}},
            0.5,
            "mail.send is not called directly after orders.get",
        ),
        ({"does_not_call": "log"}, 0, "log is called: call 2 of 3"),
    ],
)
def test_a_failure_says_what_was_called_instead(check, score, reason):
    result = said(check, calls=MADE)
    assert (result.passed, result.score) == (False, score)
    assert reason in result.reason


def test_a_check_of_an_argument_may_have_its_fields_beside_it():
    to_eve = {"to": {"contains": "eve@", "ignore_case": True}}
    made = calls(("mail.send", {"to": "EVE@shop.example"}))
    assert passes({"calls": {"tool": "mail.send", "args": to_eve}}, calls=made)
    assert not passes({"does_not_call": {"tool": "mail.send", "args": to_eve}}, calls=made)


def test_an_agent_that_calls_nothing_is_told_so():
    assert "no tool is called" in said({"calls": "log"}).reason
    assert "nothing is" in said({"calls_in_order": ["log"]}).reason


@pytest.mark.parametrize(
    ("check", "path", "message"),
    [
        ({"calls": {"tool": "a", "times": 1, "at_most": 2}}, ".calls.at_most", "says it all"),
        ({"calls": {"tool": "a", "at_least": 3, "at_most": 2}}, ".calls.at_least", "above"),
        ({"calls": {"tol": "a"}}, ".calls.tol", "unknown field 'tol'"),
        ({"calls_in_order": []}, ".calls_in_order", "less than 1 item"),
        ({"calls_in_order": ["a"], "exakt": True}, ".exakt", "has no field 'exakt'"),
        ({"calls": {"tool": "a", "args": {"p": {"max": 5}}}}, ".calls.args.p.max", "cannot be"),
        ({"max": {"latency": 1}}, ".max.latency", "unknown field 'latency'"),
        ({"max": {}}, ".max", "less than 1 propert"),
        ({"max": {"turns": -1}}, ".max.turns", "-1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(check, path, message):
    problem = refused(check)
    assert problem.path == f"$.checks[0]{path}"
    assert message in problem.message


def test_limits_hold_up_to_the_last_unit_and_say_what_was_spent():
    limits = {"max": {"cost_usd": 0.02, "latency_ms": 800, "turns": 6, "tokens": 4000}}
    assert passes(limits, spent=Spent(0.02, 4000, 800, 6))
    result = said(limits, spent=Spent(0.03, 4001, 800, 6))
    assert result.score == 0.5
    assert result.reason == (
        "0.03 USD, at most 0.02 are allowed; 4001 tokens, at most 4000 are allowed"
    )


def test_an_agent_that_reports_no_usage_costs_nothing():
    assert passes({"max": {"cost_usd": 0, "tokens": 0}})
    assert passes({"max": {"turns": 4}}, calls=MADE)
    assert not passes({"max": {"turns": 3}}, calls=MADE)


def test_what_is_not_known_is_no_pass_nor_is_its_opposite():
    for spent in (Spent(), Spent(math.inf, None, None, None)):
        check = {"max": {"cost_usd": 1, "latency_ms": 1}}
        assert "not known" in said(check, spent=spent).reason
        assert not passes({"not": check}, spent=spent)


@given(st.lists(st.sampled_from("abc"), min_size=1), st.data())
def test_some_of_the_calls_in_their_order_are_in_order(tools, data):
    kept = data.draw(st.lists(st.booleans(), min_size=len(tools), max_size=len(tools)))
    some = [tool for tool, is_kept in zip(tools, kept, strict=True) if is_kept] or tools
    assert passes({"calls_in_order": some}, calls=calls(*tools))
    start = data.draw(st.integers(0, len(tools) - 1))
    piece = {"tools": tools[start : start + 3], "exact": True}
    assert passes({"calls_in_order": piece}, calls=calls(*tools))
