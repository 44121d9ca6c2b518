"""Each bar of a run, and how far it was met."""

import msgspec
import pytest

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
    return [(bar.name, bar.figure, bar.aim, bar.missed, bar.met) for bar in bars_of(frame, of)]


def test_every_task_must_pass_where_no_bar_is_declared():
    four, every = tasks(0.8, 0.5, *FOUR_OF_FIVE), "every task must pass"
    missed = f"4 of 5 tasks passed, and {every}"
    assert told(a_frame(), four) == [("Pass rate", "80.0%", every, missed, False)]
    all_four = tasks(1.0, 0.5, *FOUR_OF_FIVE[:4])
    (bar,) = bars_of(a_frame(), all_four)
    assert (bar.figure, bar.aim, bar.met) == ("100.0%", every, True)


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [
        ({"pass_rate": 0.9}, "4 of 5 tasks passed, 10 points below the bar of 90%"),
        ({"pass_rate": 0.805}, "4 of 5 tasks passed, 0.5 points below the bar of 80.5%"),
        (
            {"pass_rate": 0.8001},
            "4 of 5 tasks passed, less than 0.1 points below the bar of 80.01%",
        ),
        ({"pass_score": 0.9}, "the score is 0.8, 0.1 below the bar of 0.9"),
    ],
)
def test_a_declared_bar_that_was_missed_says_by_how_much(thresholds, expected):
    (bar,) = bars_of(a_frame(**thresholds), tasks(0.8, 0.5, *FOUR_OF_FIVE))
    assert (bar.missed, bar.met) == (expected, False)


def test_a_rate_is_shown_with_its_interval_and_its_bar():
    (bar,) = bars_of(a_frame(pass_rate=0.7), tasks(0.8, 0.5, *FOUR_OF_FIVE))
    assert (bar.gauge["figure"], bar.gauge["aim"]) == ("80.0%", "bar 70% · 38\N{EN DASH}96%")
    assert bar.gauge["rate"]["bar"] == 0.7


def test_a_run_of_the_old_rule_is_measured_by_the_default_bar_of_its_time():
    (bar,) = bars_of(a_frame(scoring=FIRST_RULE), tasks(0.8, 0.5, *FOUR_OF_FIVE))
    assert (bar.name, bar.figure, bar.aim, bar.met) == (
        "Score",
        "0.8",
        "bar 0.7, the default then",
        True,
    )


def test_where_no_task_passed_a_bar_says_so_though_the_others_are_met():
    none = tasks(0.0, 0.5, *(TaskRow(each, 0.0, passed=False) for each in "abcde"))
    first, second = bars_of(a_frame(pass_rate=0), none)
    assert (first.aim, first.met) == ("bar 0%", True)
    assert (second.missed, second.met) == ("0 of 5 tasks passed, and at least one must", False)


def test_findings_are_no_bar_where_nobody_looked_for_any():
    rows = [TaskRow("a", 1.0, passed=True)]
    assert "Serious findings" not in {bar.name for bar in bars_of(a_frame(), tasks(1, 0, *rows))}


def test_latency_and_cost_have_a_ceiling():
    frame = a_frame(max_p95_latency_ms=100, max_cost_usd=0.4)
    rows = [TaskRow(f"t{n}", 1.0, True, latency_ms=n) for n in range(100)]
    latency, cost = bars_of(frame, tasks(0.8, 0.5, *rows))[1:]
    assert (latency.name, latency.figure, latency.met) == ("p95 time", "94 ms", True)
    assert (cost.figure, cost.missed, cost.met) == (
        "$0.50",
        "the cost is $0.50, $0.10 above the bar of $0.40",
        False,
    )
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
    assert (bar.missed, bar.met) == ("1 task has high or critical findings, and none may", False)
    assert bars_of(a_frame(), tasks(0.8, 0.5, rows[1], modes=["adversarial"]))[1].met


def test_a_baseline_is_a_bar():
    worse = bars_of(a_frame(PlannedBaseline("run-1", 0.9, msgspec.Raw(b"[]"))), tasks())[1]
    assert (worse.figure, worse.missed, worse.met) == (
        "\N{MINUS SIGN}0.1",
        "the score is 0.1 below that of the baseline, 0.9",
        False,
    )


def test_a_run_that_goes_on_is_measured_so_far():
    rows = [TaskRow("a", 1.0, True), TaskRow("b", 0.0, False), TaskRow("c")]
    assert bars_of(a_frame(pass_score=0.7), TaskList(rows, []))[0].figure == "0.5"
