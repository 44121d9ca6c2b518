"""`evalwright replay`: a run's summary again, from its log alone."""

import click

from evalwright.cli.output import Streams, echo, say, write_stdout
from evalwright.cli.parameters import db_option, json_option, secrets_option
from evalwright.cli.results import continued, or_latest
from evalwright.contracts.summary import to_json
from evalwright.engine.replay import replay_run
from evalwright.engine.runs import find_run, log_for
from evalwright.reports.formats.console import Style
from evalwright.reports.run.reported import failed_stories, tables_of
from evalwright.reports.run.scorecard import agreement, overrides_of, render_outcome


@click.command(epilog="Example: evalwright replay latest --json")
@click.argument("run", required=False)
@secrets_option
@json_option
@db_option
def command(*, run: str | None, show_secrets: bool, as_json: bool, db: str | None) -> None:
    """Rebuild the summary of RUN, by default the latest, from its event log.

    No agent is invoked and no model is called. The summary must equal the recorded one byte for
    byte; otherwise the log is reported as damaged (exit 3).
    """
    with log_for(db, run) as log:
        outcome = replay_run(log, continued(log, find_run(log, or_latest(log, run))))
        stories = [] if as_json else failed_stories(log, outcome, show_secrets=show_secrets)
        agreed = None if as_json else agreement(log, outcome)
        overrides = [] if as_json else overrides_of(log, outcome)
        tables = () if as_json else tables_of(log, outcome)
    if as_json:
        write_stdout(to_json(outcome.summary))
        return
    style = Style.of(Streams.out)
    card = render_outcome(
        outcome, stories, style, agreement=agreed, overrides=overrides, tables=tables
    )
    echo(card, styled=True)
    say("replayed from the log; the summary equals the recorded one")
