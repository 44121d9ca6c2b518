"""A log in which a bit was flipped, or rows were exchanged or removed: it is never called sound.

What `db check` calls sound reads as it was written, and what reads otherwise is refused with one
line that names the run, never with a traceback.
"""

import asyncio
import itertools
import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.contracts.errors import EvalwrightError
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.plan import plan_run
from evalwright.engine.replay import replay_run
from evalwright.engine.runner import start_run
from evalwright.store.inspection import find_problems
from evalwright.store.records import RecordChange
from evalwright.store.sqlite.log import SqliteLog
from faults.soaking import IS_SOAK, scaled, seeds
from subjects.runs import as_agent

MOST_KINDS = ("note", "suite")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with runs, a deleted one, documents and a part that several runs share."""
    path = tmp_path_factory.mktemp("sound") / "log.db"
    log = SqliteLog(path)
    agent, suite = (
        as_agent(answer),
        a_suite([a_task(f"task-{n}", input="x" * 600) for n in range(8)]),
    )
    plan = plan_run(suite, "suite.json", agent, RunOptions())
    for _ in range(4):
        asyncio.run(start_run(log, agent, plan))
    log.upkeep.prune(log.run_ids()[-1:], "by hand", ())
    changes = [RecordChange("note", "local", f"key-{n}", b"text" * n) for n in range(20)]
    log.records.write(changes).result()
    log.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    assert list(find_problems(path)) == []
    return path


async def answer(_task: Any) -> str:
    return "yes"


def all_that_is_read(path: Path) -> Any:
    """Everything that a log says, and the summaries that its runs are replayed to."""
    log = SqliteLog(path)
    try:
        runs = log.find_runs()
        return (
            runs,
            [[*log.read(run.run_id)] for run in runs],
            [log.edges(run.run_id) for run in runs],
            [replay_run(log, run.run_id).summary for run in runs],
            [log.facts(run.run_id) for run in runs],
            log.upkeep.abandoned_runs(),
            [log.records.of_all_tenants(kind) for kind in MOST_KINDS],
            log.upkeep.tombstones(""),
            sorted(log.upkeep.sizes(""), key=repr),
        )
    finally:
        log.close()


def read_or_refused(path: Path) -> Any:
    """What is read, or the one line with which it is refused."""
    try:
        return all_that_is_read(path)
    except EvalwrightError as error:
        refusal = str(error)
    assert len(refusal.splitlines()) == 1, refusal
    return refusal


@pytest.mark.parametrize("seed", seeds(2, 60))
def test_a_flipped_bit_is_reported_or_changes_nothing_that_is_read(
    sound: Path, tmp_path: Path, seed: int
) -> None:
    chance, before, content = random.Random(seed), all_that_is_read(sound), sound.read_bytes()
    for _ in range(scaled(40, 100)):
        path, flipped = tmp_path / "log.db", bytearray(content)
        place = chance.randrange(len(flipped))
        flipped[place] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            problems = [*find_problems(path)]
        except EvalwrightError as error:
            problems = [str(error)]  # not a log any more
        after = read_or_refused(path)
        if after != before:
            assert problems, (place, after)
        assert all(len(str(each).splitlines()) == 1 for each in problems)
        for each in tmp_path.iterdir():
            each.unlink()


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["UPDATE events SET body = replace(body, 'yes', 'Yes') WHERE run = 3"], "run"),
        (["UPDATE events SET type = 'evalwright.note' WHERE run = 3 AND seq = 7"], "event 7"),
        (["ALTER TABLE run_facts RENAME COLUMN summed TO sunmed"], "no column 'summed'"),
        (["UPDATE events SET task_id = 'task-9' WHERE run = 3 AND task_id = 'task-1'"], "event"),
        (["UPDATE events SET at_us = at_us + 1 WHERE run = 3 AND seq = 5"], "event 5"),
        (["UPDATE events SET checksum = NULL WHERE run = 3 AND seq = 5"], "missing, added"),
        (["DELETE FROM events WHERE run = 3 AND seq = 5"], "missing, added"),
        (
            [
                "DELETE FROM events WHERE run = 3 AND seq = 5",
                "UPDATE events SET seq = seq - 1 WHERE run = 3 AND seq > 5",
                "UPDATE run_facts SET events = events - 1 WHERE run = 3",
            ],
            "missing, added",
        ),
        (
            [
                "UPDATE events SET seq = 1005 WHERE run = 3 AND seq = 5",
                "UPDATE events SET seq = 5 WHERE run = 3 AND seq = 8",
                "UPDATE events SET seq = 8 WHERE run = 3 AND seq = 1005",
            ],
            "exchanged",
        ),
        (
            [
                "UPDATE events SET run = 1000 WHERE run = 3 AND seq = 5",
                "UPDATE events SET run = 3 WHERE run = 4 AND seq = 5",
                "UPDATE events SET run = 4 WHERE run = 1000 AND seq = 5",
            ],
            "event 5",
        ),
        (["UPDATE runs SET run_id = 'other' WHERE run = 3"], "run other"),
        (["UPDATE run_facts SET score = 0.5 WHERE run = 3"], "another score"),
        (["UPDATE run_facts SET summed = 0, checksum = 0 WHERE run = 3"], "missing, added"),
        (["UPDATE contents SET body = replace(body, 'xxx', 'xxy')"], "not what its hash says"),
        (["UPDATE records SET body = x'00' WHERE key = 'key-3'"], "note key-3"),
        (["DELETE FROM records WHERE key = 'key-3'"], "sizes"),
        (["UPDATE tombstones SET reason = 'another'"], "tombstone"),
        (["UPDATE run_facts SET tags = '['"], "another tags"),
        (["UPDATE events SET content = 1 WHERE run = 3 AND seq = 5"], "event 5"),
        (["UPDATE events SET content_at = 0 WHERE run = 3 AND seq = 5"], "event 5"),
    ],
)
def test_a_row_that_was_changed_exchanged_or_removed_is_reported_with_its_place(
    sound: Path, tmp_path: Path, statements: list[str], found: str
) -> None:
    path = tmp_path / "log.db"
    shutil.copy(sound, path)
    without_safeguards(path, statements)
    problems = [f"{each.place}: {each.message}" for each in find_problems(path)]
    assert any(found in each for each in problems), problems
    read_or_refused(path)


def without_safeguards(path: Path, statements: list[str]) -> None:
    """Change a file as damage does: past its triggers, which are there again afterwards."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        triggers = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for each in statements:
            assert connection.execute(each).rowcount, each
        for _, sql in triggers:
            connection.execute(sql)


OTHERWISE = ("NULL", "1.5", "-1", "'text'", "x'FF'")


@pytest.mark.parametrize(
    "table",
    ["runs", "events", "run_facts", "contents", "records", "record_sizes", "tombstones"],
)
def test_a_value_of_another_type_in_any_column_is_refused_in_one_line_or_changes_nothing(
    sound: Path, tmp_path: Path, table: str
) -> None:
    path, before = tmp_path / "log.db", all_that_is_read(sound)
    with closing(sqlite3.connect(sound)) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    all_values = itertools.product(columns, OTHERWISE)
    for column, value in all_values if IS_SOAK else zip(columns, itertools.cycle(OTHERWISE)):
        shutil.copy(sound, path)
        with suppress(sqlite3.IntegrityError):  # a key that no file can hold
            with_any_values(path, f"UPDATE OR REPLACE {table} SET {column} = {value}")
        problems = [*find_problems(path)]
        after = read_or_refused(path)
        assert after == before or problems, (column, value, after)
        assert all(len(str(each).splitlines()) == 1 for each in problems)


def with_any_values(path: Path, statement: str) -> None:
    """Change a file as damage does, which no type and no constraint of a column stops."""
    redefine = "UPDATE sqlite_master SET sql = ? WHERE name = ?"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        was = connection.execute("SELECT sql, name FROM sqlite_master").fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        for sql, name in was:
            loose = re.sub(r"(?<!IS) NOT NULL|UNIQUE(?= INDEX)", "", sql or "")
            connection.execute(redefine, (loose or None, name))
    without_safeguards(path, [statement])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.executemany(redefine, was)


@pytest.mark.parametrize(
    "reads",
    [
        lambda log, run_id: [*log.read(run_id)],
        replay_run,
        lambda log, run_id: log.verify(run_id),
    ],
)
def test_what_reads_a_changed_event_says_which_one_it_is(
    sound: Path, tmp_path: Path, reads: Callable[[SqliteLog, str], object]
) -> None:
    path = tmp_path / "log.db"
    shutil.copy(sound, path)
    without_safeguards(path, ["UPDATE events SET at_us = at_us + 1 WHERE run = 3 AND seq = 5"])
    with closing(SqliteLog(path)) as log:
        run_id = log.find_runs()[1].run_id
        with pytest.raises(EvalwrightError, match=f"run {run_id}, event 5: "):
            reads(log, run_id)
