"""The comparison with a baseline on a console: what broke first, and whether it tells."""

from evalwright.contracts.run_plan import (
    Baseline,
    BaselineTask,
)
from evalwright.contracts.summary import EvalSummary, TaskResult
from evalwright.reports.formats.console import Style
from evalwright.reports.run.several_runs import MOST_CHANGES, render_regression
from evalwright.scoring.regression import RegressionReport, compare_to_baseline
from evalwright.scoring.thresholds import mean

PLAIN = Style(colour=False)
PASS, FAIL = (1.0, True), (0.0, False)


def a_report(*tasks: tuple[tuple[float, bool], tuple[float, bool]], run_id: str = "run_b"):
    before = [BaselineTask(*one) for one, _ in tasks]
    now = [TaskResult(f"task-{n}", *one) for n, (_, one) in enumerate(tasks, 1)]
    score = mean([task.score for task in now])
    passed = sum(task.passed for task in now)
    summary = EvalSummary("acme.shop.evals.refunds", "1.0.0", score, True, len(now), passed, now)
    baseline = Baseline(run_id, mean([task.score for task in before]), before)
    return compare_to_baseline(summary, baseline)


def text(report: RegressionReport, style: Style = PLAIN, **full) -> str:
    return "\n".join(render_regression(report, style, **full))


def test_what_broke_comes_first_then_what_was_mended_then_whether_it_tells():
    report = a_report(
        ((0.8, True), (0.25, False)),
        (FAIL, PASS),
        ((0.9, True), (0.85, True)),
        (FAIL, FAIL),
        (PASS, PASS),
    )
    assert text(report).splitlines() == [
        "Against the baseline run_b",
        "  Newly failing (1)",
        "    ■ task-1  0.8 → 0.25",
        "  Newly passing (1)",
        "    ○ task-2  0 → 1",
        "  Same verdict, lower score (1)",
        "    ↓ task-3  0.9 → 0.85",
        "  1 task still fails",
        "  score 0.54 → 0.62 (+0.08, p = 1)",
        "  pass rate 60.0% → 60.0% (+0.0 points)",
        "  Within chance: 3 of 5 → 3 of 5 passed (p = 1).",
    ]


def test_a_run_like_its_baseline_is_told_in_a_few_lines():
    assert text(a_report(*[(PASS, PASS)] * 4)).splitlines() == [
        "Against the baseline run_b",
        "  score 1 → 1 (+0)",
        "  pass rate 100.0% → 100.0% (+0.0 points)",
        "  No verdict changed: 4 of 4 passed on both sides.",
    ]


def test_a_suite_without_tasks_has_no_statistics():
    assert text(a_report()).splitlines() == [
        "Against the baseline run_b",
        "  Nothing was compared: no task has a result on both sides.",
    ]


def test_of_many_tasks_the_first_are_shown_and_the_rest_are_counted():
    report = a_report(*[(PASS, FAIL)] * (MOST_CHANGES + 7))
    short, full = text(report), text(report, full=True)
    assert f"Newly failing ({MOST_CHANGES + 7})" in short
    assert short.count("■") == MOST_CHANGES
    assert "… and 7 more" in short
    assert full.count("■") == MOST_CHANGES + 7
    assert "more" not in full


def test_scores_that_differ_never_look_the_same():
    assert "0.70001 → 0.70002" in text(a_report(((0.70001, True), (0.70002, False))))


def test_colour_marks_what_broke_and_a_change_that_tells():
    coloured = text(a_report(*[(PASS, FAIL)] * 8), Style(colour=True))
    assert "\x1b[31m■\x1b[0m task-1" in coloured
    assert "\x1b[31m  Worse beyond chance: 8 of 8" in coloured
    noise = text(a_report((PASS, FAIL), (FAIL, PASS)), Style(colour=True))
    assert "\x1b[32m○\x1b[0m task-2" in noise
    assert "\x1b[31m  Within" not in noise


def test_the_name_of_a_run_does_not_steer_the_terminal():
    assert "\x1b" not in text(a_report((PASS, PASS), run_id="run\x1b[2J"))
