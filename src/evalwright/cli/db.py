"""`evalwright db`: look after the event log: information, checks, backups, pruning, transfer."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from evalwright.cli.output import check_place, print_json, say, tell, write_file, write_stdout
from evalwright.cli.parameters import db_option, duration, json_option
from evalwright.contracts.documents import read_input
from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.times import iso_time
from evalwright.engine.listing import find_run
from evalwright.store.location import (
    Patience,
    chosen_path,
    existing_log,
    log_exists,
    nothing_recorded,
    opened_log,
)
from evalwright.store.protocol import RunFacts

EXAMPLES = """\b
Examples:
  evalwright db info
  evalwright db check
  evalwright db backup evals-backup.db
  evalwright db prune --older-than 90d --keep-tag release --dry-run
  evalwright db export latest -o run.jsonl
  evalwright db import run.jsonl --db other.db
  evalwright db vacuum
"""
_PATIENCE = Patience(requests=5, appends=5, closing=2)  # nothing is lost: it can be called again


@click.group(epilog=EXAMPLES)
def command() -> None:
    """Look after the event log: check it, back it up, prune it, and move runs between logs.

    Everything but `vacuum` can be done while runs are executed and a host is running.
    """


@command.command(epilog="Example: evalwright db info --json")
@json_option
@db_option
def info(*, as_json: bool, db: str | None) -> None:
    """Show where the log is, how large it is, and what is in it."""
    from evalwright.store.inspection import LogFacts, read_facts

    facts: LogFacts = read_facts(_existing(db))
    if as_json:
        print_json(facts)
        return
    unused = f"{_size(facts.free_bytes)} unused ({facts.free_pages} of {facts.pages} pages)"
    lines = [
        f"{facts.database}: schema {facts.schema}, {_size(facts.file_bytes)}, of it {unused}",
        f"runs: {_counts(facts.runs)}; {facts.events} events, {_size(facts.bytes)}",
    ]
    if facts.oldest is not None:
        lines.append(f"from {_minute(facts.oldest)} to {_minute(facts.newest or '')} UTC")
    if facts.pruned:
        lines.append(f"pruned runs: {facts.pruned}")
    if facts.documents:
        lines.append(f"documents: {_counts(facts.documents)}")
    for tenant in facts.tenants:
        content = f"{_counts(tenant.runs)}; {tenant.events} events, {_size(tenant.bytes)}"
        lines.append(f"  tenant {tenant.tenant}: {content}")
    tell("\n".join(lines))


@command.command(epilog="Example: evalwright db check --replay")
@click.option("--replay", is_flag=True, help="Also rebuild the summary of every completed run.")
@json_option
@db_option
def check(*, replay: bool, as_json: bool, db: str | None) -> int:
    """Check the file and the rules of the log.

    Every problem is listed with the run and the place, and the exit code is then 1. Nothing is
    changed.
    """
    from evalwright.store.inspection import find_problems

    path = _existing(db)
    problems = list(find_problems(path, _LongWork("checked {0} of {1} rules")))
    if replay and not problems:
        with existing_log(db) as log:
            from evalwright.engine.replay import unlike_recorded

            problems += unlike_recorded(log, _LongWork("replayed {0} of {1} runs"))
    if as_json:
        found = {"database": str(path), "sound": not problems, "problems": problems}
        print_json(found)
    for problem in () if as_json else problems:
        tell(f"{problem.place}: {problem.message} [{problem.rule}]")
    if problems:
        say(f"{path}: {_many(len(problems), 'problem')}; restore a backup, or export what is sound")
    elif not as_json:
        tell(f"{path}: sound")
    return 1 if problems else 0


@command.command(epilog="Example: evalwright db backup evals-backup.db")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@json_option
@db_option
def backup(*, file: Path, force: bool, as_json: bool, db: str | None) -> None:
    """Write a copy of the log to FILE.

    The copy is consistent, also while others write. FILE appears when it is complete, and only its
    owner can read it. Use it with --db, or put it in place of the log while nothing runs.
    """
    from evalwright.host.vault import Vault
    from evalwright.store.copying import back_up

    path = _existing(db)
    done = back_up(path, file, _LongWork("{0} of at most {1} bytes written"), replace=force)
    if done.without_secret:
        say(
            f"{_many(done.without_secret, 'webhook')} of an older version had a secret in clear"
            " text, which is not in the copy; start the host once to encrypt it, then back up again"
        )
    key = Path(Vault.beside(str(path)).place)
    if key.exists():
        say(
            f"{key} is not in the copy; without it, webhooks cannot be signed: keep a copy of it, "
            "in another place"
        )
    if as_json:
        print_json({"database": str(path), "backup": str(file), "bytes": done.size})
    else:
        tell(f"{file}: {_size(done.size)}, a copy of {path}")


@command.command(epilog="Example: evalwright db vacuum")
@json_option
@db_option
def vacuum(*, as_json: bool, db: str | None) -> None:
    """Give the unused space in the file back.

    Nobody can write meanwhile. It needs as much free space as the log has content.
    """
    from evalwright.store.copying import compact
    from evalwright.store.inspection import read_facts

    path = _existing(db)
    before = read_facts(path).file_bytes
    compact(path, _LongWork("{0} of at most {1} bytes written"))
    after = read_facts(path).file_bytes
    if as_json:
        print_json({"database": str(path), "bytesBefore": before, "bytes": after})
    else:
        tell(f"{path}: {_size(before)} before, {_size(after)} now")


@command.command(epilog="Example: evalwright db prune --older-than 90d --keep-tag release")
@click.option(
    "--older-than",
    callback=lambda _ctx, _param, text: (duration(text), text),
    required=True,
    metavar="D",
    help="How long ago a run must have ended: 12h, 90d, 2w.",
)
@click.option(
    "--keep-tag",
    "keep_tags",
    multiple=True,
    metavar="T",
    help="Keep runs with this tag; repeat it for more.",
)
@click.option("--dry-run", is_flag=True, help="Only list what would be deleted, and what is kept.")
@json_option
@db_option
def prune(
    *,
    older_than: tuple[timedelta, str],
    keep_tags: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    db: str | None,
) -> None:
    """Delete runs that ended long ago.

    Each is deleted as a whole, with its annotations. A run is kept if something that stays refers
    to it: as a baseline, as the source of a fork, as evidence of a promotion. Repeats of a group,
    and a failed run with its continuations, are kept or deleted together. A deleted run leaves a
    tombstone, which says when it was deleted.
    """
    from evalwright.host.retention import plan_pruning, prune_runs, too_recent

    _existing(db)
    span, text = older_than
    before_us = time.time_ns() // 1000 - span // timedelta(microseconds=1)
    with opened_log(db) as log:
        plan = plan_pruning(log, too_recent(before_us), keep_tags)
        pruned, kept = [run for unit in plan.units for run in unit], plan.kept
        if not dry_run:
            progress = _LongWork("{0} of {1} runs")
            pruned, late = prune_runs(log, plan, f"older than {text}", progress)
            kept = [*kept, *late]
    if as_json:
        print_json({"dryRun": dry_run, "pruned": _pruned(pruned), "kept": kept})
        return
    done = "would be deleted" if dry_run else "deleted"
    for run in pruned:
        when = iso_time(run.ended_us or 0)
        tell(f"{done}: {run.run_id}, {run.status}, ended {_minute(when)} UTC, {_size(run.bytes)}")
    for each in kept:
        tell(f"kept: {each.run_id} {each.reason}")
    tell(f"{_many(len(pruned), 'run')} {done}, {_size(sum(run.bytes for run in pruned))}")
    if pruned and not dry_run:
        say("the space is used again by new runs; `evalwright db vacuum` gives it back")


def _pruned(runs: list[RunFacts]) -> list[dict[str, Any]]:
    return [
        {
            "runId": run.run_id,
            "tenant": run.tenant,
            "status": run.status,
            "endedAt": iso_time(run.ended_us or 0),
            "events": run.events,
            "bytes": run.bytes,
        }
        for run in runs
    ]


@command.command(epilog="Example: evalwright db export latest -o run.jsonl")
@click.argument("run")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The file to write; by default stdout.",
)
@db_option
def export(*, run: str, output: Path | None, db: str | None) -> None:
    """Write RUN as one file, for another log.

    Its suite and its annotations are in the file. RUN is an id, the beginning of one, or `latest`.
    Only a run that has ended can be exported.
    """
    from evalwright.host.transfer import export_run

    if output is not None:
        check_place(output)
    with existing_log(db) as log:
        run_id = find_run(log, run)
        lines = export_run(log, run_id)
        if output is not None:
            replaced = ", in place of what was there" if output.is_file() else ""
            write_file(output, lines, is_private=True)
            say(f"{output}: run {run_id}{replaced}")
            return
        for line in lines:
            write_stdout(line)


@command.command("import", epilog="Example: evalwright db import run.jsonl --db evals.db")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@db_option
def import_command(*, file: Path, as_json: bool, db: str | None) -> None:
    """Add the run in an exported FILE to the log.

    The run keeps its id. Everything in the file is checked first: all of it is added, or nothing.
    Importing the same run again changes nothing; another run with the same id is refused.
    """
    from evalwright.host.transfer import import_run, parse_transfer

    transfer = parse_transfer(read_input(file), str(file))
    with opened_log(db, _PATIENCE) as log:
        added = import_run(log, transfer, str(file))
    header = transfer.header
    if as_json:
        print_json({"runId": header.run_id, "events": header.events, **added})
        return
    annotations = f"{_many(added['annotationsAdded'], 'annotation')}"
    if added["added"]:
        tell(f"added run {header.run_id}: {_many(header.events, 'event')}, {annotations}")
    elif added["annotationsAdded"]:
        tell(f"run {header.run_id} is in the log already; added {annotations}")
    else:
        tell(f"run {header.run_id} is in the log already, as it is in the file")


class _LongWork:
    """Says on stderr how far a long work is, about once a second."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._last = time.monotonic()

    def __call__(self, done: int, expected: int) -> None:
        if time.monotonic() - self._last >= 1:
            self._last = time.monotonic()
            say(self._form.format(f"{done:,}", f"{expected:,}"))


def _existing(db: str | None) -> Path:
    if not log_exists(db):
        raise RunNotFound(nothing_recorded(db))
    return chosen_path(db)


def _size(count: int) -> str:
    """A size for people: 1.2 MB."""
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")
