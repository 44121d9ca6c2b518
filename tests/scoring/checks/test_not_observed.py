"""What nobody observed is no evidence: a check of it is not made, and so is never a pass."""

import pytest
from looking import calls, passes, said

from evalwright.contracts.coverage import NOTHING_OBSERVED, Coverage
from evalwright.contracts.report import Signal, SignalDetails
from evalwright.scoring.checks.base import Spent

UNSEEN = {"coverage": NOTHING_OBSERVED}
OF_CALLS = [
    {"calls": "refunds.create"},
    {"calls_in_order": ["orders.get", "refunds.create"]},
    {"does_not_call": "refunds.create"},
    {"max": {"turns": 3}},
]
OF_USAGE = [{"max": {"cost_usd": 1e-7}}, {"max": {"tokens": 10}}]


@pytest.mark.parametrize("check", [*OF_CALLS, *OF_USAGE])
def test_a_check_of_what_was_not_observed_is_not_made_nor_is_its_opposite(check):
    assert "not observed" in said(check, **UNSEEN).reason
    for around in (
        {"not": check},
        {"any": [check, {"contains": "yes"}]},
        {"at_least": {"n": 1, "of": [check, {"contains": "yes"}]}},
    ):
        result = said(around, "yes", **UNSEEN)
        assert not result.passed
        assert "not observed" in result.reason


@pytest.mark.parametrize("check", OF_CALLS[2:])
@pytest.mark.parametrize("how", ["returned", "claimed none", "claimed task"])
def test_calls_that_were_observed_to_be_none_or_are_claimed_to_be_are_looked_at(check, how):
    assert passes(check, coverage=Coverage(calls=how))


def test_each_part_counts_for_itself():
    seen = Coverage(calls="fixtures")
    assert passes({"does_not_call": "b"}, calls=calls("a"), coverage=seen)
    assert "usage" in said({"max": {"cost_usd": 1}}, coverage=seen).reason
    assert passes({"max": {"latency_ms": 9}}, spent=Spent(latency_ms=9), **UNSEEN)


def test_the_answer_is_read_for_signals_even_where_the_calls_were_not_observed():
    details = SignalDetails()
    signal = Signal("secret_in_output", "high", "high", "a key", details, ())
    check = {"no_signals": "high"}
    assert "a key" in said(check, find_signals=lambda: [signal], **UNSEEN).reason
    unseen = said(check, find_signals=list, **UNSEEN)
    assert not unseen.passed
    assert "the answer has none, but the agent's tool calls were not observed" in unseen.reason


ALL = {"tool": "mail.send", "args": {"to": "all"}}
OF_ARGUMENTS = [
    {"calls": ALL},
    {"calls": {**ALL, "at_most": 0}},
    {"does_not_call": [ALL, "refund"]},
    {"calls_in_order": [ALL]},
]


@pytest.mark.parametrize("args", [None, '{"to": "al'], ids=["not told", "not readable"])
@pytest.mark.parametrize("check", OF_ARGUMENTS)
def test_of_arguments_that_were_not_observed_nobody_can_tell(check, args):
    for each in (check, {"not": check}):
        result = said(each, calls=calls(("mail.send", args)))
        assert not result.passed
        assert "with which arguments mail.send is called was not observed" in result.reason


def test_what_is_decided_without_the_arguments_is_decided():
    unknown, known = calls(("mail.send", None)), calls(("mail.send", {"to": "all"}))
    assert passes({"calls": ALL}, calls=unknown + known)
    assert passes({"calls_in_order": [ALL]}, calls=unknown + known)
    assert said({"does_not_call": ALL}, calls=unknown + known).reason.startswith("mail.send is")
    assert passes({"does_not_call": {"tool": "refund", "args": {"usd": 9}}}, calls=unknown)


@pytest.mark.parametrize("called", ["refunds_create", "refundsCreate", "Refunds.Create"])
@pytest.mark.parametrize(
    "check", [*OF_CALLS[:3], {"calls": {"tool": "refunds.create", "times": 0}}]
)
def test_a_tool_that_is_called_by_another_spelling_is_not_taken_for_uncalled(check, called):
    for each in (check, {"not": check}):
        result = said(each, calls=calls("orders.get", called))
        assert not result.passed
        assert f"{called} is called: if that is refunds.create" in result.reason


def test_a_tool_within_one_of_another_spelling_counts_by_its_own_name():
    made = calls(("orders_get", {"id": 1}), ("orders.get", {"id": 1}))  # a library's, and by `task`
    assert passes({"calls": {"tool": "orders.get", "times": 1}}, calls=made)
    assert said({"does_not_call": "orders.get"}, calls=made).reason.startswith("orders.get is")
