"""Contradictions: what an answer states against what the tools said, and what is none."""

import json
import re
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from comparing import a_call, a_failure, a_response, a_result, a_trace
from effort import takes_at_most
from evalwright.comparison import contradictions as module
from evalwright.comparison.contradictions import contradictions, days_in, stands_in, statements
from evalwright.trace.decode import decode_trace
from strategies import json_values

RECORDED_TRACES = Path(__file__).parents[3] / "shared" / "data" / "agent-traces" / "taubench"
ORDER = {
    "order_id": "A-1234",
    "customer_name": "Sarah Baker",
    "price": 120.5,
    "shipping_date": "2024-05-04",
    "balance": 1100,
}


def found(output, payload=ORDER, prompt="", **more):
    trace = a_trace(a_call("get_order"), a_result(payload), output=output, prompt=prompt, **more)
    return [(each.kind, each.value, each.rival) for each in contradictions(trace)]


def test_an_id_of_the_same_shape_that_no_result_holds_is_a_contradiction():
    trace = a_trace(a_call(), a_result({"ticket_id": "T-1234"}), output="Created ticket T-0001.")
    (each,) = contradictions(trace)
    assert (each.kind, each.value, each.rival) == ("id", "T-0001", "T-1234")
    assert (each.result_index, each.output_index) == (1, 2)
    assert each.message == "the output states id T-0001, the tool results hold T-1234"


@pytest.mark.parametrize(
    "output",
    [
        "Order A-1234 is on its way.",
        "Order B-0001 is on its way.",  # of another shape: there is no rival
        "Order A-12 is on its way.",
        "It follows A-2024.",  # a year
    ],
)
def test_an_id_that_is_known_or_has_no_rival_is_none(output):
    assert found(output) == []


def test_an_id_within_a_longer_one_is_not_known_by_it():
    payload = {"customer": "CUST-0001", "ticket_id": "T-1234"}
    assert found("Created T-0001", payload) == [("id", "T-0001", "T-1234")]


def test_an_id_that_the_user_gave_is_known():
    assert found("I could not find A-9999.", prompt="Where is A-9999?") == []


def test_an_id_that_a_call_used_with_success_is_known_and_one_that_failed_is_not():
    events = [a_call("get_order", order_id="A-1234"), a_result({"order_id": "A-1234"})]
    used = a_call("close_order", call_id="c2", order_id="A-7777")
    worked = a_trace(*events, used, a_result(call_id="c2"), output="Closed A-7777")
    failed = a_trace(*events, used, a_result(call_id="c2", status="error"), output="Closed A-7777")
    assert contradictions(worked) == []
    assert [each.value for each in contradictions(failed)] == ["A-7777"]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("The balance is $1,337.00.", ("amount", "$1,337.00", "1100")),
        ("**Price**: €99.99", ("amount", "€99.99", "120.5")),
        ("Shipping date: May 9, 2024", ("date", "May 9, 2024", "2024-05-04")),
        ("Customer name: John Miller", ("name", "John Miller", "Sarah Baker")),
    ],
)
def test_a_value_under_the_name_of_a_field_must_be_that_of_the_field(output, expected):
    assert found(output) == [expected]


@pytest.mark.parametrize(
    "output",
    [
        "The balance is $1,100.00.",
        "Price: 120.50",
        "Price: $121",  # rounded
        "Price: $241.00",  # two of them
        "The balance is 1220.50",  # the sum of two known amounts
        "The balance is $979.50",  # the difference
        "Total: $5,000",  # computed by its own name
        "Shipping date: May 4, 2024",
        "Shipping date: 4th of May",
        "Customer name: Sarah Baker",
        "Customer name: Baker, Sarah",
        "The rating is 4",
        "Ask for Mr Unknown Person.",
        "It costs nothing.",
        "",
    ],
)
def test_what_is_known_computed_or_unrivalled_is_none(output):
    assert found(output) == []


def test_nothing_is_computed_from_an_amount_of_zero():
    paid = {**ORDER, "open_amount": 0}
    assert found("The balance is $1,337.00.", paid) == [("amount", "$1,337.00", "1100")]


def test_an_amount_beside_a_name_must_be_one_that_a_result_holds_beside_it():
    payload = "Hotel: Grand Budapest, price 210.00 for the room\nHotel: Blue Lagoon, price 95.00"
    assert found("I booked Grand Budapest at $187.30.", payload) == [
        ("amount", "$187.30", "210.00")
    ]
    assert found("I booked Grand Budapest at $210.", payload) == []
    assert found("Grand Budapest: in total about $187.30.", payload) == []


def test_an_amount_counts_as_beside_a_name_up_to_200_characters_away():
    name = "Grand Budapest Palace of the Old Town"
    said = f"I booked {name} at $187.30."
    for between, is_near in ((150, True), (185, True), (230, False)):
        rival = found(said, f"Hotel: {name} {'x' * between} price 210.00 for the room")
        assert rival == ([("amount", "$187.30", "210.00")] if is_near else [])
    before = f"price 210.00 {'x' * 150} {name}"
    assert found(said, before) == [("amount", "$187.30", "210.00")]


def test_a_json_answer_is_compared_field_by_field():
    assert found({"order_id": "A-1", "price": 99.99, "status": "open"}) == [
        ("id", "A-1", "A-1234"),
        ("amount", "99.99", "120.5"),
    ]
    assert found({"order_id": "A-1234", "shipping_date": "04 May 2024"}) == []


def test_a_json_answer_written_as_text_is_read_as_json():
    assert found(json.dumps({"customerName": "John Miller"})) == [
        ("name", "John Miller", "Sarah Baker")
    ]


def test_states_and_free_text_of_a_json_answer_are_not_compared():
    assert found({"status": "open", "note": "all well"}, {"status": "ok", "note": "x"}) == []


def test_a_failed_call_states_nothing():
    response = a_failure() | {"final_output": "ticket T-0001"}
    assert contradictions(decode_trace(response, "one")) == []


@pytest.mark.parametrize(
    "text", ["2024-05-04", "May 4", "May 4th, 2024", "4 May", "4th of may", "05/04/2024"]
)
def test_a_day_is_the_same_in_every_form(text):
    assert (5, 4) in days_in(text)


@given(st.text(max_size=6), st.text(alphabet="ab1-. ", max_size=20))
def test_a_value_between_blanks_stands_in_a_text(value, text):
    assert stands_in(value, f"{text} {value} {text}")


@settings(max_examples=150, deadline=None)
@given(payload=json_values, output=json_values)
@example(payload=None, output={"Sku": 1e16})
def test_no_content_makes_it_fail_and_what_a_result_said_is_never_held_against_it(payload, output):
    trace = decode_trace(
        a_response(a_call(), a_result(payload), a_result(output), output=output), "one", ""
    )
    assert contradictions(trace) == []


def test_a_huge_answer_is_compared_in_linear_time():
    text = "T-0001 price: $1.23 May 4 " * 20_000
    result = {"id": "T-1234", "note": "x" * 3_000_000}
    assert takes_at_most(5, lambda: found(text, result))


@given(st.integers(1000, 9999), st.integers(1000, 9999))
def test_two_ids_contradict_each_other_unless_they_are_equal(said, told):
    result = found(f"Ticket QX-{said}A is ticket QX-{said}.", {"id": f"QX-{told}"})
    year = str(said)[:2] in ("19", "20")
    assert bool(result) is (said != told and not year)


@pytest.mark.skipif(not RECORDED_TRACES.is_dir(), reason="no recorded traces on this machine")
def test_recorded_answers_of_passing_runs_are_quiet_and_altered_ones_are_not():
    import gzip

    passing = flagged = altered = noticed = 0
    for path in sorted(RECORDED_TRACES.glob("retail*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for record in map(json.loads, lines):
                if not record["label"].get("pass"):
                    continue
                passing += 1
                flagged += bool(contradictions(decode_trace(record, "one")))
                text = record["final_output"]
                place = text.find("W") if isinstance(text, str) else -1
                if place >= 0 and text[place + 1 : place + 8].isdigit():
                    altered += 1
                    wrong = text[: place + 1] + "0000001" + text[place + 8 :]
                    changed = decode_trace(record | {"final_output": wrong}, "one")
                    noticed += bool(contradictions(changed))
    assert passing > 20
    assert flagged <= 0.02 * passing
    assert altered > 5
    assert noticed >= 0.9 * altered


ID_TEXTS = st.lists(
    st.sampled_from(["T-1004", "T-2000", "xT-1004", "T-10045", "INV-300", "total: 12.50", "$9.99",
                     "2026-03-04", "owner: Ann Smith", "-", ".", "12.50", "T-"]), max_size=5
).map(" ".join)  # fmt: skip


@given(ID_TEXTS, st.lists(ID_TEXTS, max_size=3), ID_TEXTS)
def test_what_is_passed_over_at_once_would_contradict_nothing(output, payloads, prompt):
    def found():
        events = [event for text in payloads for event in (a_call(), a_result(text))]
        return contradictions(decode_trace(a_response(*events, output=output), "case", prompt))

    with patch.object(module, "_may_contradict", return_value=True):
        looked_at_all = found()
    assert found() == looked_at_all


STATED = st.lists(
    st.sampled_from(["A", "Ab", "T-1004", "INV300", "is", "Was", "was", "of", "\t", "\n", "\x1c",
                     "\u2003", "9", "1200", "Ann Smith", "total", "owner", ":", "=", " ", "-", "#",
                     "_", "\u00e9", "\u0663"]), max_size=12
).map("".join) | ID_TEXTS  # fmt: skip


@given(STATED)
def test_a_text_in_which_only_ids_are_looked_for_holds_nothing_else(text):
    with patch.object(module, "_FIELD_OR_MENTION", re.compile(b"")):
        looked_at = statements(text)
    assert statements(text) == looked_at


@given(STATED)
def test_ids_begin_where_a_word_does(text):
    plainly = r"\b([A-Z][A-Za-z]{0,9}[-_#]|[A-Z]{1,5})(\d{3,30})\b"
    assert module._ID.findall(text) == re.findall(plainly, text, re.ASCII)
