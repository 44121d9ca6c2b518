"""`evalwright runs`: list the runs in the log."""

from collections.abc import Callable
from typing import TypeVar

import click

from evalwright.cli.output import print_json, say, tell
from evalwright.cli.parameters import db_option, json_option
from evalwright.contracts.short_names import suite_name
from evalwright.engine.runs import RunRow, agent_called, list_results, list_runs
from evalwright.store.location import log_exists, nothing_recorded, opened_log
from evalwright.store.protocol import EventLog

T = TypeVar("T")


@click.command(epilog="Example: evalwright runs --limit 5")
@click.option("--limit", type=click.IntRange(1), help="Show this many at most.")
@json_option
@db_option
def command(*, limit: int | None, as_json: bool, db: str | None) -> None:
    """List the runs in the log, newest first."""
    if as_json:
        print_json(_read(db, limit, list_runs))
    elif rows := _read(db, limit, _standings):
        tell(_table([_HEAD, *(_cells(*row) for row in rows)]))
    else:
        say(nothing_recorded(db))


def _read(
    db: str | None, limit: int | None, read: Callable[[EventLog, int | None], list[T]]
) -> list[T]:
    if not log_exists(db):
        return []
    with opened_log(db) as log:
        return read(log, limit)


def _standings(log: EventLog, limit: int | None) -> list[tuple[RunRow, str, str]]:
    """Each run with how it stands, and what its agent is called."""
    return [
        (row, result, agent_called(log, row.run_id, row.agent_id))
        for row, result in list_results(log, limit)
    ]


_HEAD = ["run", "started", "status", "result", "score", "suite", "agent"]


def _cells(row: RunRow, result: str, agent: str) -> list[str]:
    score = "" if row.aggregate_score is None else f"{row.aggregate_score:.4g}"
    started = row.started_at[:19].replace("T", " ")
    suite = suite_name(f"{row.suite_id}@{row.suite_version}")
    live = ", live-shadow" if "live-shadow" in row.modes else ""
    marks = "".join(f", {mark}" for mark in row.marks)
    status = f"{row.status}{live}{marks}"
    return [row.run_id, started, status, result, score, suite, agent]


def _table(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
