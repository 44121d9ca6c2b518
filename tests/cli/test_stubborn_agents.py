"""Agents that do not let go: the run ends all the same, with a result and its own exit code."""

import signal
from pathlib import Path

import pytest

from builders import a_suite, a_task
from evalwright.engine.workers import CANCELLED, CLOSED_DESCRIPTORS
from subjects import logs
from subjects.command import Evalwright, subject
from subjects.waiting import TIME_LIMIT_S, Journal, eventually

LIMIT = f"{TIME_LIMIT_S:g}"
TIME_PASSES = {"TIME_PASSES": "when the others have answered"}


@pytest.mark.parametrize("agent", ["swallow_every_cancellation", "hang_in_a_thread_of_the_loop"])
def test_an_agent_that_never_stops_fails_its_task_and_the_run_ends(
    evalwright: Evalwright, journal: Journal, agent: str
) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1", input="wait"), a_task("task-2")]))
    ran = evalwright(
        "run", suite, "--agent", subject(f"stubborn.py:{agent}"), "--timeout", LIMIT, "--json",
        env=journal.environment | TIME_PASSES,
    )  # fmt: skip
    assert ran.code == 1
    assert [task["passed"] for task in ran.json()["tasks"]] == [False, True]
    assert "Traceback" not in ran.err
    events = evalwright.events()
    logs.assert_complete(events)
    (failed,) = logs.of_type(logs.of_task(events, "task-1"), "agent.decided")
    assert failed["decision"]["error"]["code"] == "agent_timeout"


@pytest.mark.parametrize("agent", ["swallow_every_cancellation", "hang_in_a_thread_of_the_loop"])
def test_a_run_that_is_out_of_time_ends_although_its_agent_does_not(
    evalwright: Evalwright, journal: Journal, agent: str
) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1", input="wait"), a_task("task-2")]))
    ran = evalwright(
        "run", suite, "--agent", subject(f"stubborn.py:{agent}"), "--run-timeout", LIMIT,
        env=journal.environment | TIME_PASSES,
    )  # fmt: skip
    assert ran.code == 3
    assert "run_timeout" in ran.err
    assert "Traceback" not in ran.err
    logs.assert_gap_free(evalwright.events())


def test_threads_that_an_agent_leaves_behind_do_not_keep_the_command_alive(
    evalwright: Evalwright,
) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1", input="wait")]))
    ran = evalwright("run", suite, "--agent", subject("stubborn.py:hang_in_a_pool"), "--json")
    assert ran.code == 0
    assert ran.json()["passed"] is True


@pytest.mark.parametrize("agent", ["exit_in_a_child", "exit_at_once"])
def test_an_exit_within_an_agent_never_becomes_the_exit_of_the_run(
    evalwright: Evalwright, agent: str
) -> None:
    """With 0 the command would say that the run passed."""
    suite = evalwright.suite(a_suite(tasks=2))
    ran = evalwright("run", suite, "--agent", subject(f"stubborn.py:{agent}"), "--json")
    assert ran.code == 1, ran.err
    assert [task["passed"] for task in ran.json()["tasks"]] == [False, True]
    logs.assert_complete(evalwright.events())


@pytest.mark.parametrize(
    "agent",
    [
        "exit_at_the_end",
        "replace_exit",
        "be_another_program",
        "close_streams",
        "stop_the_loop",
        "come_back_twice",
        "go_on_twice",
    ],
)
def test_whatever_an_agent_does_to_the_process_a_failed_run_exits_with_1_and_says_so(
    evalwright: Evalwright, journal: Journal, agent: str
) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    process = evalwright.start(
        "run", suite, "--agent", subject(f"stubborn.py:{agent}"), env=journal.environment
    )
    ran = evalwright.finish(process)
    assert ran.code == 1, ran.err
    assert "0 of 2 tasks passed" in ran.out
    assert "Traceback" not in ran.err
    logs.assert_complete(evalwright.events())


@pytest.mark.parametrize(
    ("agent", "words"),
    [("close_descriptors", CLOSED_DESCRIPTORS), ("cancel_everything", CANCELLED)],
)
def test_an_agent_that_ends_what_belongs_to_the_run_ends_it_with_one_line(
    evalwright: Evalwright, agent: str, words: str
) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    process = evalwright.start("run", suite, "--agent", subject(f"stubborn.py:{agent}"))
    ran = evalwright.finish(process)
    assert (ran.code, ran.out) == (3, "")
    assert f"evalwright: {words}\nresume with: evalwright run --resume" in ran.err
    assert "Traceback" not in ran.err


def test_what_an_agent_makes_of_python_itself_is_not_called_a_bug_without_doubt(
    evalwright: Evalwright,
) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    ran = evalwright.finish(
        evalwright.start("run", suite, "--agent", subject("stubborn.py:break_the_clock"))
    )
    assert (ran.code, ran.out) == (3, "")
    assert "a bug in Evalwright, or of the agent" in ran.err
    assert "with --isolate" in ran.err


def test_a_fork_that_comes_back_does_not_go_on_with_the_run(
    evalwright: Evalwright, journal: Journal
) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    agent = subject("stubborn.py:go_on_twice")
    ran = evalwright("run", suite, "--agent", agent, env=journal.environment)
    assert ran.code == 1
    assert sorted(journal.lines()) == ["task-1 run", "task-2 run"]


def test_an_agent_that_changes_the_folder_does_not_move_the_results(
    evalwright: Evalwright,
) -> None:
    elsewhere = evalwright.folder / "elsewhere"
    elsewhere.mkdir()
    suite = evalwright.suite(a_suite(tasks=1))
    evalwright.db = Path("log.db")
    ran = evalwright(
        "run", suite, "--agent", subject("stubborn.py:go_elsewhere"),
        "--junit", "report.xml", "--out", "results",
        env={"TMPDIR": str(elsewhere)},
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert list(elsewhere.iterdir()) == []
    assert (evalwright.folder / "report.xml").is_file()
    assert (evalwright.folder / "results" / "summary.json").is_file()


def test_an_agent_that_takes_stdout_does_not_swallow_the_scorecard(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    ran = evalwright("run", suite, "--agent", subject("stubborn.py:take_stdout"))
    assert ran.code == 0
    assert "PASSED" in ran.out


def test_an_agent_that_swallows_everything_does_not_keep_the_process(
    evalwright: Evalwright,
) -> None:
    (evalwright.folder / "deaf.py").write_text(
        "import asyncio\n\n\n"
        "async def answer(task):\n"
        "    while True:\n"
        "        try:\n"
        "            await asyncio.sleep(1000)\n"
        "        except BaseException:\n"
        "            pass\n"
    )
    suite = evalwright.suite(a_suite(1))
    done = evalwright("run", suite, "--agent", "deaf.py:answer", "--timeout", "0.2")
    assert done.code == 3
    assert "agent_timeout" in done.err or "no answer within" in done.err


@pytest.mark.parametrize("agent", ["hold_the_interpreter", "hold_the_loop", "block_the_loop"])
def test_an_agent_that_keeps_the_process_busy_ends_the_run_soon_after_its_limit(
    evalwright: Evalwright, journal: Journal, agent: str
) -> None:
    """No timeout is heard then; the message has the task and the remedy, and the run is resumed."""
    tasks = [a_task("task-1"), a_task("task-2", input="wait")]
    suite = evalwright.suite(a_suite(tasks))
    ran = evalwright(
        "run", suite, "--agent", subject(f"stubborn.py:{agent}"), "--timeout", "0.2",
        "--concurrency", "1", env=journal.environment,
    )  # fmt: skip
    assert ran.code == 3
    assert "0.2 s are over, but the agent's code for task task-2 keeps the whole process" in ran.err
    assert "with --isolate, only the task fails" in ran.err
    assert "resume with: evalwright run --resume run_" in ran.err
    resumed = evalwright(
        "run", "--resume", "latest", "--isolate", "--json", env=journal.environment
    )
    assert resumed.code == 1, resumed.err
    assert [task["passed"] for task in resumed.json()["tasks"]] == [True, False]
    logs.assert_complete(evalwright.events())


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("agent", ["wait_in_c", "wait_in_c_in_the_loop"])
def test_a_run_whose_agent_keeps_the_process_busy_can_be_stopped(
    evalwright: Evalwright, journal: Journal, agent: str, stop: signal.Signals
) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1", input="wait")]))
    run = evalwright.start(
        "run", suite, "--agent", subject(f"stubborn.py:{agent}"), env=journal.environment
    )
    eventually(journal.lines, "the task")
    run.send_signal(stop)
    ran = evalwright.finish(run)
    assert ran.code == 130
    assert "the run is to stop, but the agent's code" in ran.err
    assert "resume with: evalwright run --resume run_" in ran.err
