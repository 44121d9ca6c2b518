"""Runs that an earlier version scored: they replay as they were, and are compared fairly."""

import asyncio
from typing import Any

from msgspec.structs import replace

from engine.test_checked_runs import A_17, SHIPPED, a_checked_task, of_checks, says
from evalwright.cli.remote import by_the_rule_of_today
from evalwright.contracts.run_plan import FIRST_RULE, RunOptions
from evalwright.contracts.suite import Suite
from evalwright.engine.baselines import read_baseline
from evalwright.engine.history import read_history
from evalwright.engine.plan import plan_run
from evalwright.engine.replay import replay_run
from evalwright.engine.runner import start_run
from evalwright.engine.session import verdict_of
from evalwright.engine.verdict import Outcome
from evalwright.reports.run.paired_runs import ComparedSide, PairedRuns, pair_runs
from evalwright.reports.run.task_list import read_frame, recorded_tasks
from evalwright.scoring.regression import compare_to_baseline
from subjects.runs import Workshop, as_agent

BOTH = "Both are scored by the rule of today; the baseline was recorded under an earlier one."


def an_earlier_run(workshop: Workshop, suite: Suite, answer: Any) -> Outcome:
    agent = as_agent(answer)
    plan = plan_run(suite, "suite.yaml", agent, RunOptions())
    return asyncio.run(start_run(workshop.log, agent, replace(plan, scoring=FIRST_RULE)))


def of_two() -> Suite:
    """A task that passes, and one that fails in one of three checks."""
    checks = [SHIPPED, A_17, {"contains": "never"}]
    tasks = a_checked_task("works", SHIPPED), a_checked_task("fails", *checks)
    return of_checks(*tasks, modes=("golden", "regression"))


def test_an_earlier_run_replays_by_the_rule_it_was_scored_by(workshop: Workshop) -> None:
    before = an_earlier_run(workshop, of_two(), says("A-17 is shipped"))
    assert [round(task.score, 3) for task in before.summary.tasks] == [1.0, 0.667]
    again = replay_run(workshop.log, before.run_id)
    assert (again.summary, again.summary.passed) == (before.summary, True)
    assert verdict_of(again).words == "1 of 2 tasks, score 0.8333, bar 0.7 (the default then)"


def test_against_an_earlier_run_both_are_scored_by_the_rule_of_today(workshop: Workshop) -> None:
    """The same agent failed the same task: it did not get worse, though that scored 0.667 then."""
    before = an_earlier_run(workshop, of_two(), says("A-17 is shipped"))
    suite = of_two()
    now = workshop.run(suite, says("A-17 is shipped"), baseline=before.run_id)
    assert now.outcome is not None
    baseline = now.outcome.plan.baseline
    assert baseline is not None
    assert [task.score for task in baseline.tasks] == [1.0, 0.0]
    report = compare_to_baseline(now.outcome.summary, baseline)
    assert (report.regressed, report.score_drops) == (False, ())
    assert report.sentence == f"No verdict changed: 1 of 2 passed on both sides. {BOTH}"
    assert not [reason for reason in now.outcome.reasons if "baseline" in reason]


def a_pair(workshop: Workshop, *run_ids: str) -> PairedRuns:
    """Two runs as the pages compare them."""
    sides = []
    for run_id in run_ids:
        facts, frame = workshop.log.facts(run_id), read_frame(workshop.log, run_id)
        tasks = recorded_tasks(workshop.log, facts)
        assert tasks is not None
        sides.append(ComparedSide(run_id, facts.started_us, facts.status, frame, tasks))
    before, after = sides
    return pair_runs(workshop.log, before, after)


def test_pages_compare_an_earlier_run_by_the_rule_of_today_too(workshop: Workshop) -> None:
    before = an_earlier_run(workshop, of_two(), says("A-17 is shipped"))
    now = workshop.run(of_two(), says("A-17 is shipped"))
    assert now.outcome is not None
    ids = before.run_id, now.outcome.run_id
    pair = a_pair(workshop, *ids)
    assert (pair.report.baseline_score, pair.report.score) == (0.5, 0.5)
    assert [task.task_id for task in pair.groups["failing"]] == ["fails"]
    assert pair.verdict.sentence == f"No verdict changed: 1 of 2 passed on both sides. {BOTH}"
    swapped = a_pair(workshop, *reversed(ids))
    assert swapped.verdict.sentence.endswith("the new run was recorded under an earlier one.")
    assert swapped.report.score_delta == 0
    alike = a_pair(workshop, before.run_id, before.run_id)
    assert round(alike.report.score, 3) == 0.833, "both were scored by the earlier rule"


def test_a_host_of_an_earlier_version_lets_nothing_pass_that_is_no_pass_here(
    workshop: Workshop,
) -> None:
    made = an_earlier_run(workshop, of_two(), says("A-17 is shipped"))
    assert made.summary.passed
    history = read_history(workshop.log, made.run_id)
    here = by_the_rule_of_today(workshop.log, history, made)
    told = "1 of 2 tasks passed, and every task must pass (default)"
    assert here.reasons == [f"{told}; the host, which is older, has another rule: update it"]
    assert (here.summary.passed, str(verdict_of(here))) == (False, "FAILED")
    right = an_earlier_run(workshop, of_checks(a_checked_task("works", SHIPPED)), says("shipped"))
    history = read_history(workshop.log, right.run_id)
    assert by_the_rule_of_today(workshop.log, history, right) == right


def test_an_earlier_run_without_partial_credit_needs_no_remark(workshop: Workshop) -> None:
    suite = of_checks(a_checked_task("works", SHIPPED), a_checked_task("fails", A_17))
    before = an_earlier_run(workshop, suite, says("shipped"))
    assert read_baseline(workshop.log, before.run_id, suite).rescored is False


def test_repetitions_of_an_earlier_run_are_each_scored_by_the_rule_of_today(
    workshop: Workshop,
) -> None:
    task = a_checked_task("task-1", SHIPPED, A_17, repeat=2, pass_rate=0.5)
    before = an_earlier_run(workshop, of_checks(task), says("A-17 is shipped", "shipped"))
    assert before.summary.aggregate_score == 0.75
    baseline = read_baseline(workshop.log, before.run_id, of_checks(task))
    assert (baseline.aggregate_score, baseline.tasks[0].passed) == (0.5, True)
