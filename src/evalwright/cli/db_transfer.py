"""`evalwright db export` and `import`: runs, or a whole log, from one database to another."""

import time
from collections.abc import Iterator
from pathlib import Path

import click

from evalwright.cli.output import (
    check_place,
    echo,
    print_json,
    say,
    write_file,
    write_stdout,
)
from evalwright.cli.parameters import db_option, json_option
from evalwright.contracts.documents import open_input, read_input
from evalwright.contracts.errors import BadInput
from evalwright.engine.runs import find_run
from evalwright.store.location import Patience, existing_log, opened_log

_PATIENCE = Patience(requests=5, appends=5, closing=2)  # nothing is lost: it can be called again


class LongWork:
    """Says on stderr how far a long work is, about once a second."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._last = time.monotonic()

    def __call__(self, done: int, expected: int) -> None:
        """Say how much is done, unless that was said a moment ago."""
        if time.monotonic() - self._last >= 1:
            self._last = time.monotonic()
            say(self._form.format(f"{done:,}", f"{expected:,}"))


def many(count: int, noun: str) -> str:
    """A number of things: 1 run, 2 runs."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


@click.command(epilog="Example: evalwright db export latest -o run.jsonl")
@click.argument("run", required=False)
@click.option(
    "--all", "is_all", is_flag=True, help="Write every run that has ended, and documents."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The file to write; by default stdout.",
)
@db_option
def export(*, run: str | None, is_all: bool, output: Path | None, db: str | None) -> None:
    """Write RUN, or the whole log, as one file, for another log.

    The suite and the annotations of a run are in the file. RUN is an id, the beginning of one, or
    `latest`. Only runs that have ended can be exported. With --all, suites, agents, keys,
    baselines, deployments and webhooks are in the file, too: use it to move from SQLite to
    PostgreSQL or back.
    """
    from evalwright.host.runs.export import export_run

    if (run is None) is not is_all:
        raise BadInput("db export: name a run, or write --all for all of them")
    if output is not None:
        check_place(output)
    with existing_log(db) as log:
        if run is None:
            from evalwright.host.runs.log_export import export_log
            from evalwright.store.protocol import RunFilter

            left = len(log.find_runs(RunFilter(has_ended=False)))
            if left:
                say(f"{many(left, 'run')} not ended, and not in the file")
            what, lines = "the log", export_log(log, LongWork("{0} of {1} runs written"))
        else:
            run_id = find_run(log, run)
            what, lines = f"run {run_id}", export_run(log, run_id)
        if output is not None:
            replaced = ", in place of what was there" if output.is_file() else ""
            write_file(output, lines, is_private=True)
            say(f"{output}: {what}{replaced}")
            return
        for line in lines:
            write_stdout(line)


@click.command("import", epilog="Example: evalwright db import run.jsonl --db evals.db")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@db_option
def import_command(*, file: Path, as_json: bool, db: str | None) -> None:
    """Add a run, or a whole log, from an exported FILE.

    Runs keep their ids. Everything in the file of a run is checked first: all of it is added, or
    nothing. Importing the same again changes nothing; another run with the same id is refused.
    """
    from evalwright.host.runs.export import import_run, parse_transfer
    from evalwright.host.runs.log_export import is_log_header

    if is_log_header(next(iter(_lines(file)), b"")):
        _import_log(file, as_json=as_json, db=db)
        return
    transfer = parse_transfer(read_input(file), str(file))
    with opened_log(db, _PATIENCE) as log:
        added = import_run(log, transfer, str(file))
    header = transfer.header
    if as_json:
        print_json({"runId": header.run_id, "events": header.events, **added})
        return
    annotations = f"{many(added['annotationsAdded'], 'annotation')}"
    if added["added"]:
        echo(f"added run {header.run_id}: {many(header.events, 'event')}, {annotations}")
    elif added["annotationsAdded"]:
        echo(f"run {header.run_id} is in the log already; added {annotations}")
    else:
        echo(f"run {header.run_id} is in the log already, as it is in the file")


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with open_input(file) as opened:
            yield from opened
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror}") from None


def _import_log(file: Path, *, as_json: bool, db: str | None) -> None:
    from evalwright.host.runs.log_export import import_log

    if not file.is_file():
        raise BadInput(f"{file}: a whole log is read twice; write it to a file first")
    with opened_log(db, _PATIENCE) as log:
        progress = LongWork("{0} of {1} runs read")
        moved = import_log(log, lambda: _lines(file), str(file), progress)
    if as_json:
        found = {"runs": moved.header.runs, "documents": moved.header.documents}
        print_json({**found, "runsAdded": moved.runs, "documentsAdded": moved.documents})
        return
    runs, documents = many(moved.runs, "run"), many(moved.documents, "document")
    there = many(moved.header.runs - moved.runs, "run")
    echo(f"added {runs} and {documents}; {there} in the log already")
