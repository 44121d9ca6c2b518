"""Bars on results: which are met, how each is told, and what a verdict says beside PASSED."""

from typing import Any

import pytest

from evalwright.contracts.run_plan import CURRENT_RULE, FIRST_RULE
from evalwright.contracts.suite import Expected, TagBar, Task, Thresholds
from evalwright.contracts.summary import TaskResult
from evalwright.scoring.pass_bars import PassBar, TagResult, by_tag, let_through, pass_bars

TASKS = [
    Task("a", "x", Expected("checks", checks=[]), tags=["safety"]),
    Task("b", "x", Expected("checks", checks=[]), tags=["safety", "money"]),
    Task("c", "x", Expected("checks", checks=[])),
]
RESULTS = {
    "a": TaskResult("a", 1.0, True),
    "b": TaskResult("b", 0.5, False),
    "c": TaskResult("c", 1.0, True),
}


def told(thresholds: Thresholds, *selected: str) -> list[str]:
    """`met`, or what it says, for each bar over all results or those of some tasks."""
    results = {name: RESULTS[name] for name in selected or RESULTS}
    over = pass_bars(TASKS, thresholds, results)
    return ["met" if bar.met else bar.sentence for bar in over]


@pytest.mark.parametrize(
    ("bars", "expected"),
    [
        ({}, ["2 of 3 tasks passed, and every task must pass (default)"]),
        ({"pass_rate": 2 / 3}, ["met"]),
        (
            {"pass_rate": 0.6667},
            ["2 of 3 tasks passed: 0.6666666666666666 is below 0.6667 (passRate)"],
        ),
        ({"pass_score": 0.8333}, ["met"]),
        ({"pass_score": 0.9}, ["score 0.8333 is below 0.9 (passScore)"]),
        (
            {"tags": {"safety": TagBar(pass_rate=0.5, pass_score=0.8)}},
            ["met", "met", "tag safety: score 0.75 is below 0.8 (passScore)"],
        ),
        (
            {"tags": {"money": TagBar(pass_rate=0.5)}},
            ["met", "tag money: 0 of 1 tasks passed: 0 is below 0.5 (passRate)"],
        ),
    ],
)
def test_each_bar_is_met_or_says_by_how_much_it_is_missed(
    bars: dict[str, Any], expected: list[str]
) -> None:
    assert told(Thresholds(**bars)) == expected


def test_a_bar_without_tasks_is_missed_unless_it_is_that_of_a_tag() -> None:
    """A selection may hold none of a tag; no results at all are no success."""
    bars = Thresholds(pass_rate=0.0, tags={"money": TagBar(pass_rate=1.0)})
    over_all, of_tag = pass_bars(TASKS, bars, {})
    assert (over_all.met, over_all.sentence) == (False, "no task was evaluated")
    assert (of_tag.met, of_tag.sentence) == (None, "tag money: no task was evaluated")
    assert (of_tag.reached, of_tag.share) == ("not evaluated", 0.0)


@pytest.mark.parametrize("thresholds", [{"pass_rate": 0.0}, {"pass_rate": 0.0, "pass_score": 0.0}])
def test_no_run_passes_in_which_no_task_did(thresholds: dict[str, float]) -> None:
    assert told(Thresholds(**thresholds), "b")[-1] == "no task passed"


def test_the_words_of_a_bar_and_of_what_it_was_held_against() -> None:
    def words(bar: PassBar) -> tuple[str, str, str]:
        return bar.place, bar.in_words, bar.reached

    rate = PassBar("passRate", 0.5, 0.25, 1_000, 4_000)
    assert words(rate) == ("all tasks", "0.5 (passRate)", "1,000 of 4,000 tasks passed")
    score = PassBar("passScore", 0.7, 0.25, 1, 4, "safety", origin="the default bar")
    assert words(score) == (
        "tag safety",
        "0.7 (the default bar)",
        "score 0.25, 1 of 4 tasks passed",
    )
    rest = PassBar("default", 1.0, 0.25, 1, 4, is_over_rest=True)
    assert words(rest) == ("other tasks", "every task must pass (default)", "1 of 4 tasks passed")
    some = PassBar("some", 0.0, 0.0, 0, 4)
    assert words(some) == ("all tasks", "at least one task passes", "0 of 4 tasks passed")


@pytest.mark.parametrize(("tag", "shown"), [("größe", "größe"), ("x\nPASSED", r"x\nPASSED")])
def test_a_tag_is_told_on_one_line(tag: str, shown: str) -> None:
    assert PassBar("passRate", 0.5, 0, 0, 1, tag).place == f"tag {shown}"


def test_every_tag_has_its_tasks_its_mean_and_its_own_bars() -> None:
    bars = Thresholds(pass_rate=0.5, tags={"money": TagBar(pass_score=0.5)})
    money, safety = by_tag(TASKS, bars, RESULTS)
    own = PassBar("passScore", 0.5, 0.5, 0, 1, "money")
    assert money == TagResult("money", 1, 0, 0.5, [own])
    assert safety == TagResult("safety", 2, 1, 0.75, [])
    assert by_tag(TASKS, bars, {"c": RESULTS["c"]})[0].score is None


@pytest.mark.parametrize(
    ("thresholds", "more", "words"),
    [
        ({}, {}, "2 of 3 tasks"),
        ({}, {"repeats": 2}, "2 of 3 tasks in every run"),
        (
            {},
            {"repeats": 2, "flaky": 1, "forgiven": True},
            "2 of 3 tasks in every run, 1 flaky, --flaky-as warn",
        ),
        ({"pass_rate": 0.6}, {"flaky": 1}, "2 of 3 tasks, 1 flaky, bar 0.6"),
        ({"pass_score": 0.5}, {}, "2 of 3 tasks, score 0.8333, bar 0.5 (passScore)"),
        ({}, {"scoring": FIRST_RULE}, "2 of 3 tasks, score 0.8333, bar 0.7 (the default then)"),
        ({"pass_rate": 0.6}, {"scoring": FIRST_RULE}, "2 of 3 tasks, bar 0.6"),
        (
            {"tags": {"a": TagBar(0.5, 0.25), "b\n": TagBar(pass_score=0.1)}},
            {},
            r"2 of 3 tasks, bars of a 0.5 and 0.25 (passScore), b\n 0.1 (passScore)",
        ),
        ({"pass_rate": 0.6, "tags": {"a": TagBar(0.5)}}, {}, "2 of 3 tasks, bar 0.6"),
    ],
)
def test_a_verdict_that_lets_failed_tasks_through_says_by_which_bar(
    thresholds: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    assert let_through(2, 3, 5 / 6, Thresholds(**thresholds), **more) == words
    assert let_through(3, 3, 1.0, Thresholds(**thresholds), **more) == ""


def test_by_the_first_rule_one_bar_on_the_score_is_over_all_tasks() -> None:
    (declared,) = pass_bars(TASKS, Thresholds(pass_score=0.9), RESULTS, FIRST_RULE)
    assert (declared.met, declared.in_words) == (False, "0.9 (passScore)")
    (default,) = pass_bars(TASKS, Thresholds(), RESULTS, FIRST_RULE)
    assert (default.met, default.in_words) == (True, "0.7 (the default bar)")
    assert pass_bars(TASKS, Thresholds(), RESULTS, CURRENT_RULE)[0].met is False


def test_a_score_is_weighed_where_any_task_has_another_weight() -> None:
    tasks = [
        Task(name, "x", Expected("checks", checks=[]), weight=w)
        for name, w in (("a", 3.0), ("b", 2.0))
    ]
    (bar,) = pass_bars(tasks, Thresholds(pass_score=0.5), {name: RESULTS[name] for name in "ab"})
    assert bar.score == 0.8
