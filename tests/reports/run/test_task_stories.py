"""Why tasks failed, read from the log."""

from msgspec.structs import replace

from builders import AGENT_ID, a_log, a_score, a_suite, an_error, as_log
from evalwright.contracts.events import Checked, Decided, InvocationCompleted
from evalwright.contracts.verdicts import CheckResult
from evalwright.reports.formats.console import Style
from evalwright.reports.run.scorecard import render_story
from evalwright.reports.run.stories import STORY_TYPES, task_stories

SUITE = a_suite(3)
ANSWERS = {"task-3": "no", "task-1": an_error("agent_timeout", "no answer within 1 s")}


def test_the_tasks_that_did_not_pass_are_told_in_the_order_of_the_suite():
    log = a_log(SUITE, ANSWERS, order=["task-3", "task-2", "task-1"])
    assert [story.task.task_id for story in task_stories(SUITE, log)] == ["task-1", "task-3"]


def test_a_wrong_answer_is_told_as_it_was_given():
    *_, story = task_stories(SUITE, a_log(SUITE, ANSWERS))
    assert story.decision == "no"
    assert story.answered
    assert story.error is None


def test_an_error_is_told_as_an_error():
    story, _ = task_stories(SUITE, a_log(SUITE, ANSWERS))
    assert not story.answered
    assert story.error == {"code": "agent_timeout", "message": "no answer within 1 s"}


def test_an_answer_that_looks_like_an_error_is_an_answer():
    answer = {"error": {"code": "x", "message": "y"}}
    [story] = task_stories(SUITE, a_log(SUITE, {"task-2": answer}))
    assert story.error is None
    assert story.decision == answer


def test_a_task_that_is_asked_for_is_told_though_it_passed():
    [story] = task_stories(SUITE, a_log(SUITE, ANSWERS), {"task-2"})
    assert story.scored.passed
    assert story.decision == "yes"


def test_a_run_that_passed_has_no_stories():
    assert task_stories(SUITE, a_log(SUITE)) == []


def test_of_several_attempts_the_last_one_counts():
    def attempt(decision, outcome):
        return [Decided(AGENT_ID, decision), InvocationCompleted("inv-0001", AGENT_ID, outcome)]

    interrupted = attempt({"error": {"code": "interrupted", "message": "stopped"}}, "failed")
    payloads = [*interrupted, *attempt("no", "completed"), a_score("task-1", 0.0)]
    [story] = task_stories(a_suite(1), as_log([("task-1", payload) for payload in payloads]))
    assert story.answered
    assert story.decision == "no"


def test_of_a_repeated_task_the_first_failure_is_told_and_how_often_it_passed():
    task = replace(a_suite(1).tasks[0], repeat=3)
    verdicts = [True, False, True]
    payloads = [
        payload
        for number, passed in enumerate(verdicts, 1)
        for payload in (
            Decided(AGENT_ID, f"answer {number}"),
            InvocationCompleted(f"inv-0001-r{number}", AGENT_ID, "completed"),
            Checked([CheckResult("equals", passed, float(passed))], float(passed), passed, number),
        )
    ]
    log = as_log([("task-1", payload) for payload in [*payloads, a_score("task-1", 0.66)]])
    [story] = task_stories(replace(a_suite(1), tasks=[task]), log, {"task-1"})
    assert story.passed_times == 2
    assert [check.passed for check in story.checks] == [False]
    assert "      repeats   2 of 3 passed" in render_story(story, Style(colour=False))


def test_the_story_types_are_all_that_is_needed():
    log = a_log(SUITE, ANSWERS)
    few = [event for event in log if event.type in STORY_TYPES]
    assert task_stories(SUITE, few) == task_stories(SUITE, log)
