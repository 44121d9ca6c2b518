"""`evalwright runs`: list the runs in the log."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import click

from evalwright.cli.output import echo, print_json, say
from evalwright.cli.parameters import db_option, json_option
from evalwright.contracts.short_names import suite_name
from evalwright.engine.runs import RunRow, agent_called, list_results, list_runs
from evalwright.store.location import log_exists, nothing_recorded, opened_log
from evalwright.store.protocol import EventLog

T = TypeVar("T")


class RunLine(NamedTuple):
    """A run with how it stands, and what its agent is called."""

    row: RunRow
    result: str
    agent: str


def _status(listed: RunLine) -> str:
    row = listed.row
    live = ", live-shadow" if "live-shadow" in row.modes else ""
    return f"{row.status}{live}{''.join(f', {mark}' for mark in row.marks)}"


def _score(listed: RunLine) -> str:
    score = listed.row.aggregate_score
    return "" if score is None else f"{score:.4g}"


def _suite(listed: RunLine) -> str:
    return suite_name(f"{listed.row.suite_id}@{listed.row.suite_version}")


COLUMNS: tuple[tuple[str, Callable[[RunLine], str]], ...] = (
    ("run", lambda listed: listed.row.run_id),
    ("started", lambda listed: listed.row.started_at[:19].replace("T", " ")),
    ("status", _status),
    ("result", lambda listed: listed.result),
    ("score", _score),
    ("suite", _suite),
    ("agent", lambda listed: listed.agent),
)


@click.command(epilog="Example: evalwright runs --limit 5")
@click.option("--limit", type=click.IntRange(1), help="Show this many at most.")
@json_option
@db_option
def command(*, limit: int | None, as_json: bool, db: str | None) -> None:
    """List the runs in the log, newest first."""
    if as_json:
        print_json(_read(db, limit, list_runs))
        return
    listed = _read(db, limit, _listed)
    if not listed:
        say(nothing_recorded(db))
        return
    names = [name for name, _ in COLUMNS]
    rows = [names, *([cell(each) for _, cell in COLUMNS] for each in listed)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        echo("  ".join(cells).rstrip())


def _read(
    db: str | None, limit: int | None, read: Callable[[EventLog, int | None], list[T]]
) -> list[T]:
    if not log_exists(db):
        return []
    with opened_log(db) as log:
        return read(log, limit)


def _listed(log: EventLog, limit: int | None) -> list[RunLine]:
    return [
        RunLine(row, result, agent_called(log, row.run_id, row.agent_id))
        for row, result in list_results(log, limit)
    ]
