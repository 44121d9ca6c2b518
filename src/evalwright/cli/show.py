"""`evalwright show`: a run's scorecard, its failures in full, or its events."""

from typing import Any

import click

from evalwright.cli.parameters import (
    db_option,
    form_options,
    json_option,
    postgres_address,
    secrets_option,
    wanted_forms,
)
from evalwright.contracts.errors import BadInput, CannotEvaluate

EXAMPLES = """\b
Examples:
  evalwright show latest
  evalwright show latest --table
  evalwright show latest --task refund-window --full
  evalwright show latest --events --json > run.jsonl
  evalwright show latest --tasks --json > tasks.jsonl
  evalwright show latest --by-tag
  evalwright show latest --html run.html
"""


@click.command(epilog=EXAMPLES)
@click.argument("run", required=False)
@click.option("--events", "with_events", is_flag=True, help="Show the event log.")
@click.option("--task", "task_id", help="Show one task as a conversation, with its checks.")
@click.option("--table", "with_table", is_flag=True, help="Show what did not pass as a table.")
@click.option("--tasks", "with_tasks", is_flag=True, help="Show every task: checks, cost, latency.")
@click.option("--by-tag", "by_tag", is_flag=True, help="Show what the tasks of each tag came to.")
@click.option("--evidence", "with_evidence", is_flag=True, help="Show what its evidence is worth.")
@click.option("--full", is_flag=True, help="With --task: cut no text, leave out no step.")
@form_options("run", "Write a {title} report to this file.")
@secrets_option
@json_option
@db_option
def command(*, run: str | None, db: str | None, **given: Any) -> None:
    """Show RUN, by default the latest; of a group of repeats, all its runs.

    A run is named by its number, its id or the beginning of one, `latest`, `baseline`, the name of
    a baseline, or the folder that `run --out` wrote.

    With --json the summary alone is printed, with --events --json the log as JSON lines, with
    --tasks or --table a line of JSON for each of these tasks, with --by-tag --json an array with
    each tag. --events shows those of one task with --task.
    """
    if given["with_table"] and (given["with_tasks"] or given["with_events"] or given["task_id"]):
        raise BadInput("--table shows what failed; give it without --tasks, --task and --events")
    if given["with_tasks"] and (given["with_events"] or given["task_id"]):
        raise BadInput("--tasks shows every task; give it without --task and --events")
    if given["by_tag"] and (given["with_tasks"] or given["with_events"] or given["task_id"]):
        raise BadInput("--by-tag shows tags; give it without --tasks, --task and --events")
    if given.pop("with_evidence"):
        show_evidence(run, db, given)
        return
    from evalwright.cli.log_viewer import show_run  # completion and help need only the options

    try:
        show_run(run, db, wanted_forms("run", given), **given)
    except CannotEvaluate as error:
        if (address := postgres_address(db)) is not None:
            # Say that workers have the run, and what it waits for.
            from evalwright.engine.fleet.status import run_status
            from evalwright.engine.runs import LATEST, find_runs
            from evalwright.store.location import existing_log

            with existing_log(address) as log:
                for run_id in find_runs(log, run or LATEST):
                    if (found := run_status(address, log, run_id)) is not None:
                        error.add_note(found)
        raise


def show_evidence(run: str | None, db: str | None, given: dict[str, Any]) -> None:
    """Show what the evidence of a run is worth, and nothing else of it."""
    as_json = given.pop("as_json")
    given.pop("show_secrets")
    if any(given.values()):
        raise BadInput("--evidence shows what a run is worth; give it with --json or --db only")
    import msgspec

    from evalwright.cli.output import Streams, echo, write_stdout
    from evalwright.engine.runs import LATEST, log_for
    from evalwright.reports.formats.console import Style, wrapped
    from evalwright.reports.run.run_evidence import read_evidence
    from evalwright.signals.masking import mask_bytes

    with log_for(db, run) as log:
        found = read_evidence(log, run or LATEST)
    if as_json:
        document = mask_bytes(msgspec.json.encode(found), personal=False)
        write_stdout(msgspec.json.format(document, indent=2) + b"\n")
        return
    for name, sentence in found.lines():
        for line in wrapped(sentence, Style.of(Streams.out).width, f"{name:8} ", " " * 9):
            echo(line)
