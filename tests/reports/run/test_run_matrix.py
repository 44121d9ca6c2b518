"""Several runs side by side: who may ship, at which price, and on which tasks they differ."""

import msgspec
import pytest
from msgspec.structs import replace

from builders import a_suite
from evalwright.contracts.run_plan import AgentFacts, RunSettings
from evalwright.contracts.suite import Thresholds
from evalwright.contracts.summary import SafetyFinding
from evalwright.reports.run.run_matrix import MatrixLimits, MatrixRun, RunMatrix
from evalwright.reports.run.task_list import (
    PlannedSuite,
    RunFrame,
    RunTotals,
    TaskList,
    TaskRow,
)

NO_BARS = Thresholds()
TASKS = [replace(each, title=f"Title of {each.task_id}") for each in a_suite(4).tasks]


def a_run(
    model: str, passed: str, cost: float | None = 1.0, bars: Thresholds = NO_BARS
) -> MatrixRun:
    """A run of four tasks, in which those marked `y` passed and `f` has a finding."""
    tasks = [msgspec.Raw(msgspec.json.encode(each)) for each in TASKS]
    suite = PlannedSuite("acme.evals.desk", "1.0.0", ["golden"], tasks, bars)
    rows = [
        TaskRow(
            task.task_id,
            float(mark == "y"),
            mark == "y",
            None,
            100,
            [SafetyFinding("leak", "high")] if mark == "f" else None,
        )
        for task, mark in zip(TASKS, passed, strict=True)
    ]
    score = passed.count("y") / len(passed)
    agent = AgentFacts("acme.clerk", "clerk", model=model)
    frame = RunFrame(suite, agent, RunSettings(), scoring=2)
    return MatrixRun(
        frame,
        TaskList(rows, ["golden"], RunTotals(score, score == 1, rows, cost)),
        model,
        "pass" if score == 1 else "fail",
        "Passed" if score == 1 else "Failed",
        f"#{model}",
        lambda _: {},
        lambda name: f"#{model}-{name}",
    )


def test_the_verdict_names_who_may_ship_and_what_that_costs() -> None:
    shown = RunMatrix([a_run("large", "yyyy", 2.0), a_run("small", "yynn", 0.5)]).shown([])
    assert shown["verdict"]["heading"] == "Only large may ship"
    assert shown["verdict"]["why"] == (
        "large passes 2 tasks more than small, which chance may explain (p = 0.5), "
        "for 4.0 times the price: $1.50 more per run."
    )
    assert shown["verdict"]["pairs"][-1] == (
        "Cost per passing task",
        "",
        "$0.50 large, $0.25 small",
    )


def test_the_bars_of_the_suite_stand_in_the_heads_and_in_the_chart() -> None:
    bars = Thresholds(pass_rate=0.75, max_cost_usd=1.0, max_p95_latency_ms=50)
    shown = RunMatrix([a_run("large", "yyyy", 2.0, bars), a_run("small", "yynn", 0.5, bars)])
    columns, chart = shown.shown([])["columns"], shown.shown([])["chart"]
    assert columns[0]["facts"] == [
        ("$2.00 per run, bar $1.00", True),
        ("p95 100 ms, bar 50 ms", True),
    ]
    assert columns[1]["facts"][0] == ("$0.50 per run, bar $1.00", False)
    assert columns[0]["rate"]["bar"] == 0.75
    assert None not in (chart["bar"], chart["budget"])
    assert "budget $1.00" in chart["words"]


def test_where_the_bar_is_one_of_the_score_the_score_is_shown() -> None:
    bars = Thresholds(pass_score=0.7)
    rate = a_run("large", "yyyn", 2.0, bars).quality
    assert (rate["is_score"], rate["share"], rate["bar"]) == (True, 0.75, 0.7)
    assert rate["words"] == "score 0.75, bar 0.7"


@pytest.mark.parametrize("costs", [(None, 1.0), (0.0, 0.0)])
def test_without_the_costs_of_two_runs_there_is_no_chart(costs: tuple[float | None, float]) -> None:
    runs = [a_run("a", "yyyy", costs[0]), a_run("b", "yyyy", costs[1])]
    assert RunMatrix(runs).shown([])["chart"] is None


def test_tasks_on_which_runs_differ_come_first_and_the_odd_one_is_named() -> None:
    runs = [a_run("a", "ynyn"), a_run("b", "yfyn"), a_run("c", "yyyn")]
    matrix = RunMatrix(runs)
    ids = [each.task_id for each in TASKS]
    assert matrix.tasks("") == [ids[1]]
    assert matrix.tasks("all") == [ids[1], ids[0], ids[2], ids[3]]
    assert matrix.tasks("none") == [ids[3]]
    assert matrix.tasks("findings") == [ids[1]]
    (row,) = matrix.shown([ids[1]])["rows"]
    assert row["note"] == "Only c passes"
    assert [cell["odd"] for cell in row["cells"]] == ["", "", "odd-pass"]
    assert row["cells"][0]["address"] == f"#a-{ids[1]}"
    assert row["title"] == f"Title of {ids[1]}"


def test_the_frontier_leaves_out_what_another_beats_for_less() -> None:
    runs = [a_run("good", "yyyn", 1.0), a_run("dear", "yynn", 2.0), a_run("best", "yyyy", 3.0)]
    frontier = RunMatrix(runs).shown([])["chart"]["frontier"]
    assert frontier.count("L") == 1


def test_earlier_runs_are_points_of_the_chart_and_limits_are_lines_in_it() -> None:
    runs = [a_run("large", "yyyy", 2.0), a_run("small", "yynn", 0.5)]
    limits = MatrixLimits(least=0.9, most_usd=1.0)
    shown = RunMatrix(runs, [(0.3, 0.25), (4.0, 1.0)], limits).shown([])
    chart = shown["chart"]
    assert len(chart["past"]) == 2
    ys = [y for _, y in chart["past"]]
    assert ys[0] > ys[1], "the better one stands higher"
    assert None not in (chart["bar"], chart["budget"])
    assert shown["verdict"]["pairs"][0] == ("At least 90.0%, at most $1.00", "none of these", "")
    by_cost = RunMatrix(runs, limits=MatrixLimits(most_usd=1.0)).shown([])
    assert by_cost["verdict"]["pairs"][0][1] == "small"
