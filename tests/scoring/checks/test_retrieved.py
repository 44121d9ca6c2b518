"""`retrieved` and `cites`: what an agent found, and which sources it names."""

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import evalwright as ew
from evalwright.contracts.coverage import Coverage
from evalwright.scoring.checks.base import Examined, MadeCall, run_checks
from evalwright.scoring.checks.retrieved import ids_in, measure
from evalwright.scoring.checks.table import prepare_checks

SEEN = Coverage("spans", "spans", "spans")


def said(check: Any, *calls: MadeCall, output: Any = "", coverage: Coverage = SEEN) -> Any:
    checks, problems = prepare_checks([check], "$")
    assert problems == []
    (result,) = run_checks(checks, Examined(output=output, calls=calls, coverage=coverage))
    return result


def found(*ids: str, query: str = "q") -> MadeCall:
    return MadeCall("retrieval", {"query": query}, list(ids))


# By hand: relevant at ranks 2 and 4 of 5, three relevant in all.
BY_HAND = {
    "recall": 2 / 3,
    "precision": 2 / 5,
    "mrr": 1 / 2,
    "ndcg": (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3) + 1 / math.log2(4)),
}
# Järvelin and Kekäläinen's example, as Wikipedia's article on nDCG works it out: 6.861 / 8.740.
GRADED = {"d1": 3.0, "d2": 2.0, "d3": 3.0, "d5": 1.0, "d6": 2.0, "d7": 3.0, "d8": 2.0}


def test_the_measures_are_those_of_the_books() -> None:
    gains = dict.fromkeys(["b", "d", "z"], 1.0)
    assert measure(["a", "b", "c", "d", "e"], gains, 5) == pytest.approx(BY_HAND)
    ranking = ["d1", "d2", "d3", "d4", "d5", "d6"]
    assert measure(ranking, GRADED, 6)["ndcg"] == pytest.approx(0.785, abs=0.0005)


@given(
    st.lists(st.sampled_from("abcdefgh"), unique=True),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 4), min_size=1),
    st.none() | st.integers(1, 10),
)
def test_measures_are_shares_and_the_best_order_is_perfect(
    ranking: list[str], gains: dict[str, float], at: int | None
) -> None:
    measured = measure(ranking[:at], gains, at)
    assert all(0 <= each <= 1 + 1e-9 for each in measured.values())
    assert (measured["recall"] == 0) == (measured["mrr"] == 0) == (measured["ndcg"] == 0)
    best = sorted(gains, key=gains.__getitem__, reverse=True)
    assert measure(best[:at], gains, at)["ndcg"] == pytest.approx(1)
    assert measure(best[:at], gains, at)["mrr"] == 1
    if len(gains) <= 5:  # no order has more than the sorted one
        orders = [*itertools.permutations(gains)]
        assert max(measure(each[:at], gains, at)["ndcg"] for each in orders) == pytest.approx(1)


@pytest.mark.parametrize("check", [{"retrieved": ["a"]}, {"cites": "retrieved"}], ids=str)
@pytest.mark.parametrize(
    ("calls", "coverage"),
    [
        ([], Coverage()),  # nobody looked
        ([], SEEN),  # somebody looked, and there was no retrieval
        ([MadeCall("mail.send", {}, {"sent": True})], SEEN),
        ([MadeCall("retrieval", {}, None, is_ok=False)], SEEN),  # its result is not known
        ([MadeCall("retrieval", {}, [{"text": "We open at 9."}])], SEEN),  # it has no ids
    ],
)
def test_where_nothing_was_observed_nothing_passes(
    check: Any, calls: list[MadeCall], coverage: Coverage
) -> None:
    for each in (check, {"not": check}):
        result = said(each, *calls, output="As [a] says", coverage=coverage)
        assert not result.passed
        assert result.broken


def test_documents_count_once_in_the_order_of_all_retrievals() -> None:
    calls = found("b", "a"), found("a", "c")
    result = said({"retrieved": {"ids": ["c"], "at": 3, "mrr": 0.3}}, *calls)
    assert (result.passed, result.actual) == (True, ["b", "a", "c"])
    assert not said({"retrieved": {"ids": ["c"], "at": 2}}, *calls).passed
    assert not said({"retrieved": ["c"]}, found()).passed  # which is known: nothing was found


@pytest.mark.parametrize(
    ("result", "ids"),
    [
        ([{"id": "a", "text": "…"}, {"doc_id": 2}], ["a", "2"]),
        ({"hits": [{"document_id": "a", "parts": [{"id": "no"}]}], "total": 1}, ["a"]),
        ({"ids": [["a", "b"]], "documents": [["We open", "at 9"]]}, ["a", "b"]),
        ('{"results": [{"file_id": "a"}]}', ["a"]),
        (["a text", "another"], []),
        ("{not json", []),
    ],
)
def test_results_of_tools_tell_ids_in_many_forms(result: Any, ids: list[str]) -> None:
    assert [*ids_in(result)] == ids


def test_what_is_cited_must_have_been_retrieved() -> None:
    text = "Within 30 days [returns; a b], see [the page](https://shop.example) and [hours]."
    result = said({"cites": "retrieved"}, found("returns", "a b"), output=text)
    assert (result.passed, result.reason) == (False, "not retrieved: “hours”")
    assert result.score == pytest.approx(2 / 3)
    assert said({"cites": "retrieved"}, found("hours"), output={"sources": ["hours"]}).passed
    nothing = said({"cites": "retrieved"}, found("hours"), output="At nine.")
    assert (nothing.passed, nothing.reason) == (False, "nothing is cited")


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"retrieved": {"ids": ["a"], "gains": {"b": 2}}}, "“b” is not among `ids`"),
        ({"cites": {"sources": ["a"], "tool": "kb"}}, "only what was retrieved has a tool"),
        ({"cites": {"sources": ["a"], "at_least": 0}}, "a share of 0 asks for nothing"),
        ({"retrieved": {"ids": ["a"], "recal": 1}}, "recall"),
        ({"retrieved": []}, "retrieved"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(check: Any, message: str) -> None:
    _, problems = prepare_checks([check], "$")
    assert message in f"{problems[0].path} {problems[0]}"


OPENINFERENCE = {
    "openinference.span.kind": "RETRIEVER",
    "input.value": "When?",
    "retrieval.documents.0.document.id": "hours",
    "retrieval.documents.0.document.content": "At 9.",
    "retrieval.documents.1.document.id": "returns",
}
GENAI = {
    "gen_ai.operation.name": "retrieval",
    "gen_ai.retrieval.query.text": "When?",
    "gen_ai.retrieval.documents": '[{"id": "hours"}, {"id": "returns"}]',
}
WANTED = {"ids": ["returns"], "mrr": 0.5}
ASKED = [ew.Task("a", input="When?", checks=[{"retrieved": WANTED}, ew.cites("retrieved")])]


@pytest.mark.parametrize("attributes", [OPENINFERENCE, GENAI], ids=["openinference", "gen_ai"])
def test_retrievals_are_observed_by_spans(attributes: dict[str, Any]) -> None:
    async def agent(task: Any) -> str:
        from opentelemetry import trace

        tracer = trace.get_tracer("test")
        with tracer.start_as_current_span("search", attributes=attributes):
            return "At 9 [hours]."

    assert ew.run(ASKED, agent).passed


def test_an_agent_tells_of_what_it_retrieved_or_nothing_is_known() -> None:
    def told(task: Any) -> str:
        task.record_retrieval(task.input, [{"id": "hours", "text": "At 9."}, "returns"])
        return "At 9 [hours]."

    assert ew.run(ASKED, told).passed
    result = ew.run(ASKED, lambda task: "At 9 [hours].")
    assert [each.passed for each in result.tasks["a"].checks] == [False, False]
    assert "not observed" in result.tasks["a"].checks[0].reason
