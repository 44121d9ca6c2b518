"""Can the chain be proved? Each issue alone, all together, and the status that follows."""

from itertools import combinations, pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_builders import T0, a_trace, call, result

from effort import takes_at_most
from evalwright.trace.decode import decode_trace
from evalwright.trace.integrity import ISSUES, TraceIntegrity, check_integrity, evidence_targets
from evalwright.trace.model import EvidenceTarget
from strategies import json_values

SOUND = [call("c1", T0), result("c1", T0 + 1)]
BROKEN = {"events_not_array", "no_events", "tool_result_without_call"}


def check(response: Any, required: tuple[str, ...] = ()) -> TraceIntegrity:
    return check_integrity(decode_trace(response, "case-1"), required)


def refund(*refs: dict[str, Any]) -> dict[str, Any]:
    return {"action_id": "a1", "action_type": "refund", "evidence_refs": list(refs)}


# For each issue a response that has it and no other, and the documents that its case requires.
ALONE: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "events_not_array": ({"events": {}}, ()),
    "no_events": ({"events": []}, ()),
    "missing_timestamps": ({"events": [call("c1", None), result("c1")]}, ()),
    "non_monotonic_timestamps": ({"events": [call("c1", T0 + 9), result("c1", T0)]}, ()),
    "missing_call_id": ({"events": [call(None), result(None)]}, ()),
    "duplicate_call_id": (
        {"events": [call("c1", T0), result("c1", T0), call("c1", T0), result("c1", T0)]},
        (),
    ),
    "tool_result_without_call": ({"events": [*SOUND, result("c2", T0 + 2)]}, ()),
    "tool_call_without_result": ({"events": [*SOUND, call("c2", T0 + 2)]}, ()),
    "retrieval_required_missing": ({"events": SOUND}, ("d1",)),
    "evidence_ref_missing_target": (
        {
            "events": SOUND,
            "proposed_actions": [refund({"kind": "tool_result", "call_id": "c9"})],
        },
        (),
    ),
    "unknown_event_type": ({"events": [*SOUND, {"type": "made_up", "ts": T0 + 2}]}, ()),
}


def test_the_contract_knows_eleven_issues():
    assert set(ALONE) == set(ISSUES)
    assert len(ISSUES) == 11


def test_a_sound_trace_is_ok():
    assert check({"events": SOUND}) == TraceIntegrity("ok", ())


@pytest.mark.parametrize("issue", ISSUES)
def test_each_issue_is_found_alone(issue: str):
    response, required = ALONE[issue]
    status = "broken" if issue in BROKEN else "partial"
    assert check(response, required) == TraceIntegrity(status, (issue,))


JOINABLE = [issue for issue in ISSUES if issue not in ("events_not_array", "no_events")]


@pytest.mark.parametrize("pair", list(combinations(JOINABLE, 2)), ids=" and ".join)
def test_two_issues_are_both_found(pair: tuple[str, str]):
    (first, first_docs), (second, second_docs) = (ALONE[issue] for issue in pair)
    actions = first.get("proposed_actions", []) + second.get("proposed_actions", [])
    events = [_renamed(event, "first") for event in first["events"]]
    events += [_renamed(event, "second") for event in second["events"]]
    found = check({"events": events, "proposed_actions": actions}, first_docs + second_docs)
    assert set(pair) <= set(found.issues)
    assert found.status == ("broken" if BROKEN & set(pair) else "partial")


def _renamed(event: dict[str, Any], side: str) -> dict[str, Any]:
    """The event with an id of its own side, so that only real issues are left."""
    call_id = event.get("call_id")
    return event | {"call_id": side + call_id} if call_id else event


def test_all_issues_of_a_list_of_events_are_found_together():
    events = [
        call("c1", T0 + 5),
        call("c1", T0),
        call(None, None),
        result("c2", T0),
        {"type": "made_up"},
    ]
    found = check({"events": events, "proposed_actions": [refund({"kind": "gone"})]}, ("d1",))
    assert found == TraceIntegrity("broken", tuple(JOINABLE))


def test_no_events_are_explained_by_a_failed_call():
    response = {"events": [], "runner_failure": {"class": "timeout"}}
    assert check(response) == TraceIntegrity("partial", ("no_events",))


def test_a_response_without_events_has_none():
    assert check({}).issues == ("no_events",)


def test_events_that_are_no_list_break_a_trace_even_if_the_call_failed():
    response = {"events": "none", "runner_failure": {"class": "timeout"}}
    assert check(response) == TraceIntegrity("broken", ("events_not_array",))


def test_a_required_retrieval_is_missing_only_where_nothing_was_retrieved():
    """Which documents came is a matter for the assertions of the case."""
    events = [{"type": "retrieval", "ts": T0, "query": "q", "doc_ids": ["d1"]}]
    assert check({"events": events}, ("d1",)).status == "ok"
    assert check({"events": events}, ("d2",)).status == "ok"
    assert check({"events": SOUND}, ("d1",)).issues == ("retrieval_required_missing",)
    assert check({"events": SOUND}, ()).status == "ok"


def test_evidence_is_a_result_or_a_document_that_the_trace_holds():
    trace = a_trace(*SOUND, {"type": "retrieval", "ts": T0 + 2, "query": "q", "doc_ids": ["d1"]})
    assert EvidenceTarget("tool_result", "c1") in evidence_targets(trace)
    assert EvidenceTarget("retrieval_doc", "d1") in evidence_targets(trace)
    assert EvidenceTarget("tool_result", "d1") not in evidence_targets(trace)
    assert EvidenceTarget("retrieval_doc", "c1") not in evidence_targets(trace)
    assert EvidenceTarget("tool_result", None) not in evidence_targets(trace)
    assert EvidenceTarget("tool_call", "c1") not in evidence_targets(trace)


def test_equal_times_are_in_order():
    assert check({"events": [call("c1", T0), result("c1", T0)]}).status == "ok"


def test_many_references_into_many_events_take_no_time():
    events = [result(f"c{n}", T0 + n) for n in range(20_000)]
    refs = [{"kind": "tool_result", "call_id": f"c{n}"} for n in range(20_000)]
    trace = {"events": events, "proposed_actions": [refund(*refs)]}
    assert check(trace).status == "broken"
    assert takes_at_most(3, lambda: check(trace))


ids = st.sampled_from([None, "a", "b", 3])
times = st.sampled_from([None, T0, T0 + 1, "late"])
events = st.one_of(
    st.builds(call, ids, times),
    st.builds(result, ids, times),
    st.builds(lambda docs: {"type": "retrieval", "doc_ids": docs}, json_values),
    json_values,
)
responses = st.fixed_dictionaries(
    {"events": st.lists(events, max_size=8) | json_values},
    optional={
        "proposed_actions": st.lists(st.builds(refund, st.dictionaries(st.text(), json_values)))
        | json_values,
        "runner_failure": json_values,
    },
)


@given(responses, st.lists(st.sampled_from(["d1", "d2"])))
def test_a_trace_is_ok_exactly_if_it_has_no_issue(response: Any, required: list[str]):
    found = check(response, tuple(required))
    assert (found.status == "ok") is (found.issues == ())
    assert list(found.issues) == [code for code in ISSUES if code in found.issues]


@given(responses, st.lists(st.sampled_from(["d1", "d2"])))
def test_the_same_response_has_the_same_issues(response: Any, required: list[str]):
    assert check(response, tuple(required)) == check(response, tuple(reversed(required)))


TIMES = st.lists(st.none() | st.integers(0, 5) | st.floats(0, 5), min_size=1, max_size=6)


@given(TIMES)
def test_times_go_back_exactly_if_one_is_before_the_one_that_precedes_it(times: list[Any]):
    known = [each for each in times if each is not None]
    expected = set()
    if len(known) < len(times):
        expected.add("missing_timestamps")
    if any(after < before for before, after in pairwise(known)):
        expected.add("non_monotonic_timestamps")
    events = [{"type": "message", "ts": each, "role": "user", "content": ""} for each in times]
    assert set(check_integrity(a_trace(*events)).issues) == expected


IDS = st.none() | st.sampled_from(["c1", "c2", "c3"])


@given(st.lists(IDS, min_size=1, max_size=5))
def test_ids_are_missing_or_repeated_where_they_are(ids: list[Any]):
    named = [each for each in ids if each is not None]
    found = set(check_integrity(a_trace(*[call(each) for each in ids])).issues)
    assert ("missing_call_id" in found) == (None in ids)
    assert ("duplicate_call_id" in found) == any(named.count(each) > 1 for each in named)


some_events = st.lists(
    st.sampled_from([make(each) for make in (call, result) for each in ("c1", "c2", "c3", None)]),
    max_size=6,
)


@given(some_events)
def test_calls_that_are_paired_by_their_ids_have_no_issue_of_ids_or_results(events: list[Any]):
    found = check_integrity(a_trace(*events))
    with patch("evalwright.trace.integrity.are_paired_by_id", return_value=False):
        assert check_integrity(a_trace(*events)) == found
