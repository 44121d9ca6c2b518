"""A database that Evalwright 0.2 wrote is brought up to date: its events stay, its runs go on.

`written_by_0_2/log.db.gz` holds a completed run with a tag, two repeats, and a run with the second
of them as its baseline, which was killed while its last task was being worked on.
"""

import gzip
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from evalwright.store.protocol import RunFilter
from evalwright.store.sqlite.log import SqliteLog
from subjects.command import Evalwright

WRITTEN = Path(__file__).parent / "written_by_0_2"
TAGGED = "run_01m7hfqns9dwy1c07a8sbr3ks2"
REPEATS = ["run_01m7hfqq18jqpdr4y2vyzys06s", "run_01m7hfqq36awnq11yrbw555189"]
KILLED = "run_01m7hfqrhcwmchzfw1ypven5m9"


@pytest.fixture
def old_log(evalwright: Evalwright) -> Evalwright:
    """A copy of the old database, beside the agent that its runs name."""
    assert evalwright.db is not None
    evalwright.db.write_bytes(gzip.decompress((WRITTEN / "log.db.gz").read_bytes()))
    shutil.copy(WRITTEN / "agent.py", evalwright.folder)
    return evalwright


def test_every_event_is_as_it_was_and_the_suite_is_kept_once(old_log):
    with closing(sqlite3.connect(old_log.db)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (2,)
        before = raw.execute(
            "SELECT run_id, seq, type, task_id, at_us, CAST(body AS BLOB)"
            " FROM events JOIN runs USING (run) ORDER BY run, seq"
        ).fetchall()

    log = SqliteLog(old_log.db)
    after = [event for run_id in reversed(log.run_ids()) for event in log.read(run_id)]
    facts = log.facts(TAGGED)
    repeats = log.find_runs(RunFilter(repeats=log.facts(REPEATS[0]).repeats))
    log.close()

    assert [
        (event.run_id, event.sequence, event.type, event.task_id, event.at_us, event.body)
        for event in after
    ] == before
    assert (facts.status, facts.tags, facts.score, facts.events) == (
        "completed",
        ["nightly"],
        1,
        23,
    )
    assert [run.run_id for run in reversed(repeats)] == REPEATS
    with closing(sqlite3.connect(old_log.db)) as raw:
        assert raw.execute("SELECT count(*) FROM contents").fetchone() == (1,)


def test_its_runs_are_listed_and_replay_to_the_same_bytes(old_log):
    listed = old_log("runs", "--json").json()
    assert [(each["runId"], each["status"]) for each in listed] == [
        (KILLED, "interrupted"),
        *((run_id, "completed") for run_id in (*reversed(REPEATS), TAGGED)),
    ]
    for run_id in (TAGGED, *REPEATS):
        done = old_log("replay", run_id)
        assert done.code == 0, done.err


def test_a_killed_run_goes_on_where_it_stopped(old_log):
    done = old_log("run", "--resume", KILLED, "--json")
    assert done.code == 0, done.err
    assert done.json()["taskCount"] == 4
    assert done.json()["regression"]["baselineRunId"] == REPEATS[1]
    invoked = [
        event["nodeId"]
        for event in old_log.events(KILLED)
        if event["type"] == "agent.invocation.started"
    ]
    assert sorted(invoked) == ["greeting", "json", "order", "slow", "slow"]
