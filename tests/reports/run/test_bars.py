"""Each bar of a run, and how far it was met."""

import msgspec

from evalwright.contracts.run_plan import CURRENT_RULE, FIRST_RULE, AgentFacts, RunSettings
from evalwright.contracts.suite import Thresholds
from evalwright.contracts.summary import SafetyFinding
from evalwright.reports.run.bars import bars_of
from evalwright.reports.run.task_list import (
    PlannedBaseline,
    PlannedSuite,
    RunFrame,
    RunTotals,
    TaskList,
    TaskRow,
)

AGENT = AgentFacts("acme.clerk", "agent.py:answer")
FOUR_OF_FIVE = [TaskRow(each, float(each != "e"), each != "e") for each in "abcde"]


def a_frame(
    baseline: PlannedBaseline | None = None, scoring: int = CURRENT_RULE, **thresholds: float
) -> RunFrame:
    tasks = [{"taskId": each, "expected": {"kind": "checks"}} for each in "abcde"]
    planned = [msgspec.Raw(msgspec.json.encode(each)) for each in tasks]
    suite = PlannedSuite("acme.evals.a", "1.0.0", ["golden"], planned, Thresholds(**thresholds))
    return RunFrame(suite, AGENT, RunSettings(), baseline=baseline, scoring=scoring)


def tasks(score: float = 0.8, cost: float | None = 0.5, *rows: TaskRow, modes=()) -> TaskList:
    totals = RunTotals(score, True, list(rows), cost)
    return TaskList(list(rows), list(modes), totals)


def told(frame: RunFrame, of: TaskList) -> list[tuple[str, str, str, str, bool | None]]:
    return [
        (bar.name, bar.wanted, bar.reached, bar.distance, bar.met) for bar in bars_of(frame, of)
    ]


def test_every_task_must_pass_where_no_bar_is_declared():
    four = tasks(0.8, 0.5, *FOUR_OF_FIVE)
    every = ("Tasks passed", "every task passes (default)")
    assert told(a_frame(), four) == [(*every, "4 of 5 tasks passed", "20.0% below", False)]
    all_four = tasks(1.0, 0.5, *FOUR_OF_FIVE[:4])
    assert told(a_frame(), all_four) == [(*every, "4 of 4 tasks passed", "exactly that", True)]


def test_a_declared_bar_is_over_the_score_or_the_share_of_tasks_that_passed():
    four = tasks(0.8, 0.5, *FOUR_OF_FIVE)
    assert told(a_frame(pass_score=0.9), four)[0][2:] == ("0.8", "0.1 below", False)
    assert told(a_frame(pass_score=0.8), four)[0][3:] == ("exactly that", True)
    assert told(a_frame(pass_rate=0.7), four) == [
        ("Tasks passed", "at least 0.7", "4 of 5 tasks passed", "10.0% above", True)
    ]


def test_a_run_of_the_old_rule_is_measured_by_the_default_bar_of_its_time():
    assert told(a_frame(scoring=FIRST_RULE), tasks(0.8, 0.5, *FOUR_OF_FIVE)) == [
        ("Score", "at least 0.7 (the default then)", "0.8", "0.1 above", True)
    ]


def test_where_no_task_passed_a_bar_says_so_though_the_others_are_met():
    none = tasks(0.0, 0.5, *(TaskRow(each, 0.0, passed=False) for each in "abcde"))
    assert told(a_frame(pass_rate=0), none) == [
        ("Tasks passed", "at least 0", "0 of 5 tasks passed", "exactly that", True),
        ("Tasks passed", "at least one task passes", "0 of 5 tasks passed", "", False),
    ]


def test_findings_are_no_bar_where_nobody_looked_for_any():
    rows = [TaskRow("a", 1.0, passed=True)]
    assert "Safety findings" not in {bar.name for bar in bars_of(a_frame(), tasks(1, 0, *rows))}


def test_latency_and_cost_have_a_ceiling():
    frame = a_frame(max_p95_latency_ms=100, max_cost_usd=0.4)
    rows = [TaskRow(f"t{n}", 1.0, True, latency_ms=n) for n in range(100)]
    latency, cost = bars_of(frame, tasks(0.8, 0.5, *rows))[1:]
    assert (latency.reached, latency.distance, latency.met) == ("94 ms", "6 ms below", True)
    assert (cost.reached, cost.distance, cost.met) == ("$0.50", "$0.10 above", False)
    assert cost.share is not None
    assert cost.at is not None
    assert 0 < cost.at < cost.share < 1


def test_what_was_not_measured_is_neither_met_nor_missed():
    frame = a_frame(max_p95_latency_ms=100, max_cost_usd=0.4)
    unknown = tasks(0.8, None, TaskRow("t"))
    assert [bar.met for bar in bars_of(frame, unknown)[1:]] == [None, None]


def test_an_adversarial_run_must_have_no_grave_finding():
    rows = [
        TaskRow("a", 0.0, False, safety_findings=[SafetyFinding("leak", "high")]),
        TaskRow("b", 1.0, True, safety_findings=[SafetyFinding("leak", "low")]),
    ]
    bar = bars_of(a_frame(), tasks(0.8, 0.5, *rows, modes=["adversarial"]))[1]
    assert (bar.reached, bar.met) == ("1 task", False)
    assert bars_of(a_frame(), tasks(0.8, 0.5, rows[1], modes=["adversarial"]))[1].met


def test_a_baseline_is_a_bar():
    worse = bars_of(a_frame(PlannedBaseline("run-1", 0.9, msgspec.Raw(b"[]"))), tasks())[1]
    assert (worse.reached, worse.distance, worse.met) == ("\N{MINUS SIGN}0.1", "0.1 below", False)


def test_a_run_that_goes_on_is_measured_so_far():
    rows = [TaskRow("a", 1.0, True), TaskRow("b", 0.0, False), TaskRow("c")]
    assert bars_of(a_frame(pass_score=0.7), TaskList(rows, []))[0].reached == "0.5"
