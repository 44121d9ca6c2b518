"""Repeated runs on a console: flaky tasks first, every pass rate with what it leaves open."""

from evalwright.reports.formats.console import Style
from evalwright.reports.run.several_runs import MOST_REPEATS, render_repeats
from evalwright.scoring.repeats import RepeatsReport, Spread, TaskRepeats

PLAIN = Style(colour=False)


def a_report(*passes: int, runs: int = 5, runs_passed: int = 4) -> RepeatsReport:
    tasks = tuple(
        TaskRepeats(f"task-{n}", runs, count, Spread(count / runs, *_ends(count, runs)))
        for n, count in enumerate(passes, 1)
    )
    return RepeatsReport(runs, runs_passed, Spread(0.75, 0.5, 1.0), tasks)


def _ends(count: int, runs: int) -> tuple[float, float]:
    return float(count == runs), float(count > 0)


def lines(report: RepeatsReport, style: Style = PLAIN, **full) -> list[str]:
    return render_repeats(report, style, **full)


def test_flaky_tasks_come_first_then_failing_ones_then_the_rest():
    assert lines(a_report(5, 3, 0, 1)) == [
        "  ◆ task-2  3 of 5   23\N{EN DASH}88%  score 0.6 (0 to 1)",
        "  ◆ task-4  1 of 5    4\N{EN DASH}62%  score 0.2 (0 to 1)",
        "  ■ task-3  0 of 5    0\N{EN DASH}43%  score 0",
        "  ○ task-1  5 of 5  57\N{EN DASH}100%  score 1",
        "  score 0.75 (0.5 to 1) · 4 of 5 runs passed",
        "  pass^1 0.45 · pass^2 0.325 · pass^4 0.25 · pass^5 0.25",
        "  2 of 4 tasks are flaky over 5 runs.",
    ]


def test_of_many_tasks_the_flaky_are_shown_and_the_rest_are_counted_by_verdict():
    report = a_report(*[5] * 12, *[0] * 3, *[2] * (MOST_REPEATS - 1))
    short, full = lines(report), lines(report, full=True)
    assert sum("◆" in line for line in short) == MOST_REPEATS - 1
    assert "    and 14 more: 2 failed, 12 passed" in short
    assert len(full) == len(short) + 14 - 1
    assert not any("more" in line for line in full)


def test_one_run_says_that_it_cannot_tell():
    assert lines(a_report(1, runs=1, runs_passed=1)) == [
        "  ○ task-1  1 of 1  21\N{EN DASH}100%  score 1",
        "  score 0.75 (0.5 to 1) · 1 of 1 runs passed",
        "  One run cannot show which tasks are flaky: repeat it.",
    ]


def test_a_suite_without_tasks_says_so():
    assert lines(a_report()) == [
        "  score 0.75 (0.5 to 1) · 4 of 5 runs passed",
        "  There are no tasks.",
    ]


def test_many_runs_are_told_by_doubling_k():
    [told] = [line for line in lines(a_report(90, runs=100)) if "pass^" in line]
    shown = [part.split()[0] for part in told.split(" · ")]
    assert shown == [f"pass^{k}" for k in (1, 2, 4, 8, 16, 32, 64, 100)]


def test_colour_marks_verdicts():
    told = "\n".join(lines(a_report(5, 0, 2), Style(colour=True)))
    assert "\x1b[33m◆\x1b[0m task-3" in told
    assert "\x1b[31m■\x1b[0m task-2" in told
    assert "\x1b[32m○\x1b[0m task-1" in told


def test_a_task_that_was_never_answered_is_an_error():
    shown = render_repeats(a_report(0, 0, 1), PLAIN, errors={"task-1", "task-3"})
    assert [line.split()[:2] for line in shown[:3]] == [
        ["◆", "task-3"],
        ["▲", "task-1"],
        ["■", "task-2"],
    ]
