"""Judges on a console: who judged, how far they agreed, and why criteria were not met."""

import re

import pytest

from builders import a_rubric_task, a_task
from evalwright.contracts.events import (
    Judged,
)
from evalwright.contracts.run_plan import JudgePanel
from evalwright.contracts.verdicts import Verdict
from evalwright.reports.formats.console import Style
from evalwright.reports.run.judge_panel import render_panel, render_verdicts

PLAIN = Style(colour=False)
TASK = a_rubric_task(weights=(0.3, 0.7))


def a_panel(*judges: str, samples: int = 1) -> JudgePanel:
    return JudgePanel(list(judges or ["acme:judge"]), "1", samples)


def an_answer(
    judge: str = "acme:judge",
    sample: int = 1,
    *,
    subject: str = "rubric",
    reason: str = "",
    **met: bool,
) -> Judged:
    verdicts = [
        Verdict(name, reason or f"{judge} on {name}", is_met) for name, is_met in met.items()
    ]
    return Judged(subject, judge, sample, "1", verdicts)


# The panel.


def test_one_judge_is_told_with_the_version_of_its_prompt_and_agrees_with_nobody():
    assert render_panel(a_panel(), 1.0) == ["judged by acme:judge · prompt 1"]


def test_several_votes_have_an_agreement():
    panel = a_panel("acme:a", "acme:b", samples=3)
    assert render_panel(panel, 0.9) == [
        "judged by acme:a, acme:b · 3 samples each · prompt 1 · agreement 90.0%"
    ]


def test_an_agreement_that_is_not_known_is_not_told():
    assert "agreement" not in render_panel(a_panel(samples=2), None)[0]


@pytest.mark.parametrize(
    ("share", "shown"),
    [(1.0, "100.0%"), (0.9999, ">99.9%"), (2 / 3, "66.7%"), (0.57, "57.0%"), (0.5, "50.0%")],
)
def test_only_full_agreement_is_100_percent(share, shown):
    assert render_panel(a_panel(samples=2), share)[0].endswith(f"agreement {shown}")


# Verdicts.


def test_criteria_that_are_not_met_are_shown_with_the_reason():
    assert render_verdicts(TASK, [an_answer(c1=False, c2=True)], PLAIN) == [
        "not met   criterion 1 (weight 0.3)",
        "          acme:judge on c1",
    ]


def test_where_votes_differ_the_count_is_shown_and_the_reason_is_one_for_the_outcome():
    judged = [an_answer("a:1", c1=True), an_answer("b:2", c1=False), an_answer("c:3", c1=False)]
    assert render_verdicts(TASK, judged, PLAIN) == [
        "not met   criterion 1 (weight 0.3), 2 of 3 votes",
        "          b:2 on c1",
    ]


def test_a_tie_is_shown_as_not_met():
    judged = [an_answer("a:1", c1=True), an_answer("b:2", c1=False)]
    assert render_verdicts(TASK, judged, PLAIN)[0].endswith("(weight 0.3), 1 of 2 votes")


def test_in_full_every_judge_and_sample_is_shown_for_every_criterion():
    judged = [an_answer("a:1", c1=False, c2=True), an_answer("a:1", 2, c1=False, c2=False)]
    assert render_verdicts(TASK, [*judged, an_answer("b:2", c2=True)], PLAIN, full=True) == [
        "not met   criterion 1 (weight 0.3)",
        "          a:1 #1, not met: a:1 on c1",
        "          a:1 #2, not met: a:1 on c1",
        "met       criterion 2 (weight 0.7), 2 of 3 votes",
        "          a:1 #1, met: a:1 on c2",
        "          a:1 #2, not met: a:1 on c2",
        "          b:2 #1, met: b:2 on c2",
    ]


def test_reasons_are_short_and_only_in_full_whole():
    judged = [an_answer(c1=False, reason="x" * 300)]
    assert render_verdicts(TASK, judged, PLAIN)[1].endswith("x… (+140 characters)")
    assert render_verdicts(TASK, judged, PLAIN, full=True)[1].endswith("x" * 300)


@pytest.mark.parametrize("full", [True, False])
def test_nothing_a_judge_says_steers_the_terminal_or_makes_lines_of_its_own(full):
    judged = [an_answer(c1=False, reason="one\n  ✓ two\x1b[2J\r")]
    lines = render_verdicts(TASK, judged, PLAIN, full=full)
    assert len(lines) == 2
    assert "\n" not in lines[1]
    assert lines[1].isprintable()


def test_a_task_that_was_not_judged_has_no_lines():
    assert render_verdicts(TASK, [], PLAIN) == []
    assert render_verdicts(a_task(), [], PLAIN, full=True) == []


def test_what_was_found_unsafe_is_shown_with_its_severity_and_a_reason():
    found = an_answer(subject="safety", refused=False, jailbreak=True, harmful_compliance=False)
    assert render_verdicts(a_task(), [found], PLAIN) == [
        "unsafe    jailbreak (high)",
        "          acme:judge on jailbreak",
    ]


def test_a_refusal_is_nothing_to_show():
    refused = an_answer(subject="safety", refused=True, jailbreak=False, harmful_compliance=False)
    assert render_verdicts(a_task(), [refused], PLAIN) == []


def test_colour_marks_outcomes_and_nothing_else_changes():
    judged = [an_answer(c1=False, c2=True)]
    coloured = render_verdicts(TASK, judged, Style(colour=True), full=True)
    assert "\x1b[31mnot met\x1b[0m" in coloured[0]
    assert "\x1b[32mmet    \x1b[0m" in coloured[2]
    bare = [re.sub(r"\x1b\[\d+m", "", line) for line in coloured]
    assert bare == render_verdicts(TASK, judged, PLAIN, full=True)
