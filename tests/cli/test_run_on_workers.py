"""`evalwright run --workers`: handed over, followed, and told as a run of one process is."""

import json
import signal
from collections.abc import Iterator

import pytest

from faults.fleet_processes import FleetProcesses, fleet_processes
from postgres_server import PostgresServer

BROKEN = """
import os

def answer(task):
    if os.path.exists("mended"):
        return "yes"
    raise RuntimeError("not yet")
"""


@pytest.fixture(scope="module")
def fleet(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FleetProcesses]:
    """A worker in a folder, and a database of its own."""
    with fleet_processes(postgres, tmp_path_factory.mktemp("fleet"), 0.01) as fleet:
        (fleet.folder / "broken.py").write_text(BROKEN)
        fleet.suite(3)
        fleet.start_worker(4)
        yield fleet


def test_the_scorecard_and_the_exit_code_are_those_of_a_run_in_one_process(
    fleet: FleetProcesses,
) -> None:
    command = fleet.hand_over("suite.json", 2, "--repeat", "2", "--json")
    assert fleet.wait_for(command) == 0, fleet.outputs()
    assert fleet.output(command).count("passedCount") == 2
    assert len(fleet.ask("SELECT 1 FROM runs WHERE status = 'completed' AND repeats <> ''")) == 2


def test_a_failed_run_is_continued_by_the_workers(fleet: FleetProcesses) -> None:
    agent = ("--agent", "broken.py:answer", "--db", fleet.address, "--workers")
    failed = fleet.start("run", "suite.json", *agent)
    assert fleet.wait_for(failed) == 3, fleet.outputs()
    assert "agent_unavailable" in fleet.output(failed)
    (fleet.folder / "mended").touch()
    resumed = fleet.start("run", "--resume", "latest", *agent[2:])
    assert fleet.wait_for(resumed) == 0, fleet.outputs()
    assert "PASSED" in fleet.output(resumed)


def test_what_nobody_can_load_waits_says_so_and_can_be_cancelled(fleet: FleetProcesses) -> None:
    elsewhere = fleet.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "own.py").write_text("def answer(task):\n    return 'yes'\n")
    (elsewhere / "suite.json").write_text((fleet.folder / "suite.json").read_text())
    command = fleet.start(
        *("run", "suite.json", "--agent", "own.py:answer", "--db", fleet.address, "--workers"),
        cwd=elsewhere,
    )
    fleet.until(lambda: "waits for a worker that can load" in fleet.output(command))
    shown = fleet.start("show", "latest", "--db", fleet.address)
    assert fleet.wait_for(shown) == 3
    assert "there is no file own.py" in fleet.output(shown)
    command.send_signal(signal.SIGINT)
    assert fleet.wait_for(command) == 130
    assert "follow it again: evalwright run --resume" in fleet.output(command)
    alone = fleet.start("run", "--resume", "latest", "--db", fleet.address, cwd=elsewhere)
    assert fleet.wait_for(alone) != 0
    assert "is with the workers; follow it with --workers" in fleet.output(alone)
    cancelled = fleet.start("cancel", "latest", "--db", fleet.address)
    assert fleet.wait_for(cancelled) == 0, fleet.output(cancelled)
    listed = fleet.start("runs", "--limit", "1", "--json", "--db", fleet.address)
    assert fleet.wait_for(listed) == 0
    assert json.loads(fleet.output(listed))[0]["status"] == "cancelled"


def test_a_log_in_a_file_has_no_workers(fleet: FleetProcesses) -> None:
    refused = fleet.start(
        *("run", "suite.json", "--agent", "agent.py:answer", "--workers", "--db", "log.db")
    )
    assert fleet.wait_for(refused) == 2
    assert "workers share a log in PostgreSQL" in fleet.output(refused)
