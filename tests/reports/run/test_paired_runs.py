"""Two runs task by task: groups, significance, thresholds, and what speaks against comparing."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.run_plan import AgentFacts, JudgePanel, RunSettings, TaskSelection
from evalwright.contracts.suite import Expected, Match, Task, Thresholds
from evalwright.reports.run.paired_runs import (
    GROUPS,
    ComparedSide,
    PairedRuns,
    PairedTask,
    ScoreBounds,
)
from evalwright.reports.run.task_list import PlannedSuite, RunFrame, TaskList, TaskRow

DAY_US = 86_400_000_000
SCORES = st.none() | st.sampled_from((0.0, 0.25, 0.5, 1.0))


def a_side(scores: dict[str, float | None], *, at_us: int = 0, **fields) -> ComparedSide:
    changed = fields.pop("changed", ())
    expected = Expected("golden", match=Match("exact", "x"))
    tasks = [
        msgspec.Raw(msgspec.json.encode(Task(name, name in changed, expected))) for name in scores
    ]
    suite = PlannedSuite(
        fields.pop("suite_id", "acme.evals.a"),
        fields.pop("version", "1.0.0"),
        ["golden"],
        tasks,
    )
    modes, status = fields.pop("modes", ["golden"]), fields.pop("status", "completed")
    frame = RunFrame(suite, AgentFacts("acme.clerk", "a.py:b"), RunSettings(), **fields)
    rows = [
        TaskRow(name, score, None if score is None else score >= 0.5)
        for name, score in scores.items()
    ]
    return ComparedSide(f"run-{at_us}", at_us, status, frame, TaskList(rows, modes))


def groups(pair: PairedRuns) -> dict[str, list[str]]:
    return {name: [task.task_id for task in tasks] for name, tasks in pair.groups.items() if tasks}


def test_tasks_are_grouped_by_how_they_changed_the_largest_fall_first():
    before = {"a": 1.0, "b": 0.5, "c": 0.0, "d": 1.0, "e": 0.25, "f": 1.0, "g": 1.0}
    after = {"a": 0.25, "b": 0.0, "c": 1.0, "d": 1.0, "e": 0.25, "f": 0.5, "h": 1.0}
    assert groups(PairedRuns(a_side(before), a_side(after))) == {
        "worse": ["a", "b"],
        "lower": ["f"],
        "better": ["c"],
        "failing": ["e"],
        "unchanged": ["d"],
        "alone": ["h", "g"],
    }


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(SCORES, SCORES)))
def test_each_task_is_in_one_group_and_the_statistics_count_those_with_both_scores(both):
    pair = PairedRuns(
        a_side({name: old for name, (old, _) in both.items()}),
        a_side({name: new for name, (_, new) in both.items()}),
    )
    assert sum(map(len, pair.groups.values())) == len(both)
    assert set(pair.groups) == set(GROUPS)
    scored = [pair for pair in both.values() if None not in pair]
    assert len(pair.report.tasks) == len(scored)


def test_the_statistics_say_whether_it_is_more_than_chance():
    before = {f"t{n}": 1.0 for n in range(20)}
    after = {name: float(n > 8) for n, name in enumerate(before)}
    assert PairedRuns(a_side(before), a_side(after)).verdict.is_worse
    one_worse = {**before, "t0": 0.0}
    verdict = PairedRuns(a_side(before), a_side(one_worse)).verdict
    assert not verdict.is_worse
    assert verdict.sentence.startswith("Within chance: 20 of 20 → 19 of 20 passed (p = 1)")


def test_scores_can_be_bounded_on_both_sides():
    task = PairedTask("t", TaskRow("t", 0.9, True), TaskRow("t", 0.4, False))
    assert ScoreBounds().holds(task)
    assert ScoreBounds(before_least=0.8, after_most=0.5).holds(task)
    assert not ScoreBounds(before_most=0.8).holds(task)
    assert not ScoreBounds(after_least=0.5).holds(task)
    assert not ScoreBounds(after_least=0.0).holds(task._replace(after=TaskRow("t")))


def warnings(before: ComparedSide, after: ComparedSide) -> str:
    return "\n".join(PairedRuns(before, after).warnings())


def test_runs_that_are_alike_are_compared_without_a_warning():
    assert warnings(a_side({"a": 1.0}), a_side({"a": 0.0}, at_us=1)) == ""
    beside_it = a_side({"a": 0.0}, at_us=1, modes=["golden", "regression"])
    assert warnings(a_side({"a": 1.0}), beside_it) == ""


def test_what_makes_runs_hard_to_compare_is_said():
    plain = {"a": 1.0, "b": 1.0}
    panel = JudgePanel(["acme:judge"], "v1")
    cases = [
        (a_side(plain, suite_id="acme.evals.b"), "Not comparable: the baseline is of another"),
        (a_side(plain, version="0.9.0"), "0.9.0 before, 1.0.0 now"),
        (a_side({"a": 1.0}), "not compared: new: b"),
        (a_side(plain, changed=["b"]), "not compared: changed: b"),
        (a_side(plain, panel=panel), "judged by acme:judge, the new run by no judge"),
        (a_side(plain, modes=["rubric"]), "Other modes: rubric before, golden now."),
        (a_side(plain, modes=["live-shadow"]), "live-shadow run is not deterministic"),
        (a_side(plain, status="cancelled"), "The baseline is cancelled"),
        (a_side(plain, status="running"), "The baseline is not ended"),
        (a_side(plain, selection=TaskSelection(9, ["tag"])), "a part of its suite: 2 of 9"),
        (a_side(plain, at_us=-12 * DAY_US), "The baseline is old: 12 days"),
        (a_side(plain, at_us=DAY_US), "newer than the run"),
    ]
    for before, words in cases:
        assert words in warnings(before, a_side(plain)), words


def test_a_task_that_is_another_one_now_is_not_compared():
    pair = PairedRuns(a_side({"a": 1.0}, changed=["a"]), a_side({"a": 0.0}))
    assert groups(pair) == {"alone": ["a"]}


def test_a_title_makes_no_other_task_and_another_bar_makes_other_rubrics():
    def side(title: str, bar: float) -> ComparedSide:
        made = a_side({"a": 1.0, "b": 0.0, "r": 1.0})
        kinds = {"a": "golden", "b": "golden", "r": "rubric"}
        tasks = [
            msgspec.json.encode({"taskId": name, "title": title, "expected": {"kind": kind}})
            for name, kind in kinds.items()
        ]
        suite = msgspec.structs.replace(
            made.frame.suite, tasks=[*map(msgspec.Raw, tasks)], thresholds=Thresholds(bar)
        )
        return made._replace(frame=msgspec.structs.replace(made.frame, suite=suite))

    renamed = PairedRuns(side("Before", 0.5), side("Now", 0.5))
    assert groups(renamed) == {"failing": ["b"], "unchanged": ["a", "r"]}
    stricter = PairedRuns(side("", 0.5), side("", 0.9))
    assert groups(stricter) == {"failing": ["b"], "unchanged": ["a"], "alone": ["r"]}
    assert stricter.report.score == 0.5, "of the tasks that are compared"


def test_repeats_that_runs_are_among_decide_together():
    """A task that was not answered in a repeat counts as often as it was; one run counts once."""
    pair = PairedRuns(a_side({"a": 1.0, "b": 1.0}), a_side({"a": 0.0, "b": 1.0}))
    assert pair.verdict.sentence.startswith("Within chance: 2 of 2 → 1 of 2 passed")
    together = pair.verdict_on({"a": [True] * 4}, {"a": [None, *[False] * 4], "b": [True]})
    assert "5 of 5 → 1 of 5 passed" in together.sentence
    assert together.sentence.endswith("Task a: 4 of 4 → 0 of 4, p = 0.029.")
