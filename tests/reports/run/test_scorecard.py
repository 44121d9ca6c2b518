"""The scorecard: the verdict and why, the bars, then what did not pass."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import RUN_ID, Answer, Answers, a_log, a_suite, a_tally, a_task, a_usage, an_error
from evalwright.contracts.run_plan import CURRENT_RULE
from evalwright.contracts.suite import Suite
from evalwright.engine.history import history_of
from evalwright.engine.verdict import Outcome, reasons_to_fail
from evalwright.reports.formats.console import Style, width
from evalwright.reports.run.scorecard import MOST_FAILURES, render_outcome, render_story
from evalwright.reports.run.stories import task_stories
from strategies import json_values

PLAIN = Style(colour=False)


def scorecard(suite: Suite, answers: Answers | None = None, style: Style = PLAIN, **more) -> str:
    log = a_log(suite, answers)
    plan = replace(history_of(RUN_ID, log, "a log").plan, scoring=CURRENT_RULE)
    tally = a_tally(suite, answers)
    summary, broken = tally.summary(), tally.broken_bars()
    outcome = Outcome(RUN_ID, plan, summary, broken, reasons_to_fail(plan, summary, broken))
    stories = task_stories(suite, log)
    return render_outcome(outcome, stories, style, **more)


def test_a_run_that_passed_in_everything_is_told_in_a_few_lines():
    answers = {"task-1": Answer(latency_ms=7, usages=[a_usage(0.25)])}
    assert scorecard(a_suite(2), answers, number=12).splitlines() == [
        "  ○○  acme.shop.evals.refunds@1.0.0",
        "PASSED ● May ship: 2 of 2 tasks passed",
        "  ○ Pass rate  100.0%  ████████████  every task must pass  34\N{EN DASH}100%",
        "    Score           1",
        "    p95 time     7 ms",
        "    Cost        $0.25",
        f"  run 12  {RUN_ID}",
    ]


def test_what_did_not_pass_is_told_with_why_after_the_verdict_and_the_bars():
    assert scorecard(a_suite(3, pass_rate=0.9), {"task-2": "no"}).splitlines() == [
        "  ■○○  acme.shop.evals.refunds@1.0.0",
        "FAILED ■ Do not ship: 2 of 3 tasks passed: 0.6667 is below 0.9 (passRate)",
        "  ■ Pass rate   66.7%  ████████····  bar 90%  21\N{EN DASH}94%",
        "    Score      0.6667",
        "    p95 time     5 ms",
        "",
        "  Not passed: 1",
        "  ■ What is the answer?  task-2  0",
        "    expected exact yes; got no",
        f"  run {RUN_ID}",
    ]


def test_all_of_a_run_tells_each_task_in_full():
    card = scorecard(a_suite(3), {"task-2": "no"}, full=True)
    assert (
        "  ■ What is the answer?  task-2  score 0, 5 ms\n"
        "      expected  exact yes\n"
        "      got       no\n"
    ) in card


def test_a_task_whose_id_was_made_from_its_content_is_told_by_its_input():
    suite = a_suite([a_task("row-0123456789ab-2", input={"question": "How far is it?"}), a_task()])
    card = scorecard(suite, {task.task_id: "no" for task in suite.tasks}, full=True)
    assert '■ how-far-is-it-0123-2  score 0, 5 ms\n      input     {"question":"How' in card
    assert card.count("input  ") == 1


def test_a_run_can_pass_though_a_task_failed():
    card = scorecard(a_suite(10, pass_score=0.85), {"task-4": "no"})
    assert "■ What is the answer?  task-4" in card
    assert "PASSED ● May ship: 9 of 10 tasks, score 0.9, bar 0.85 (passScore)" in card


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(columns):
    title = "Wie weit ist es 東京都千代田区丸の内一丁目 👩‍🔬 von hier " * 4
    tasks = [a_task(f"a-long-name-of-a-task-{n}", input=title, value=title) for n in range(9)]
    suite = a_suite(tasks, pass_rate=0.9, pass_score=0.95, max_cost_usd=0.0001)
    answers = {task.task_id: Answer("no " * 90, usages=[a_usage(0.25)]) for task in tasks}
    card = scorecard(suite, answers, Style(colour=True, width=columns))
    assert max(map(width, card.splitlines())) <= columns
    assert "a-long-name-of-a-task-3" in card


def test_an_error_is_told_in_place_of_an_answer():
    answers = {"task-1": an_error("agent_timeout", "no answer within 1 s")}
    assert "▲ What is the answer?  task-1" in scorecard(a_suite(1), answers)
    card = scorecard(a_suite(1), answers, full=True)
    assert "      error     agent_timeout: no answer within 1 s" in card
    assert "got " not in card


def test_every_bar_that_was_missed_is_told():
    suite = a_suite(1, pass_score=0.9, max_cost_usd=0.1, max_p95_latency_ms=10)
    card = scorecard(suite, {"task-1": Answer("no", latency_ms=99, usages=[a_usage(0.5)])})
    assert "FAILED ■ Do not ship: score 0 is below 0.9 (passScore)" in card
    assert "  and cost $0.5 is above $0.1 (maxCostUsd)" in card
    assert "  and p95 latency 99 ms is above 10 ms (maxP95LatencyMs)" in card
    assert "■ Cost $0.50 ██████████▉· bar $0.10" in " ".join(card.split())


def test_a_cost_limit_that_cannot_be_shown_to_hold_is_told_with_the_reason():
    card = scorecard(a_suite(1, max_cost_usd=1), {"task-1": Answer(usages=[a_usage(None)])})
    assert "FAILED" in card
    assert "1 of 1 model calls have no known price" in " ".join(card.split())


def test_long_answers_are_cut_and_full_shortens_nothing():
    suite = a_suite([a_task(value="w" * 900)])
    answers = {"task-1": "g" * 800}
    short, full = scorecard(suite, answers), scorecard(suite, answers, full=True)
    assert f"    expected exact {'w' * 61}\n    www" in short
    assert "w…\n  run" in short
    joined = "".join(full.split())
    assert "w" * 900 in joined
    assert "g" * 800 in joined
    assert max(map(len, full.splitlines())) <= 80


def test_a_single_task_is_told_in_the_same_words():
    suite = a_suite([a_task(strategy="contains", value="")])
    [story] = task_stories(suite, a_log(suite, {"task-1": "g" * 200}), {"task-1"})
    assert render_story(story, PLAIN) == [
        "  ○ What is the answer?  task-1  score 1, 5 ms",
        "      expected  contains",
        f"      got       {'g' * 64}",
        f"                {'g' * 64}",
        f"                {'g' * 64}",
        f"                {'g' * 8}",
    ]


def test_of_many_failures_the_first_are_shown_and_the_rest_are_counted():
    suite = a_suite(MOST_FAILURES + 7)
    answers = {task.task_id: "no" for task in suite.tasks}
    card = scorecard(suite, answers)
    assert card.count("got ") == MOST_FAILURES
    assert "    and 7 more" in card
    full = scorecard(suite, answers, full=True)
    assert full.count("got ") == MOST_FAILURES + 7
    assert "more" not in full


TRACE = """Traceback (most recent call last):
  File "agent.py", line 7, in answer
    return look_up(task)
  File "shop.py", line 3, in look_up
    raise KeyError("\x1b[2J")
KeyError: boom
"""


def test_of_a_traceback_the_last_frame_is_shown():
    answers = {"task-1": an_error("agent_error", "KeyError: boom", traceback=TRACE)}
    card = scorecard(a_suite(1), answers, full=True)
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
