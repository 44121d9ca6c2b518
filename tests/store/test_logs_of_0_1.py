"""A database that Evalwright 0.1 wrote opens, and its runs go on.

`written_by_0_1/log.db.gz` holds a completed run of four tasks, and one with a baseline that was
killed while its last task was being worked on.
"""

import gzip
import shutil
from pathlib import Path

import pytest

from subjects.command import Evalwright

WRITTEN = Path(__file__).parent / "written_by_0_1"
COMPLETED = "run_01m7h1a4ne1pscedc2xa15h93f"
KILLED = "run_01m7h1a5bng5b38ymxmtdd2hdp"


@pytest.fixture
def old_log(evalwright: Evalwright) -> Evalwright:
    """A copy of the old database, beside the agent that its runs name."""
    assert evalwright.db is not None
    evalwright.db.write_bytes(gzip.decompress((WRITTEN / "log.db.gz").read_bytes()))
    shutil.copy(WRITTEN / "agent.py", evalwright.folder)
    return evalwright


def test_its_runs_are_listed(old_log):
    listed = old_log("runs", "--json").json()
    assert [(each["runId"], each["status"]) for each in listed] == [
        (KILLED, "interrupted"),
        (COMPLETED, "completed"),
    ]


def test_a_completed_run_replays_to_the_same_bytes(old_log):
    done = old_log("replay", COMPLETED)
    assert done.code == 0, done.err


def test_a_killed_run_goes_on_where_it_stopped(old_log):
    done = old_log("run", "--resume", KILLED, "--json")
    assert done.code == 0, done.err
    summary = done.json()
    assert summary["taskCount"] == 4
    assert summary["regression"]["baselineRunId"] == COMPLETED
    invoked = [
        event["nodeId"]
        for event in old_log.events(KILLED)
        if event["type"] == "agent.invocation.started"
    ]
    assert sorted(invoked) == ["greeting", "json", "order", "slow", "slow"]


def test_its_runs_can_be_compared_and_be_a_baseline(old_log):
    old_log("run", "--resume", KILLED)
    done = old_log("compare", "--baseline", COMPLETED, "--new", KILLED, "--out", "report")
    assert done.code == 0, done.err
    assert (old_log.folder / "report" / "report.html").exists()
