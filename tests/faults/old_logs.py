"""Logs as earlier versions wrote them, and a process that opens them and dies.

As a script: `old_logs.py FOLDER MOMENT...` copies `FOLDER/old.db` for each moment and opens the
copy in a fork, which dies there: at the write that reaches so many bytes, or, after an `@`, so many
seconds after it began. It says whether the fork died.
"""

import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from evalwright.store.sqlite import schema
from evalwright.store.sqlite.log import SqliteLog

Row = tuple[str, int, str, str | None, int, bytes]
STORE = Path(__file__).parents[1] / "store"

_EVENTS = (
    "SELECT run_id, seq, type, task_id, at_us, CAST(body AS BLOB)"
    " FROM events JOIN runs USING (run) ORDER BY run, seq"
)


def write_old_log(
    path: Path, version: int, runs: int, tasks: int, notes: str | None = None
) -> list[Row]:
    """Write a log as a version did, with notes in the inputs of its runs; returns its events."""
    chance = random.Random(0)
    suites = [json.dumps({"tasks": ["ü" * chance.randrange(9000)] * 4}) for _ in range(3)]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN")
        for statement in _statements((STORE / f"written_by_0_{version}/schema.sql").read_text()):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {version}")
        for run in range(1, runs + 1):
            connection.execute("INSERT INTO runs (run, run_id) VALUES (?, ?)", (run, f"run-{run}"))
            connection.executemany(
                "INSERT INTO events (run, seq, type, task_id, at_us, body)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                _events(run, tasks, chance.choice(suites), chance, notes),
            )
        connection.execute("COMMIT")
        return connection.execute(_EVENTS).fetchall()


def _statements(script: str) -> list[str]:
    found, statement = [], ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found


def _events(
    run: int, tasks: int, suite: str, chance: random.Random, notes: str | None
) -> list[tuple[object, ...]]:
    inputs = {"evalSuiteRef": "s@1", **({"notes": notes} if notes else {})}
    start = json.dumps({"workflowId": "w", "inputs": inputs, "tags": ["nightly"]})
    bodies = [
        ("run.started", None, start),
        ("eval.started", None, "{}"),
        ("evalwright.planned", None, f'{{"suite":{suite},"run":{run}}}'),
    ]
    for task in range(tasks):
        answer = json.dumps({"decision": "x" * chance.randrange(2000)})
        bodies += [("agent.decided", f"task-{task}", answer), ("eval.scored", f"task-{task}", "{}")]
    if run % 2:
        bodies.append(("run.completed", None, json.dumps({"outputs": "y" * 9000})))
    return [(run, seq, *event[:2], seq, event[2]) for seq, event in enumerate(bodies)]


def events_in(path: Path) -> list[Row]:
    """Every event of a log of the present version."""
    log = SqliteLog(path)
    try:
        return [
            (event.run_id, event.sequence, event.type, event.task_id, event.at_us, event.body)
            for run_id in reversed(log.run_ids())
            for event in log.read(run_id)
        ]
    finally:
        log.close()


def version_and_events(path: Path) -> tuple[int, list[Row] | None]:
    """What any program finds: the version, and the events of an old one."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return version, connection.execute(_EVENTS).fetchall() if version < 3 else None


def die_while_opening(folder: Path, moments: list[str]) -> None:
    """Let a fork die at each moment of bringing a copy up to date."""
    for number, moment in enumerate(moments):
        path = folder / f"{number}.db"
        shutil.copyfile(folder / "old.db", path)
        child = os.fork()
        if child == 0:
            if not moment.startswith("@"):
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                resource.setrlimit(resource.RLIMIT_FSIZE, (int(moment), int(moment)))
            SqliteLog(path).close()
            os._exit(0)
        if moment.startswith("@"):
            time.sleep(float(moment[1:]))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.WIFSIGNALED(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    die_while_opening(Path(sys.argv[1]), sys.argv[2:])
