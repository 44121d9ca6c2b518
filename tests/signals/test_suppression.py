"""Suppressions: closed format, exact errors, expiry, and nothing hidden in silence."""

import json
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.report import Signal, SignalDetails
from evalwright.signals.kinds import KIND_NAMES
from evalwright.signals.suppression import Suppression, Suppressions, parse_suppressions
from strategies import json_values

TODAY = date(2026, 3, 1)
ENTRY = {"kind": "untrusted_url_input", "reason": "our own wiki", "expires": "2026-03-31"}


def a_signal(kind="untrusted_url_input", tool="fetch", rule="url/call"):
    return Signal(kind, "medium", "high", "A title", SignalDetails(tool=tool, rule=rule), ())


def parsed(*entries):
    return parse_suppressions(json.dumps({"suppressions": entries}).encode(), "s.json")


def problems(*entries):
    with pytest.raises(InvalidDocument) as caught:
        parsed(*entries)
    return [str(problem) for problem in caught.value.problems]


def keeps(entry, signal=None, case_id="refund-1", side="new", today=TODAY):
    return bool(parsed(entry).apply([signal or a_signal()], case_id, side, today)[0])


def test_yaml_and_json_mean_the_same():
    text = (
        b"suppressions:\n- {kind: untrusted_url_input, reason: our own wiki, expires: 2026-03-31}"
    )
    assert parse_suppressions(text, "s.yaml").entries == parsed(ENTRY).entries
    assert parsed(ENTRY).entries[0].expires == date(2026, 3, 31)


def test_a_suppressed_signal_stands_beside_the_others_with_its_reason():
    other = a_signal("secret_in_output")
    kept, suppressed = parsed(ENTRY).apply([a_signal(), other], "refund-1", "new", TODAY)
    assert kept == (other,)
    assert [(each.signal, each.reason, each.expires) for each in suppressed] == [
        (a_signal(), "our own wiki", "2026-03-31")
    ]


@pytest.mark.parametrize(
    ("narrowing", "kept"),
    [
        ({"case": "refund-1"}, False),
        ({"case": "refund-*"}, False),
        ({"case": "billing-*"}, True),
        ({"side": "new"}, False),
        ({"side": "baseline"}, True),
        ({"tool": "fetch"}, False),
        ({"tool": "send"}, True),
        ({"rule": "url/call"}, False),
        ({"rule": "url/image"}, True),
    ],
)
def test_an_entry_can_be_narrowed_down(narrowing, kept):
    assert keeps(ENTRY | narrowing) is kept


def test_a_case_id_with_brackets_matches_itself():
    assert not keeps(ENTRY | {"case": "a[1]"}, case_id="a[1]")


def test_an_entry_holds_through_its_last_day_and_no_longer():
    assert not keeps(ENTRY, today=date(2026, 3, 31))
    assert keeps(ENTRY, today=date(2026, 4, 1))


def test_expired_and_unused_entries_are_listed():
    old = ENTRY | {"expires": "2026-01-31"}
    idle = ENTRY | {"kind": "pii_in_output"}
    suppressions = parsed(old, ENTRY, idle)
    suppressions.apply([a_signal()], "refund-1", "new", TODAY)
    assert [entry.expires for entry in suppressions.expired(TODAY)] == [date(2026, 1, 31)]
    assert [entry.kind for entry in suppressions.unused()] == [
        "untrusted_url_input",
        "pii_in_output",
    ]


def test_every_problem_is_told_at_once_with_its_place_and_remedy():
    found = problems({"kind": "untrusted_url", "reasons": "x", "expires": "soon"}, 7)
    place = "$.suppressions[0]"
    last_day = "give the last day on which it holds, for example 2026-12-31"
    did_you_mean = "did you mean untrusted_url_input?"
    assert found == [
        f"{place}: `reason` is missing (say why this signal may be passed over)",
        f"{place}.kind: 'untrusted_url' is not a kind of signal ({did_you_mean})",
        f"{place}.reasons: unknown field 'reasons' (did you mean reason?)",
        f"{place}.expires: 'soon' is not a date ({last_day})",
        "$.suppressions[1]: a suppression is an object (give it kind, reason and expires)",
    ]


@pytest.mark.parametrize("reason", ["", "  ", None, 3])
def test_a_reason_must_say_something(reason):
    (problem,) = problems(ENTRY | {"reason": reason})
    assert problem.startswith("$.suppressions[0].reason: `reason` must be a text")


@pytest.mark.parametrize("expires", ["20260331", "2026-02-30", "2026-03-31T00:00", "never"])
def test_an_expiry_is_a_day(expires):
    (problem,) = problems(ENTRY | {"expires": expires})
    assert "is not a date" in problem


def test_unknown_fields_beside_the_list_are_refused():
    with pytest.raises(InvalidDocument, match="unknown field 'suppress'"):
        parse_suppressions(b'{"suppressions": [], "suppress": []}', "s.json")


@pytest.mark.parametrize("source", [b"[]", b'{"suppressions": {}}', b"{}"])
def test_a_file_without_the_list_is_refused(source):
    with pytest.raises(InvalidDocument, match="holds one list named `suppressions`"):
        parse_suppressions(source, "s.json")


@given(json_values)
def test_any_other_document_is_refused_with_a_reason(document):
    for wrapped in (document, {"suppressions": document}, {"suppressions": [document]}):
        if wrapped != {"suppressions": []}:
            with pytest.raises(InvalidDocument) as caught:
                parse_suppressions(json.dumps(wrapped).encode(), "s.json")
            assert caught.value.problems


@given(
    st.lists(st.sampled_from(KIND_NAMES), max_size=6),
    st.lists(st.tuples(st.sampled_from(KIND_NAMES), st.integers(-3, 3)), max_size=4),
)
def test_no_signal_is_ever_lost(kinds, entries):
    rules = [Suppression(kind, "why", TODAY + timedelta(days)) for kind, days in entries]
    given_signals = [a_signal(kind) for kind in kinds]
    kept, suppressed = Suppressions(rules).apply(given_signals, "one", "new", TODAY)
    gone = [each.signal for each in suppressed]
    assert sorted(s.kind for s in given_signals) == sorted(s.kind for s in [*kept, *gone])
    live = {rule.kind for rule in rules if rule.expires >= TODAY}
    assert {signal.kind for signal in gone} == live & set(kinds)
