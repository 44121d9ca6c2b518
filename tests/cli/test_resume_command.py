"""Runs that were stopped: killed, interrupted, failed; and what resuming them does."""

import json
import random
import signal
import sqlite3
from typing import Any

import pytest

from builders import a_suite, a_task
from subjects import logs
from subjects.command import Evalwright, Finished, subject
from subjects.waiting import Journal, eventually

ORDERS = {"toolResponses": [{"tool": "shop:orders.get", "response": {"status": "shipped"}}]}


def a_long_suite(tasks: int) -> Any:
    return a_suite([a_task(f"task-{n}", fixtures=ORDERS) for n in range(1, tasks + 1)])


def assert_resumed_in_good_order(
    evalwright: Evalwright, journal: Journal, scored_before: set[str], tasks: int
) -> None:
    """Everything has its score once, and what had one was not asked for again."""
    events = evalwright.events()
    logs.assert_complete(events)
    assert logs.scored_tasks(events) == {f"task-{n}" for n in range(1, tasks + 1)}
    assert len(logs.of_type(events, "eval.scored")) == tasks
    assert scored_before.isdisjoint(journal.lines())


# kill -9.


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_run_resumes_without_invoking_scored_tasks(
    evalwright: Evalwright, journal: Journal, seed: int
) -> None:
    tasks = 60
    moment = random.Random(seed).randint(1, tasks - 1)
    suite = evalwright.suite(a_long_suite(tasks))
    process = evalwright.start(
        "run", suite, "--agent", subject("journal.py:answer_slowly"), "--concurrency", "3",
        env=journal.environment,
    )  # fmt: skip
    journal.wait_for(moment)
    eventually(evalwright.run_ids, "the run in the log")
    process.kill()
    process.wait()
    before = evalwright.events()
    logs.assert_gap_free(before)
    scored = logs.scored_tasks(before)
    journal.clear()

    resumed = evalwright("run", "--resume", "latest", env=journal.environment)

    assert resumed.code == 0, resumed.err
    assert evalwright.events()[: len(before)] == before
    assert_resumed_in_good_order(evalwright, journal, scored, tasks)


def test_a_run_that_is_killed_again_and_again_is_finished_at_last(
    evalwright: Evalwright, journal: Journal
) -> None:
    tasks, dice = 80, random.Random(7)
    suite = evalwright.suite(a_long_suite(tasks))
    arguments = ["run", suite, "--agent", subject("journal.py:answer_slowly"), "--concurrency", "2"]
    scored: set[str] = set()
    for _ in range(4):
        process = evalwright.start(*arguments, env=journal.environment)
        journal.wait_for(dice.randint(8, 14))
        process.kill()
        process.wait()
        assert scored.isdisjoint(journal.lines())
        scored = logs.scored_tasks(evalwright.events())
        journal.clear()
        arguments = ["run", "--resume", "latest"]
    assert evalwright("run", "--resume", "latest", env=journal.environment).code == 0
    assert len(evalwright.run_ids()) == 1
    assert_resumed_in_good_order(evalwright, journal, scored, tasks)


def test_invocations_that_a_kill_left_open_are_closed_as_failed(
    evalwright: Evalwright, journal: Journal
) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1"), a_task("task-2", input="wait")]))
    process = start_held(evalwright, journal, suite)
    process.kill()
    process.wait()
    journal.open_gate()
    assert evalwright("run", "--resume", "latest", env=journal.environment).code == 0
    events = logs.of_task(evalwright.events(), "task-2")
    assert logs.task_shape(events, "task-2") == "sdcsdcS"
    assert [p["invocationId"] for p in logs.of_type(events, "agent.invocation.started")] == [
        "inv-0002",
        "inv-0002.2",
    ]
    first, second = logs.of_type(events, "agent.decided")
    assert first["decision"]["error"]["code"] == "interrupted"
    assert second["decision"] == "yes"


def test_failures_whose_scores_were_held_back_are_asked_for_again_after_a_kill(
    evalwright: Evalwright, journal: Journal
) -> None:
    """While nothing was answered no failure has its score, so that all may be asked again."""
    suite = evalwright.suite(a_long_suite(40))
    process = evalwright.start(
        "run", suite, "--agent", subject("journal.py:fail_slowly_until_the_gate_is_open"),
        "--concurrency", "2", env=journal.environment,
    )  # fmt: skip
    journal.wait_for(10)
    eventually(evalwright.run_ids, "the run in the log")
    process.kill()
    process.wait()
    assert logs.scored_tasks(evalwright.events()) == set()
    journal.clear()
    journal.open_gate()
    assert evalwright("run", "--resume", "latest", env=journal.environment).code == 0
    assert sorted(journal.lines()) == sorted(f"task-{n}" for n in range(1, 41))
    assert_resumed_in_good_order(evalwright, journal, set(), 40)


def start_held(evalwright: Evalwright, journal: Journal, suite: str, *more: str) -> Any:
    """A run that has answered every task but those that wait at the gate."""
    process = evalwright.start(
        "run", suite, "--agent", subject("journal.py:wait_at_the_gate"), *more,
        env=journal.environment,
    )  # fmt: skip
    journal.wait_for(2)
    eventually(lambda: logs.scored_tasks(evalwright.events()), "the first score")
    begun = "agent.invocation.started"
    eventually(lambda: len(logs.of_type(evalwright.events(), begun)) > 1, "the second beginning")
    return process


# Ctrl-C and SIGTERM.


@pytest.mark.parametrize("agent", ["wait_at_the_gate", "wait_in_a_thread"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupted_run_says_how_to_go_on_and_can(
    evalwright: Evalwright, journal: Journal, number: signal.Signals, agent: str
) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1"), a_task("task-2", input="wait")]))
    process = evalwright.start(
        "run", suite, "--agent", subject(f"journal.py:{agent}"), env=journal.environment
    )
    journal.wait_for(2)
    eventually(lambda: logs.scored_tasks(evalwright.events()), "the first score")
    process.send_signal(number)
    stopped = evalwright.finish(process)

    (run_id,) = evalwright.run_ids()
    assert stopped.code == 130
    assert f"evalwright run --resume {run_id}" in stopped.err
    assert "Traceback" not in stopped.err
    (row,) = evalwright("runs", "--json").json()
    assert row["status"] == "interrupted"

    journal.clear()
    journal.open_gate()
    another = ["--agent", subject("journal.py:answer")]
    refused = evalwright("run", "--resume", run_id, *another, env=journal.environment)
    assert refused.code == 2
    assert "the answers of one agent" in refused.err
    fixed = [*another, "--agent-id", f"local.journal.{agent}"]
    resumed = evalwright("run", "--resume", run_id, *fixed, env=journal.environment)
    assert resumed.code == 0, resumed.err
    assert journal.lines() == ["task-2"]
    logs.assert_complete(evalwright.events(run_id))


@pytest.mark.parametrize("seed", range(4))
def test_a_run_can_be_interrupted_at_any_moment(
    evalwright: Evalwright, journal: Journal, seed: int
) -> None:
    tasks, dice = 60, random.Random(seed)
    suite = evalwright.suite(a_long_suite(tasks))
    process = evalwright.start(
        "run", suite, "--agent", subject("journal.py:answer_slowly"), "--concurrency", "3",
        "--json", env=journal.environment,
    )  # fmt: skip
    journal.wait_for(dice.randint(1, tasks // 2))
    process.send_signal(dice.choice([signal.SIGINT, signal.SIGTERM]))
    stopped = evalwright.finish(process)
    assert (stopped.code, stopped.out) == (130, "")
    assert "Traceback" not in stopped.err
    scored = logs.scored_tasks(evalwright.events())
    journal.clear()
    assert evalwright("run", "--resume", "latest", env=journal.environment).code == 0
    assert_resumed_in_good_order(evalwright, journal, scored, tasks)


def test_a_second_ctrl_c_ends_an_agent_that_does_not_want_to(
    evalwright: Evalwright, journal: Journal
) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1"), a_task("task-2", input="wait")]))
    process = evalwright.start(
        "run", suite, "--agent", subject("stubborn.py:swallow_every_cancellation"),
        env=journal.environment,
    )  # fmt: skip
    journal.wait_for(2)
    process.send_signal(signal.SIGINT)
    journal.wait_for(3)  # it has noted that it was asked to stop, and goes on
    process.send_signal(signal.SIGINT)
    stopped = evalwright.finish(process)
    assert stopped.code == 130
    assert "Traceback" not in stopped.err
    assert "--resume" in stopped.err


def test_ctrl_c_ends_a_run_whose_sync_agent_never_rests(
    evalwright: Evalwright, journal: Journal
) -> None:
    """Its thread cannot be stopped and records all the time; the process ends all the same."""
    suite = evalwright.suite(a_suite([a_task("task-1", fixtures=ORDERS)]))
    process = evalwright.start(
        "run", suite, "--agent", subject("stubborn.py:call_tools_for_ever"),
        env=journal.environment,
    )  # fmt: skip
    journal.wait_for(1)
    process.send_signal(signal.SIGINT)
    stopped = evalwright.finish(process)
    assert stopped.code == 130, stopped.err
    events = evalwright.events()
    logs.assert_gap_free(events)


# What else can be resumed, and what cannot.


def test_resuming_a_complete_run_does_nothing(evalwright: Evalwright, journal: Journal) -> None:
    suite = evalwright.suite(a_suite(tasks=3))
    first = evalwright(
        "run", suite, "--agent", subject("journal.py:answer"), "--json", env=journal.environment
    )
    events = evalwright.events()
    journal.clear()
    again = evalwright("run", "--resume", "latest", "--json", env=journal.environment)
    assert (again.code, again.out) == (0, first.out)
    assert "nothing is left to do" in again.err
    assert journal.lines() == []
    assert evalwright.events() == events
    assert len(evalwright.run_ids()) == 1


def test_resuming_a_complete_run_that_missed_its_bar_still_says_so(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    assert evalwright("run", suite, "--agent", subject("answers.py:no")).code == 1
    assert evalwright("run", "--resume", "latest").code == 1


def test_a_run_that_another_process_executes_cannot_be_resumed(
    evalwright: Evalwright, journal: Journal
) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1"), a_task("task-2", input="wait")]))
    process = start_held(evalwright, journal, suite)
    (run_id,) = evalwright.run_ids()
    assert evalwright("runs", "--json").json()[0]["status"] == "running"

    refused = evalwright("run", "--resume", run_id, env=journal.environment)
    assert refused.code == 3
    assert run_id in refused.err
    assert "executed" in refused.err

    journal.open_gate()
    assert evalwright.finish(process).code == 0
    assert sorted(journal.lines()) == ["task-1", "task-2"]
    logs.assert_complete(evalwright.events())


def test_a_run_that_ends_while_it_is_being_resumed_is_not_executed_again(
    evalwright: Evalwright, journal: Journal
) -> None:
    """Who resumes has read the log before it may execute; what it read can be out of date."""
    suite = evalwright.suite(a_suite([a_task("task-1"), a_task("task-2", input="wait")]))
    process = start_held(evalwright, journal, suite)
    theirs = Journal(evalwright.folder / "theirs" / "journal.txt")
    theirs.path.parent.mkdir()
    again = ["--agent", subject("late.py:answer"), "--agent-id", "local.journal.wait_at_the_gate"]
    second = evalwright.start("run", "--resume", "latest", *again, env=theirs.environment)
    theirs.wait_for(1)  # it has read the log, and is loading its agent
    journal.open_gate()
    assert evalwright.finish(process).code == 0
    theirs.open_gate()
    finished = evalwright.finish(second)
    assert theirs.lines() == ["loading"], "a scored task was invoked again"
    assert finished.code in {0, 3}
    assert "Traceback" not in finished.err
    logs.assert_complete(evalwright.events())


def test_a_failed_run_goes_on_after_the_agent_was_fixed(
    evalwright: Evalwright, journal: Journal
) -> None:
    suite = evalwright.suite(a_suite(tasks=3))
    arguments = ["--agent", subject("journal.py:fail_until_the_gate_is_open")]
    failed = evalwright("run", suite, *arguments, "--json", env=journal.environment)
    (run_id,) = evalwright.run_ids()
    assert failed.code == 3
    assert failed.out == ""
    assert "agent_unavailable" in failed.err
    assert f"--resume {run_id}" in failed.err
    assert not logs.of_type(evalwright.events(), "eval.scored")
    assert evalwright("show", run_id, "--json").code == 3

    journal.clear()
    journal.open_gate()
    resumed = evalwright("run", "--resume", run_id, "--json", env=journal.environment)
    assert resumed.code == 0, resumed.err
    assert sorted(journal.lines()) == ["task-1", "task-2", "task-3"]
    assert len(evalwright.run_ids()) == 2
    logs.assert_complete(evalwright.events())

    shown = evalwright("show", run_id, "--json")
    assert (shown.code, shown.out) == (0, resumed.out)
    assert "continued" in shown.err
    statuses = [row["status"] for row in evalwright("runs", "--json").json()]
    assert statuses == ["completed", "failed"]


def test_a_failed_run_that_was_continued_is_not_asked_for_again(
    evalwright: Evalwright, journal: Journal
) -> None:
    """The name of the old run leads to the run that continued it, which is complete."""
    suite = evalwright.suite(a_suite(tasks=2))
    arguments = ["--agent", subject("journal.py:fail_until_the_gate_is_open")]
    evalwright("run", suite, *arguments, env=journal.environment)
    (run_id,) = evalwright.run_ids()
    journal.open_gate()
    assert evalwright("run", "--resume", run_id, env=journal.environment).code == 0
    journal.clear()
    assert evalwright("run", "--resume", run_id, env=journal.environment).code == 0
    assert journal.lines() == []
    assert len(evalwright.run_ids()) == 2


def test_a_run_that_was_too_slow_can_be_given_more_time(
    evalwright: Evalwright, journal: Journal
) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1"), a_task("task-2", input="wait")]))
    arguments = ["--agent", subject("journal.py:wait_at_the_gate"), "--concurrency", "1"]
    late = evalwright("run", suite, *arguments, "--run-timeout", "0.3", env=journal.environment)
    assert late.code == 3
    assert "run_timeout" in late.err
    assert "Traceback" not in late.err
    journal.clear()
    journal.open_gate()
    resumed = evalwright(
        "run", "--resume", "latest", "--run-timeout", "60", env=journal.environment
    )
    assert resumed.code == 0, resumed.err
    assert journal.lines() == ["task-2"]
    logs.assert_complete(evalwright.events())


def test_a_resumed_run_tells_what_a_run_at_one_go_would_tell(
    evalwright: Evalwright, journal: Journal
) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1"), a_task("task-2", input="wait")]))
    fit = ["--model-class", "reasoning", "--agent-id", "acme.clerk"]
    process = start_held(evalwright, journal, suite, *fit)
    process.kill()
    process.wait()
    journal.open_gate()
    resumed = evalwright("run", "--resume", "latest", "--json", env=journal.environment)
    assert resumed.json()["evaluatedModelClass"] == "reasoning"
    started = logs.of_type(evalwright.events(), "agent.invocation.started")
    assert len(started) == 3
    assert {event["agentId"] for event in started} == {"acme.clerk"}
    assert {event.get("modelClass") for event in started} == {"reasoning"}


def test_a_resumed_run_does_not_take_an_agent_id_that_no_event_can_carry(
    evalwright: Evalwright, journal: Journal
) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    arguments = ["--agent", subject("journal.py:fail_until_the_gate_is_open")]
    evalwright("run", suite, *arguments, env=journal.environment)
    journal.open_gate()
    refused = evalwright("run", "--resume", "latest", "--agent-id", "x", env=journal.environment)
    assert refused.code == 2
    assert len(evalwright.run_ids()) == 1


def test_resuming_what_does_not_exist_is_bad_input(evalwright: Evalwright) -> None:
    nothing = evalwright("run", "--resume", "latest")
    assert (nothing.code, nothing.out) == (2, "")
    assert "no run has been recorded" in nothing.err
    evalwright("demo")
    unknown = evalwright("run", "--resume", "run_nope")
    assert unknown.code == 2
    assert "run_nope" in unknown.err
    both = evalwright("run", "suite.json", "--resume", "latest")
    neither = evalwright("run")
    assert both.code == neither.code == 2


# Replay.


@pytest.fixture
def finished(evalwright: Evalwright, journal: Journal) -> Finished:
    """A run with failures and costs, and its JSON."""
    suite = evalwright.suite(a_suite([a_task("task-1"), a_task("task-2", value="no")]))
    return evalwright(
        "run", suite, "--agent", subject("journal.py:answer"), "--json", env=journal.environment
    )


def test_replay_prints_the_same_bytes_and_invokes_nothing(
    evalwright: Evalwright, journal: Journal, finished: Finished
) -> None:
    assert finished.code == 1
    journal.clear()
    replayed = evalwright("replay", "latest", "--json")
    shown = evalwright("show", "latest", "--json")
    assert (replayed.code, replayed.out) == (0, finished.out)
    assert (shown.code, shown.out) == (0, finished.out)
    assert journal.lines() == []
    for_people = evalwright("replay", "latest")
    assert "FAILED" in for_people.out
    assert for_people.code == 0


def test_replay_of_a_resumed_run_prints_the_same_bytes(
    evalwright: Evalwright, journal: Journal
) -> None:
    suite = evalwright.suite(a_long_suite(20))
    process = evalwright.start(
        "run", suite, "--agent", subject("journal.py:answer_slowly"), "--concurrency", "2",
        env=journal.environment,
    )  # fmt: skip
    journal.wait_for(12)
    process.kill()
    process.wait()
    resumed = evalwright("run", "--resume", "latest", "--json", env=journal.environment)
    assert resumed.code == 0
    assert evalwright("replay", "latest", "--json").out == resumed.out
    assert evalwright("show", "latest", "--json").out == resumed.out


def tamper(evalwright: Evalwright, statement: str) -> None:
    """Change the log as no program of ours can: without the triggers that protect it."""
    connection = sqlite3.connect(evalwright.db)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
        connection.execute(f"DROP TRIGGER {name}")
    changed = connection.execute(statement).rowcount
    connection.commit()
    connection.close()
    assert changed == 1


TAMPERING = {
    "a score that was changed": (
        "UPDATE events SET body = replace(body, '\"score\":0.0', '\"score\":1.0')"
        " WHERE type = 'eval.scored' AND task_id = 'task-2'"
    ),
    "a summary that was changed": (
        "UPDATE events SET body = replace(body, '\"passedCount\":1', '\"passedCount\":2')"
        " WHERE type = 'run.completed'"
    ),
    "a summary that is missing": (
        "UPDATE events SET body = '{\"durationMs\":1}' WHERE type = 'run.completed'"
    ),
    "a score that is missing": (
        "UPDATE events SET type = 'evalwright.judged'"
        " WHERE type = 'eval.scored' AND task_id = 'task-2'"
    ),
    "a body that is no JSON": (
        "UPDATE events SET body = '{\"taskId\":' WHERE type = 'eval.scored' AND task_id = 'task-2'"
    ),
    "a plan that is missing": (
        "UPDATE events SET type = 'evalwright.judged' WHERE type = 'evalwright.planned'"
    ),
    "a task that the suite does not have": (
        "UPDATE events SET body = replace(body, 'task-2', 'task-9'), task_id = 'task-9'"
        " WHERE type = 'eval.scored' AND task_id = 'task-2'"
    ),
}


@pytest.mark.parametrize("kind", TAMPERING)
def test_a_log_that_does_not_lead_to_its_summary_is_reported(
    evalwright: Evalwright, finished: Finished, kind: str
) -> None:
    run_id = evalwright.run_ids()[0]
    tamper(evalwright, TAMPERING[kind])
    replayed = evalwright("replay", "latest", "--json")
    assert replayed.code == 3
    assert replayed.out == ""
    assert "Traceback" not in replayed.err
    assert run_id in replayed.err


@pytest.mark.parametrize("kind", ["a score that is missing", "a body that is no JSON"])
def test_showing_a_damaged_log_is_an_error_and_no_crash(
    evalwright: Evalwright, finished: Finished, kind: str
) -> None:
    tamper(evalwright, TAMPERING[kind])
    for arguments in (["show"], ["show", "--json"], ["run", "--resume"]):
        shown = evalwright(*arguments, "latest")
        assert shown.code == 3, arguments
        assert "Traceback" not in shown.err


def test_a_run_without_an_end_has_nothing_to_replay(
    evalwright: Evalwright, journal: Journal
) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1"), a_task("task-2", input="wait")]))
    process = start_held(evalwright, journal, suite)
    process.kill()
    process.wait()
    for command in ("replay", "show"):
        refused = evalwright(command, "latest", "--json")
        assert (refused.code, refused.out) == (3, "")
        assert "1 of 2 tasks" in refused.err
        assert "--resume" in refused.err
    events = evalwright("show", "latest", "--events", "--json").out.splitlines()
    assert [json.loads(line) for line in events] == evalwright.events()
