"""`evalwright db`: look after the event log: information, checks, backups, pruning, transfer."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from evalwright.cli import db_transfer
from evalwright.cli.db_transfer import LongWork, many
from evalwright.cli.output import echo, print_exit, print_json, say
from evalwright.cli.parameters import db_option, duration, json_option
from evalwright.contracts.errors import BadInput, RunNotFound
from evalwright.contracts.times import iso_time
from evalwright.store.location import (
    chosen_address,
    chosen_path,
    existing_log,
    log_exists,
    nothing_recorded,
    opened_log,
    shown_place,
)
from evalwright.store.protocol import RunFacts

EXAMPLES = """\b
Examples:
  evalwright db info
  evalwright db check
  evalwright db migrate --db postgresql://evals@db.example/evals
  evalwright db backup evals-backup.db
  evalwright db prune --older-than 90d --keep-tag release --dry-run
  evalwright db export latest -o run.jsonl
  evalwright db import run.jsonl --db other.db
  evalwright db export --all -o evals.jsonl
  evalwright db vacuum
"""


@click.group(epilog=EXAMPLES)
def command() -> None:
    """Look after the event log: check it, back it up, prune it, and move runs between logs.

    Everything but `vacuum` can be done while runs are executed and a host is running.
    """


command.add_command(db_transfer.export)
command.add_command(db_transfer.import_command)


@command.command(epilog="Example: evalwright db migrate --db postgresql://evals@db.example/evals")
@json_option
@db_option
def migrate(*, as_json: bool, db: str | None) -> None:
    """Bring the log to the layout of this version.

    In PostgreSQL it makes the tables, and a restricted role that all connections take: the user in
    the address must be allowed to create both. A file is brought up to date whenever it is opened.
    """
    place, address = shown_place(db), chosen_address(db)
    if address is not None:
        from evalwright.store.postgres.migration import migrate_now

        before, after = migrate_now(address)
    else:
        from evalwright.store.inspection import read_facts

        before = read_facts(chosen_path(db)).schema if log_exists(db) else 0
        with opened_log(db):
            pass
        after = read_facts(chosen_path(db)).schema
    if as_json:
        print_json({"database": place, "before": before, "schema": after})
    elif before == after:
        echo(f"{place}: schema {after}, up to date")
    else:
        echo(f"{place}: schema {after}, before {before or 'nothing'}")


@command.command(epilog="Example: evalwright db info --json")
@json_option
@db_option
def info(*, as_json: bool, db: str | None) -> None:
    """Show where the log is, how large it is, and what is in it."""
    address = chosen_address(db)
    if address is not None:
        from evalwright.store.postgres.inspection import inspected

        with existing_log(db), inspected(address) as inspection:
            facts = inspection.facts()
    else:
        from evalwright.store.inspection import read_facts

        facts = read_facts(_existing(db))
    if as_json:
        print_json(facts)
        return
    unused = ""
    if facts.free_bytes is not None:
        pages = f"{facts.free_pages} of {facts.pages} pages"
        unused = f", of it {_size(facts.free_bytes)} unused ({pages})"
    lines = [
        f"{facts.database}: schema {facts.schema}, {_size(facts.file_bytes)}{unused}",
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
    echo("\n".join(lines))


@command.command(epilog="Example: evalwright db check --replay")
@click.option("--replay", is_flag=True, help="Also rebuild the summary of every completed run.")
@json_option
@db_option
def check(*, replay: bool, as_json: bool, db: str | None) -> int:
    """Check the file or the database, and the rules of the log.

    Every problem is listed with the run and the place, and the exit code is then 1. Nothing is
    changed.
    """
    place, address = shown_place(db), chosen_address(db)
    progress = LongWork("checked {0} of {1} rules")
    if address is not None:
        from evalwright.store.postgres.inspection import inspected

        with existing_log(db), inspected(address) as inspection:
            problems = list(inspection.problems(progress))
    else:
        from evalwright.store.inspection import find_problems

        problems = list(find_problems(_existing(db), progress))
    if replay and not problems:
        with existing_log(db) as log:
            from evalwright.engine.replay import unlike_recorded

            problems += unlike_recorded(log, LongWork("replayed {0} of {1} runs"))
    if as_json:
        found = {"database": place, "sound": not problems, "problems": problems}
        print_json(found)
    for problem in () if as_json else problems:
        echo(f"{problem.place}: {problem.message} [{problem.rule}]")
    if problems:
        found_text = many(len(problems), "problem")
        say(f"{place}: {found_text}; restore a backup, or export what is sound")
    elif not as_json:
        echo(f"{place}: sound")
    return print_exit(1, "the log is damaged", aside=as_json) if problems else 0


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
    from evalwright.host.access.vault import Vault
    from evalwright.store.sqlite.backup import back_up

    path = _existing(db)
    done = back_up(path, file, LongWork("{0} of at most {1} bytes written"), replace=force)
    if done.without_secret:
        say(
            f"{many(done.without_secret, 'webhook')} of an older version had a secret in clear"
            " text, which is not in the copy; start the host once to encrypt it, then back up again"
        )
    key = Path(Vault.for_database(str(path)).place)
    if key.exists():
        say(
            f"{key} is not in the copy; without it, webhooks cannot be signed: keep a copy of it, "
            "in another place"
        )
    if as_json:
        print_json({"database": str(path), "backup": str(file), "bytes": done.size})
    else:
        echo(f"{file}: {_size(done.size)}, a copy of {path}")


@command.command(epilog="Example: evalwright db vacuum")
@json_option
@db_option
def vacuum(*, as_json: bool, db: str | None) -> None:
    """Give the unused space in the file back.

    Nobody can write meanwhile. It needs as much free space as the log has content.
    """
    from evalwright.store.inspection import read_facts
    from evalwright.store.sqlite.backup import compact

    path = _existing(db)
    before = read_facts(path).file_bytes
    compact(path, LongWork("{0} of at most {1} bytes written"))
    after = read_facts(path).file_bytes
    if as_json:
        print_json({"database": str(path), "bytesBefore": before, "bytes": after})
    else:
        echo(f"{path}: {_size(before)} before, {_size(after)} now")


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
    from evalwright.host.runs.retention import plan_pruning, prune_runs, too_recent

    if chosen_address(db) is None:
        _existing(db)
    span, text = older_than
    before_us = time.time_ns() // 1000 - span // timedelta(microseconds=1)
    with opened_log(db) as log:
        plan = plan_pruning(log, too_recent(before_us), keep_tags)
        pruned, kept = [run for unit in plan.units for run in unit], plan.kept
        if not dry_run:
            progress = LongWork("{0} of {1} runs")
            pruned, late = prune_runs(log, plan, f"older than {text}", progress)
            kept = [*kept, *late]
    if as_json:
        print_json({"dryRun": dry_run, "pruned": _pruned(pruned), "kept": kept})
        return
    done = "would be deleted" if dry_run else "deleted"
    for run in pruned:
        when = iso_time(run.ended_us or 0)
        echo(f"{done}: {run.run_id}, {run.status}, ended {_minute(when)} UTC, {_size(run.bytes)}")
    for each in kept:
        echo(f"kept: {each.run_id} {each.reason}")
    echo(f"{many(len(pruned), 'run')} {done}, {_size(sum(run.bytes for run in pruned))}")
    if pruned and not dry_run and chosen_address(db) is None:
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


def _existing(db: str | None) -> Path:
    """The file of the log, for what only a file needs."""
    if chosen_address(db) is not None:
        raise BadInput(
            f"{shown_place(db)}: this is for logs in a file; PostgreSQL has its own tools: back up "
            "with pg_dump, and leave unused space to its autovacuum"
        )
    if not log_exists(db):
        raise RunNotFound(nothing_recorded(db))
    return chosen_path(db)


def _size(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")
