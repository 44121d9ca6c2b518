"""`evalwright baseline`: runs that others are compared with, by name."""

from pathlib import Path

import click
import msgspec

from evalwright.cli.output import Streams, echo, print_json, write_file
from evalwright.cli.parameters import db_option, json_option
from evalwright.contracts.documents import read_input
from evalwright.contracts.errors import BadInput
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.times import span_in_words
from evalwright.engine.baselines import (
    NamedBaseline,
    age_of,
    baselines_called,
    export_baselines,
    import_baselines,
    list_baselines,
    remove_baselines,
    set_baseline,
)
from evalwright.engine.runs import LATEST, log_for, read_agent, result_of
from evalwright.reports.formats.console import Style, columns, printable, wrapped
from evalwright.store.location import existing_log, opened_log
from evalwright.store.protocol import EventLog

EXAMPLES = """\b
Examples:
  evalwright baseline set main
  evalwright run suite.yaml --agent agent.py:answer --baseline main
  evalwright baseline export main.jsonl main     # in CI, keep it as an artifact
  evalwright baseline import main.jsonl
"""


@click.group(epilog=EXAMPLES)
def command() -> None:
    """Name the runs that others are compared with.

    A name belongs to a suite and an agent: `main` may be one run of each.
    """


@command.command("set")
@click.argument("name")
@click.argument("run", default=LATEST)
@click.option("--allow-partial", is_flag=True, help="Take a run of a part of its suite.")
@json_option
@db_option
def set_command(*, name: str, run: str, allow_partial: bool, as_json: bool, db: str | None) -> None:
    """Call RUN, by default the latest, NAME from now on."""
    with log_for(db, run) as log:
        named = set_baseline(log, name, run, allow_partial=allow_partial)
        told = f"{name}: {named.run_id} of {_of(log, named)}"
    if as_json:
        print_json(msgspec.to_builtins(named))
    else:
        echo(told)


@command.command("list")
@json_option
@db_option
def list_command(*, as_json: bool, db: str | None) -> None:
    """List all baselines."""
    with existing_log(db) as log:
        _show(log, list_baselines(log), as_json=as_json)


@command.command("show")
@click.argument("name")
@json_option
@db_option
def show_command(*, name: str, as_json: bool, db: str | None) -> None:
    """Show the runs that are called NAME."""
    with existing_log(db) as log:
        _show(log, baselines_called(log, name), as_json=as_json)


@command.command("rm")
@click.argument("name")
@click.option("--suite", help="Only the one of this suite.")
@click.option("--agent-id", help="Only the one of this agent.")
@db_option
def remove_command(*, name: str, suite: str | None, agent_id: str | None, db: str | None) -> None:
    """Forget NAME; the runs stay in the log."""
    with existing_log(db) as log:
        meant = baselines_called(log, name, suite, agent_id)
        remove_baselines(log, meant)
    echo(f"{name}: forgotten for {', '.join(suite_name(each.suite_id) for each in meant)}")


@command.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1)
@db_option
def export_command(*, file: Path, names: tuple[str, ...], db: str | None) -> None:
    """Write baselines with their runs to FILE: those of NAMES, or all."""
    with existing_log(db) as log:
        chosen = [each for name in names for each in baselines_called(log, name)]
        chosen = chosen if names else list_baselines(log)
        if not chosen:
            raise BadInput("there is no baseline; name a run with `evalwright baseline set`")
        write_file(file, export_baselines(log, chosen), is_private=True)
    echo(f"wrote {len(chosen)} {'baseline' if len(chosen) == 1 else 'baselines'} to {file}")


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@db_option
def import_command(*, file: Path, db: str | None) -> None:
    """Add the baselines of FILE and their runs to the log."""
    source = read_input(file)
    with opened_log(db) as log:
        added = import_baselines(log, source, str(file))
        told = [f"{each.name}: {each.run_id} of {_of(log, each)}" for each in added]
    echo("\n".join(told))


def _of(log: EventLog, named: NamedBaseline) -> str:
    return f"{suite_name(named.suite_id)}, {_agent(log, named)}"


def _agent(log: EventLog, named: NamedBaseline) -> str:
    agent = read_agent(log, named.run_id)
    return named.agent_id if agent is None else agent.name


def _show(log: EventLog, baselines: list[NamedBaseline], *, as_json: bool) -> None:
    rows = []
    for each in baselines:
        facts = log.facts(each.run_id)
        age = span_in_words(age_of(log, each.run_id))
        rows.append((each, facts.score, facts.passed, result_of(log, facts), age))
    if as_json:
        print_json(
            [
                {**msgspec.to_builtins(each), "aggregateScore": score, "passed": passed, "age": age}
                for each, score, passed, _, age in rows
            ]
        )
        return
    style = Style.of(Streams.out)
    cells = [
        (each.name, suite_name(each.suite_id), _agent(log, each), each.run_id) for each in baselines
    ]
    heads = columns(cells, "<~~<", style.width)
    for (_, score, _, verdict, age), head in zip(rows, heads, strict=True):
        known = "" if score is None else f"score {score:.4g}, {verdict}, "
        told = wrapped(f"{known}{age} old", style.width, "  ", "  ")
        echo("\n".join([printable(head), *map(style.dim, told)]), styled=True)
    if not rows:
        echo("there is no baseline; name a run with `evalwright baseline set NAME`")
