"""Parameters that several commands share."""

import math
import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from evalwright.cli.output import warn
from evalwright.contracts.run_plan import MAX_JUDGE_SAMPLES, SCORING_S, FailOn
from evalwright.reports.forms import FORMS_OF, Subject

if TYPE_CHECKING:
    from evalwright.models.config import Config

_DURATION = re.compile(r"(?P<count>[0-9]{1,9})(?P<unit>[smhdw])")
_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}

_Command = TypeVar("_Command", bound=Callable[..., Any])


def configured_db(given: str | None, config: "Config | None" = None) -> str | None:
    """The database that the settings name, unless the command line or the environment does."""
    if given is not None or os.environ.get("EVALWRIGHT_DB"):
        return given
    from evalwright.models.config import load_config

    return (config or load_config()).run.db


def postgres_address(db: str | None) -> str | None:
    """The address of the log, if it is in PostgreSQL."""
    address = db or os.environ.get("EVALWRIGHT_DB") or ""
    return address if address.startswith(("postgresql://", "postgres://")) else None


def fleet_address(db: str | None) -> str:
    """The address of the database that workers share; raises `BadInput` for any other log."""
    address = postgres_address(db)
    if address is None:
        from evalwright.contracts.errors import BadInput

        raise BadInput("workers share a log in PostgreSQL: name it with --db postgresql://…")
    return address


_DB_HELP = (
    "The event log: a file, sqlite:///path, or postgresql://user@host/database. Default: "
    "$EVALWRIGHT_DB, `db` of the settings file, or a file in the data folder."
)
db_option = click.option(
    "--db",
    metavar="URL",
    callback=lambda _context, _parameter, given: configured_db(given),
    help=_DB_HELP,
)
plain_db_option = click.option("--db", metavar="URL", help=_DB_HELP)  # of those that read settings
config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar="EVALWRIGHT_CONFIG",
    show_envvar=True,
    help="The only settings file to read; by default your own, and the nearest evalwright.toml in "
    "this folder or above, as far as you trust it.",
)
jobs_option = click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    metavar="N",
    show_default="one for each core, at most 8",
    help="How many processes work on it; what comes out is the same for any number.",
)
on_option = click.option(
    "--on",
    type=click.Choice(["ray"]),
    help="Work on a Ray cluster instead (evalwright[ray]); its machines must see the same files.",
)
secrets_option = click.option(
    "--show-secrets", is_flag=True, help="Do not mask secrets in answers and errors."
)
tags_option = click.option(
    "--tag", "tags", multiple=True, help="A tag for the run; may be given several times."
)
judge_samples_option = click.option(
    "--judge-samples",
    type=click.IntRange(1, MAX_JUDGE_SAMPLES),
    show_default="1",
    help="How often each judge is asked about an answer.",
)
cassette_option = click.option(
    "--cassette",
    type=click.Path(),
    help="Answer model calls from this file, without a network.",
)
record_option = click.option(
    "--record",
    is_flag=True,
    help="Make calls that are missing from the cassette, and add them.",
)
fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(get_args(FailOn)),
    multiple=True,
    help="What makes the exit code 1; may be given several times.  [default: threshold; in an "
    "adversarial run also findings; with a baseline also regression]",
)
out_option = click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write summary.json, events.jsonl and scorecard.txt to this folder.",
)
github_option = click.option(
    "--github", is_flag=True, help="Print what failed as annotations of a pull request."
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")


class _AboveZero(click.FloatRange):
    """A limit: a finite number above 0."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Refuse infinity and NaN."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number of {self.name}.", param, ctx)
        return float(super().convert(number, param, ctx))


class _Seconds(_AboveZero):
    """A time limit."""

    name = "seconds"


class _Dollars(_AboveZero):
    """A limit of cost, in US dollars."""

    name = "dollars"


SECONDS = _Seconds(min=0, min_open=True)
DOLLARS = _Dollars(min=0, min_open=True)
model_timeout_option = click.option(
    "--model-timeout",
    "model_timeout_s",
    type=SECONDS,
    help="Seconds for one attempt to ask a model, whatever a settings file says.",
)
scoring_timeout_option = click.option(
    "--scoring-timeout",
    "scoring_s",
    type=SECONDS,
    show_default=f"{SCORING_S:g}, or what a settings file says",
    help="Seconds that the checks of one long answer may take.",
)


def chosen_config(path: Path | None) -> "Config":
    """The configuration of a command; what of it is ignored is said here, once."""
    from evalwright.models.config import load_config

    config = load_config(named=path)
    for notice in config.notices:
        warn(notice)
    return config


def duration(text: str) -> timedelta:
    """The span that the user named; raises `BadParameter` for any other text."""
    span = parse_duration(text)
    if span is None:
        raise click.BadParameter(f"{text!r} is not a duration; write 12h, 90d or 2w.")
    return span


def parse_duration(text: str) -> timedelta | None:
    """The span that a text such as 12h, 90d or 2w means; None for any other text."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    try:
        return int(found["count"]) * _UNITS[found["unit"]]
    except OverflowError:
        return None


def form_options(subject: Subject, help_text: str) -> Callable[[_Command], _Command]:
    """An option per form of a subject, with its `{title}` in the help text."""

    def with_options(command: _Command) -> _Command:
        for form in reversed(FORMS_OF[subject].values()):
            about = help_text.format(title=form.title)
            path = click.Path(path_type=Path)
            command = click.option(f"--{form.name}", type=path, help=about)(command)
        return command

    return with_options


def wanted_forms(subject: Subject, given: dict[str, Any]) -> dict[str, Path]:
    """The forms that were asked for, and where to write them; taken out of the options."""
    asked = {name: given.pop(name) for name in FORMS_OF[subject]}
    return {name: path for name, path in asked.items() if path is not None}
