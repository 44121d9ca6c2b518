"""The scorecard: failures first, with what was expected and what came, then why the bars broke."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import Answer, Answers, a_log, a_suite, a_tally, a_task, a_usage, an_error
from evalwright.contracts.suite import Suite
from evalwright.reports.formats.console import Style
from evalwright.reports.run.scorecard import MOST_FAILURES, render_scorecard, render_story
from evalwright.reports.run.stories import task_stories
from strategies import json_values

PLAIN = Style(colour=False)


def scorecard(suite: Suite, answers: Answers | None = None, style: Style = PLAIN, **full) -> str:
    tally = a_tally(suite, answers)
    stories = task_stories(suite, a_log(suite, answers))
    return render_scorecard("run_a", tally.summary(), tally.broken_bars(), stories, style, **full)


def test_a_run_that_passed_in_everything_is_told_in_three_lines():
    answers = {"task-1": Answer(latency_ms=7, usages=[a_usage(0.25)])}
    assert scorecard(a_suite(2), answers) == (
        "PASSED  acme.shop.evals.refunds@1.0.0\n"
        "  score 1 · 2 of 2 tasks passed · p95 7 ms · $0.25\n"
        "  run run_a"
    )


def test_failures_come_first_with_what_was_expected_and_what_came():
    assert scorecard(a_suite(3), {"task-2": "no"}) == (
        "Failed tasks\n"
        "\n"
        "  ✗ task-2  What is the answer?  score 0, 5 ms\n"
        "      expected  exact yes\n"
        "      got       no\n"
        "\n"
        "FAILED  acme.shop.evals.refunds@1.0.0\n"
        "  score 0.6667 · 2 of 3 tasks passed · p95 5 ms\n"
        "  ✗ 2 of 3 tasks passed, and without a bar every task passes (default)\n"
        "  run run_a"
    )


def test_a_task_whose_id_was_made_from_its_content_is_told_by_its_input():
    suite = a_suite([a_task("row-0123456789ab-2", input={"question": "How far is it?"}), a_task()])
    card = scorecard(suite, {task.task_id: "no" for task in suite.tasks})
    assert '✗ how-far-is-it-0123-2  score 0, 5 ms\n      input     {"question":"How' in card
    assert card.count("input  ") == 1


def test_a_run_can_pass_though_a_task_failed():
    words = "9 of 10 tasks, score 0.9, bar 0.85 (passScore)"
    card = scorecard(a_suite(10, pass_score=0.85), {"task-4": "no"}, words=words)
    assert "✗ task-4" in card
    assert f"PASSED  {words}  acme.shop.evals.refunds@1.0.0" in card
    assert "9 of 10 tasks passed" in card


def test_an_error_is_told_in_place_of_an_answer():
    card = scorecard(a_suite(1), {"task-1": an_error("agent_timeout", "no answer within 1 s")})
    assert "      error     agent_timeout: no answer within 1 s" in card
    assert "got " not in card


def test_every_bar_that_was_missed_is_told():
    suite = a_suite(1, pass_score=0.9, max_cost_usd=0.1, max_p95_latency_ms=10)
    card = scorecard(suite, {"task-1": Answer("no", latency_ms=99, usages=[a_usage(0.5)])})
    assert "✗ score 0 is below 0.9 (passScore)" in card
    assert "✗ cost $0.5 is above $0.1 (maxCostUsd)" in card
    assert "✗ p95 latency 99 ms is above 10 ms (maxP95LatencyMs)" in card


def test_a_cost_limit_that_cannot_be_shown_to_hold_is_told_with_the_reason():
    card = scorecard(a_suite(1, max_cost_usd=1), {"task-1": Answer(usages=[a_usage(None)])})
    assert "FAILED" in card
    assert "1 of 1 model calls have no known price" in card


def test_long_answers_are_shortened_and_full_shortens_nothing():
    suite = a_suite([a_task(value="w" * 900)])
    answers = {"task-1": "g" * 800}
    short, full = scorecard(suite, answers), scorecard(suite, answers, full=True)
    assert "… (+740 characters)" in short
    assert "… (+640 characters)" in short
    assert "characters)" not in full
    assert "w" * 900 in full
    assert "g" * 800 in full


def test_a_single_task_is_told_in_the_same_words_and_shortened_unless_asked():
    suite = a_suite([a_task(strategy="contains", value="")])
    [story] = task_stories(suite, a_log(suite, {"task-1": "g" * 200}), {"task-1"})
    assert render_story(story, PLAIN) == [
        "  ✓ task-1  What is the answer?  score 1, 5 ms",
        "      expected  contains ",
        f"      got       {'g' * 160}… (+40 characters)",
    ]
    assert render_story(story, PLAIN, full=True)[2].endswith("g" * 200)


def test_of_many_failures_the_first_are_shown_and_the_rest_are_counted():
    suite = a_suite(MOST_FAILURES + 7)
    answers = {task.task_id: "no" for task in suite.tasks}
    card = scorecard(suite, answers)
    assert card.count("got ") == MOST_FAILURES
    assert "… and 7 more: evalwright show run_a" in card
    full = scorecard(suite, answers, full=True)
    assert full.count("got ") == MOST_FAILURES + 7
    assert "more:" not in full


TRACE = """Traceback (most recent call last):
  File "agent.py", line 7, in answer
    return look_up(task)
  File "shop.py", line 3, in look_up
    raise KeyError("\x1b[2J")
KeyError: boom
"""


@pytest.mark.parametrize("full", [False, True])
def test_of_a_traceback_the_last_frame_is_shown(full):
    answers = {"task-1": an_error("agent_error", "KeyError: boom", traceback=TRACE)}
    card = scorecard(a_suite(1), answers, full=full)
    assert (
        "      error     agent_error: KeyError: boom\n"
        '      at        shop.py:3 in look_up: raise KeyError("\\x1b[2J")\n'
    ) in card
    assert "agent.py" not in card


def test_a_traceback_without_frames_is_left_out():
    answers = {"task-1": an_error("agent_error", "boom", traceback="File x.py\n  boom()\n")}
    assert "x.py" not in scorecard(a_suite(1), answers)


def test_colour_marks_the_verdict_and_is_left_out_where_it_is_not_wanted():
    assert "\x1b[32mPASSED\x1b[0m" in scorecard(a_suite(1), style=Style(colour=True))
    answers = {"task-1": "no"}
    assert "\x1b[31mFAILED\x1b[0m" in scorecard(a_suite(1), answers, style=Style(colour=True))
    assert "\x1b" not in scorecard(a_suite(1), answers)


@given(json_values | st.text(), st.booleans())
def test_nothing_that_an_agent_says_steers_the_terminal(output: Any, full):
    suite = a_suite([a_task(strategy="json-match", value=["never this"])])
    answers = [output, an_error("agent_error", f"it said {output}", traceback=f"{output}")]
    for answer in answers:
        card = scorecard(suite, {"task-1": answer}, full=full)
        assert all(char.isprintable() or char == "\n" for char in card)
