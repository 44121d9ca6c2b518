"""Code of the user that holds a worker for longer than its lease: nothing is paid for twice."""

import signal
import subprocess
from pathlib import Path

import pytest

from faults.fleet_processes import LEASE_SECONDS, FleetProcesses, fleet_processes
from faults.soaking import scaled
from postgres_server import PostgresServer

HELD_SECONDS = 1.5 * LEASE_SECONDS

# `PyDLL` calls C without letting go of the interpreter, as `re` does.
HOLDS_THE_INTERPRETER = f"""
import ctypes

def check(output):
    ctypes.PyDLL(None).usleep({HELD_SECONDS:.0f} * 1_000_000)
    return output == "yes"
"""
WAITS_FOR_A_FILE = """
import pathlib, time

def check(output):
    pathlib.Path("checking").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    return output == "yes"
"""
AGENT_THAT_BLOCKS_THE_LOOP = """
import os, time

calls = os.open(os.environ["CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

async def answer(task):
    os.write(calls, f"{os.getpid()} {task.id}\\n".encode())
    time.sleep(%s)
    return "yes"
"""

# Longer than a transaction may be idle: the database undoes the end of the task.
AGENT_WITH_A_LOOP_HELD_WITHIN_A_TRANSACTION = """
import os, time

from evalwright.engine.fleet.database import FleetDatabase

calls = os.open(os.environ["CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
append, appended = FleetDatabase.append, []

async def append_and_be_held(database, connection, run_id, run, events):
    await append(database, connection, run_id, run, events)
    if not appended:
        appended.append(events)
        await connection.execute("SET LOCAL idle_in_transaction_session_timeout = '2s'")
        time.sleep(3)

FleetDatabase.append = append_and_be_held

async def answer(task):
    os.write(calls, f"{os.getpid()} {task.id}\\n".encode())
    return "yes"
"""

AGENT_THAT_HOLDS_THE_INTERPRETER = """
import os, re

calls = os.open(os.environ["CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def answer(task):
    os.write(calls, f"{os.getpid()} {task.id}\\n".encode())
    if task.id == "task-0":
        re.match("(a+)+$", "a" * 40 + "b")
    return "yes"
"""

SUITE = "evalwright: 1\nname: held\ntasks:\n"
TASK = "  - {{id: task-{}, input: say yes, checks: [{{{}}}]}}\n"


def hand_over(
    fleet: FleetProcesses, check: str, tasks: int, *more: str
) -> "subprocess.Popen[bytes]":
    """A run whose tasks have this check."""
    lines = [TASK.format(number, check) for number in range(tasks)]
    (fleet.folder / "suite.yaml").write_text(SUITE + "".join(lines))
    return fleet.hand_over("suite.yaml", 10, *more)


@pytest.mark.parametrize("code", [HOLDS_THE_INTERPRETER, None])
def test_a_worker_that_is_held_for_longer_than_its_lease_keeps_its_tasks(
    postgres: PostgresServer, tmp_path: Path, code: str | None
) -> None:
    tasks = scaled(2, 8)
    with fleet_processes(postgres, tmp_path) as fleet:
        if code is None:
            (tmp_path / "agent.py").write_text(AGENT_THAT_BLOCKS_THE_LOOP % HELD_SECONDS)
        (tmp_path / "checks.py").write_text(code or "")
        for _ in range(2):
            fleet.start_worker(2)
        hand_over(fleet, "python: checks.py:check" if code else 'equals: "yes"', tasks)
        fleet.until(lambda: fleet.scored() == tasks)
        fleet.until(lambda: fleet.ask("SELECT 1 FROM fleet_runs") == [])
        assert sorted(fleet.invocations()) == sorted(f"task-{n}" for n in range(tasks))
        fleet.check_log(1, tasks)


def test_a_worker_that_is_held_while_it_ends_a_task_has_it_still_when_that_is_undone(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with fleet_processes(postgres, tmp_path) as fleet:
        (tmp_path / "agent.py").write_text(AGENT_WITH_A_LOOP_HELD_WITHIN_A_TRANSACTION)
        for _ in range(2):
            fleet.start_worker(2)
        hand_over(fleet, 'equals: "yes"', 4)
        fleet.until(lambda: fleet.scored() == 4)
        fleet.until(lambda: fleet.ask("SELECT 1 FROM fleet_runs") == [])
        assert sorted(fleet.invocations()) == [f"task-{n}" for n in range(4)]
        fleet.check_log(1, 4)


def test_an_answer_is_scored_by_the_worker_that_takes_over_and_not_asked_for_again(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with fleet_processes(postgres, tmp_path) as fleet:
        (tmp_path / "checks.py").write_text(WAITS_FOR_A_FILE)
        fleet.start_worker(2)
        hand_over(fleet, "python: checks.py:check", 1)
        fleet.until((tmp_path / "checking").exists)
        fleet.workers[0].send_signal(signal.SIGKILL)
        fleet.workers[0].wait()
        (tmp_path / "go").touch()
        fleet.start_worker(2)
        fleet.until(lambda: fleet.scored() == 1)
        fleet.until(lambda: fleet.ask("SELECT 1 FROM fleet_runs") == [])
        assert fleet.invocations() == ["task-0"]
        fleet.check_log(1, 1)
        (passed,) = fleet.ask("SELECT passed FROM runs")
        assert passed[0]


def test_an_agent_that_holds_a_worker_for_ever_ends_it_and_its_task_is_not_begun_again_and_again(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with fleet_processes(postgres, tmp_path) as fleet:
        (tmp_path / "agent.py").write_text(AGENT_THAT_HOLDS_THE_INTERPRETER)
        fleet.start_worker(1, "--attempts", "1")
        command = hand_over(fleet, 'equals: "yes"', 3, "--timeout", "0.5")
        held = fleet.workers.pop()
        assert fleet.wait_for(held) == 3
        told = fleet.output(held)
        assert "0.5 s are over, but the agent's code for task task-0 of run run_" in told
        assert "the worker ends here; with --isolate, only the task fails" in told

        fleet.start_worker(1, "--attempts", "1", "--drain", "0.1")
        assert fleet.wait_for(command) == 1
        assert "1 attempts ended with their workers" in fleet.output(command)
        assert fleet.invocations() == ["task-0", "task-1", "task-2"]
        fleet.check_log(1, 3)

        hand_over(fleet, 'equals: "yes"', 1)
        fleet.until(lambda: fleet.invocations().count("task-0") == 2)
        (held,) = fleet.workers
        held.send_signal(signal.SIGTERM)
        assert fleet.wait_for(held) == 130
        assert "the worker is to stop, but the agent's code for task task-0" in fleet.output(held)
