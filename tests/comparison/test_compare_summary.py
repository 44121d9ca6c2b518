"""The mean of many values, held as few; cases counted in any portions."""

from statistics import fmean

from hypothesis import given
from hypothesis import strategies as st

from evalwright.comparison.summary import CaseFacts, CaseTally, Mean, SideFacts, subject_of
from evalwright.contracts.report import ROOT_CAUSES, SEVERITIES
from evalwright.scoring.chance import Passes

numbers = st.floats(-1e15, 1e15) | st.integers(-(10**15), 10**15)


@given(values=st.lists(numbers, min_size=1, max_size=30), repeats=st.sampled_from([1, 40, 150]))
def test_a_mean_is_that_of_the_list_to_the_last_bit(values: list[float], repeats: int) -> None:
    mean = Mean()
    for _ in range(repeats):
        mean.add(values)
    merged = Mean()
    merged.add(mean.parts, mean.count)
    for each in (mean, merged):
        assert each.count == len(values) * repeats
        assert each.value() == fmean(values * repeats)


sides = st.builds(
    SideFacts,
    passed=st.booleans(),
    root=st.sampled_from(["", *ROOT_CAUSES]),
    gated=st.booleans(),
    answered=st.booleans(),
    flaky=st.booleans(),
    signals=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(SEVERITIES))).map(tuple),
    latency_ms=st.none() | numbers,
    cost_usd=st.none() | numbers,
)
changes = st.sampled_from(["regression", "improvement", "still_failing", "still_passing"])
of_runs = st.sampled_from([(0, 0), (0, 1), (1, 1), (0, 5), (3, 5), (5, 5)])
passes = st.builds(lambda before, now: Passes(*before, *now), of_runs, of_runs)
facts = st.builds(
    CaseFacts,
    case_id=st.sampled_from("abcdef"),
    change=changes,
    expected=st.booleans(),
    answer_differs=st.booleans(),
    calls_differ=st.booleans(),
    passes=passes,
    alarming=st.booleans(),
    new_signals=st.lists(st.sampled_from(SEVERITIES)).map(tuple),
    baseline=sides,
    new=sides,
)
cases = st.lists(facts, max_size=8)


@given(batches=st.lists(cases, max_size=4))
def test_cases_count_the_same_alone_together_and_merged(batches: list[list[CaseFacts]]) -> None:
    alone, merged = CaseTally(), CaseTally()
    for batch in batches:
        counted = CaseTally()
        counted.add(batch)
        merged.merge(counted)
        for facts in batch:
            alone.add([facts])
    assert merged.summary() == alone.summary()


def test_a_report_is_titled_by_the_names_that_people_use():
    meta = {
        "suite": {"id": "local.evalwright.evals.support-desk", "version": "0.0.0"},
        "started_at": 1_700_000_000_000,
        "provenance": {"agent_ref": "agents/desk.py:answer"},
    }
    snapshot = {"agent": {"name": "local.desk.answer"}}
    assert subject_of(meta, snapshot) == "support-desk, desk.py:answer, 2023-11-14"
    assert subject_of({"suite": {"id": "acme.desk"}, "provenance": 7}, {}) == "acme.desk"
