"""`evalwright tasks`: a suite, with fixtures, from recorded traces."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalwright.cli.output import (
    check_place,
    print_exit,
    say,
    stop_in_good_order,
    warn,
    without_secrets,
    write_file,
    write_stdout,
)
from evalwright.cli.parameters import db_option
from evalwright.contracts.errors import BadInput

if TYPE_CHECKING:
    from evalwright.comparison.recordings import Recordings

EXAMPLES = """\b
Examples:
  evalwright tasks --from traces.jsonl --out suite.yaml
  evalwright tasks --from incident.otlp.json --failed-only --out incident.yaml
  evalwright tasks --from latest --failed-only
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="DIR|FILE|RUN",
    type=click.Path(),
    help="What was recorded: a file of traces, a run directory, or a run.",
)
@click.option(
    "--failed-only",
    is_flag=True,
    help="Only cases with an error, without an answer, that did not pass, or with a high signal.",
)
@click.option(
    "--world",
    is_flag=True,
    help="Derive worlds that answer the tools; conversations become turns.",
)
@click.option("--limit", type=click.IntRange(1), help="Make at most so many tasks.")
@click.option("--with-system", is_flag=True, help="Give the agent the recorded system prompt, too.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the suite to this file, as YAML or JSON by its name; by default to stdout.",
)
@click.option("--show-secrets", is_flag=True, help="Do not mask secrets and personal data.")
@db_option
def command(
    *,
    source: str,
    failed_only: bool,
    world: bool,
    limit: int | None,
    with_system: bool,
    out: Path | None,
    show_secrets: bool,
    db: str | None,
) -> int:
    """Make a suite of recorded traces: a task for each case, and fixtures of what tools answered.

    The traces may be in any format that `compare` reads. The checks of a task hold of what was
    recorded. A case that failed becomes a task with the tag "failed", which cannot pass until you
    have written what is right. Secrets and personal data are masked.

    Exit code 2 when a record could not be read; the others are written all the same.
    """
    from evalwright.comparison.recordings import Recordings  # not to complete a command
    from evalwright.engine.suites.from_traces import RecordedSuite, TaskMaker, WantedRecordings
    from evalwright.engine.suites.recorded_worlds import RecordedWorlds
    from evalwright.store.location import open_existing_log

    stop_in_good_order()
    if out is not None:
        check_place(out)
        if out.exists():
            raise BadInput(f"--out {out}: already exists; name another file, or remove it first")
    recordings = Recordings(source, partial(open_existing_log, db))
    worlds = RecordedWorlds() if world else None
    maker = TaskMaker(masked=not show_secrets, with_system=with_system, worlds=worlds)
    suite = RecordedSuite(recordings.name, maker, WantedRecordings(failed_only, limit))
    is_json = out is not None and out.name.lower().endswith(".json")
    chunks = suite.as_json(recordings) if is_json else suite.as_yaml(recordings)
    if out is None:
        for chunk in chunks:
            write_stdout(chunk)
    else:
        write_file(out, chunks, is_private=show_secrets)
    if show_secrets:
        warn("secrets and personal data are NOT masked in the suite; do not pass it on")
    where = f" in {out}" if out else ""
    say(f"{recordings.name}: {suite.made:,} task{'' if suite.made == 1 else 's'}{where}")
    for note in suite.notes():
        say(without_secrets(note))
    return told_faults(recordings) and print_exit(2, UNREAD, aside=True)


UNREAD = "not everything could be read"


def told_faults(recordings: "Recordings") -> int:
    """Say what of a recording could not be read; the exit code for that."""
    for note in recordings.notes:
        say(without_secrets(note))
    if recordings.faults:
        count = f"{len(recordings.faults):,} of {recordings.count:,} records"
        say(without_secrets(f"{count} could not be read, for example {recordings.faults[0]}"))
    return 2 if recordings.faults else 0
