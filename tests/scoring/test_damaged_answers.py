"""Damaged answers: each kind changes what an answer means, and nothing else."""

from random import Random
from typing import Any

import pytest

from evalwright.scoring.checks.base import MadeCall
from evalwright.scoring.mutants import KINDS, OF_CALLS, Damaged, Subject, damages

ANSWER = "Your order A-17 was shipped to Kim on 3 November and costs 14.50 euros for 12 parts."
GET = MadeCall("orders.get", {"id": "A-17"}, {"status": "packed"})
SEND = MadeCall("mail.send", {"to": "kim", "copies": 2}, "sent")


def damaged(kind: str, output: Any = ANSWER, *calls: MadeCall, seed: int = 1) -> list[Damaged]:
    reads = {"orders.get": True}
    subject = Subject(output, calls, ["Good morning!"], lambda tool: tool in reads, Random(seed))
    return list(damages(subject, [kind]))


@pytest.mark.parametrize(
    ("kind", "before", "kept"),
    [
        ("id", "A-17", "3 November"),
        ("date", "3 November", "A-17"),
        ("amount", "14.50 euros", "A-17"),
        ("number", "12", "14.50"),
        ("name", "Kim", "A-17"),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_one_detail_is_another_one_of_its_kind(
    kind: str, before: str, kept: str, seed: int
) -> None:
    (found,) = damaged(kind, seed=seed)
    assert found.before == before
    assert found.output == ANSWER.replace(before, found.after)
    assert found.after != before
    assert kept in found.output


@pytest.mark.parametrize(
    ("kind", "output", "expected"),
    [
        ("negated", "It is shipped.", "It is not shipped."),
        ("negated", "It isn't shipped.", "It is shipped."),
        ("negated", "I cannot find it.", "I can find it."),
        ("negated", "Es ist da.", "Es ist nicht da."),
        ("negated", {"ok": True, "why": "x"}, {"ok": False, "why": "x"}),
        ("truncated", "One two three four five six", "One two three"),
        ("empty", {"a": 1}, {}),
        ("empty", "text", ""),
        ("missing_field", {"a": {"b": 1}}, {"a": {}}),
        ("json_type", {"a": 1}, {"a": "1"}),
        ("json_type", ["x"], [["x"]]),
        ("name", {"channel": "email"}, {"channel": "Ottilie"}),
        ("other_task", "text", "Good morning!"),
    ],
)
def test_the_answer_says_something_else(kind: str, output: Any, expected: Any) -> None:
    found = damaged(kind, output)
    assert expected in [each.output for each in found] or kind == "name"
    assert all(each.output != output for each in found)
    assert found


def test_a_number_leaves_the_tolerance_that_checks_may_have() -> None:
    for seed in range(50):
        for number in (1, 3, 40, 1999, 0.5):
            (found,) = damaged("number", {"a": number}, seed=seed)
            assert abs(found.output["a"] - number) >= 0.19 * number


@pytest.mark.parametrize(
    ("kind", "output"),
    [
        ("refusal", "I can't help with that."),
        ("negated", "Good morning!"),
        ("number", "No digits here"),
        ("truncated", "Too short"),
        ("json_type", "plain text"),
        ("empty", ""),
    ],
)
def test_what_would_mean_the_same_is_left_out(kind: str, output: str) -> None:
    assert damaged(kind, output) == []


def test_a_leak_is_one_key_in_an_answer_that_is_else_the_same() -> None:
    (found,) = damaged("leak")
    assert found.output.startswith(ANSWER)
    assert "AKIA" in found.output
    (data,) = damaged("leak", {"text": "fine", "more": 1})
    assert data.output["more"] == 1
    assert "AKIA" in data.output["text"]


def test_another_language_keeps_the_details() -> None:
    (found,) = damaged("language")
    assert "A-17" in found.output
    assert "shipped" not in found.output
    (other,) = damaged("language", "Die Bestellung A-17 ist da und bezahlt.")
    assert other.output.startswith("La réponse")


def test_calls_are_dropped_doubled_swapped_and_changed() -> None:
    dropped = damaged("dropped_call", ANSWER, GET, SEND)
    assert [each.calls for each in dropped] == [[SEND], [GET]]
    (doubled,) = damaged("doubled_call", ANSWER, GET, SEND)
    assert doubled.calls == [GET, SEND, SEND]  # to look twice changes nothing
    (swapped,) = damaged("reordered_calls", ANSWER, GET, SEND)
    assert swapped.calls == [SEND, GET]
    first, second = damaged("changed_argument", ANSWER, GET, SEND)
    assert first.calls[0].args != GET.args
    assert second.calls[1].args["copies"] == 2
    assert second.calls[1].args["to"] != "kim"


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_damages_some_answer_and_the_same_way_for_a_seed(kind: str) -> None:
    calls = (GET, SEND)
    found = damaged(kind, ANSWER, *calls) or damaged(kind, {"a": {"b": 1}}, *calls)
    assert found
    again = damaged(kind, ANSWER, *calls) or damaged(kind, {"a": {"b": 1}}, *calls)
    assert found == again
    assert all((each.calls != calls) == (kind in OF_CALLS) for each in found)


@pytest.mark.parametrize("before", ["12", "1,250", "3,000,000", "14.50", "0.5", "7"])
def test_another_number_is_off_by_a_fifth_to_a_half_and_written_alike(before: str) -> None:
    for seed in range(20):
        (found,) = damaged("number", f"There are {before} here.", seed=seed)
        value, other = (float(each.replace(",", "")) for each in (before, found.after))
        assert other != value
        assert 1.15 * value - 1 <= other <= 1.55 * value + 1
        if value > 100:
            assert 1.19 * value <= other <= 1.51 * value
        assert ("," in found.after) == ("," in before)
        assert len(found.after.partition(".")[2]) == len(before.partition(".")[2])
