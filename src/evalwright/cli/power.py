"""`evalwright power`: how many tasks and repeats a suite needs."""

from pathlib import Path

import click

from evalwright.cli.output import Streams, echo, write_stdout
from evalwright.cli.parameters import db_option, json_option

EXAMPLES = """\b
Examples:
  evalwright power latest
  evalwright power main --detect 3 --repeat 5
  evalwright power suite.yaml --expect 0.9
"""


@click.command(epilog=EXAMPLES)
@click.argument("subject", metavar="SUITE|RUN|BASELINE")
@click.option(
    "--detect",
    type=click.FloatRange(0, 100, min_open=True),
    default=5.0,
    show_default=True,
    metavar="POINTS",
    help="The drop to find, in percentage points.",
)
@click.option(
    "--power",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    help="How often a drop of that size should be found.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="How often chance alone may look like a drop; the gate of `run` uses 0.05.",
)
@click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(1, 100),
    metavar="N",
    show_default="those of the run",
    help="Repeats on each side.",
)
@click.option(
    "--expect",
    type=click.FloatRange(0, 1),
    metavar="RATE",
    help="The pass rate to expect, for a suite that has not been run yet.",
)
@json_option
@db_option
def command(
    *,
    subject: str,
    detect: float,
    power: float,
    alpha: float,
    repeats: int | None,
    expect: float | None,
    as_json: bool,
    db: str | None,
) -> int:
    """Say how small a drop a suite finds, and how many tasks and repeats another one takes.

    By a run, or by all repeats of it, which knows how many tasks pass and which are flaky; or by a
    suite and the share of tasks that is expected to pass. Nothing is invoked.
    """
    import msgspec

    from evalwright.engine.power import PowerOptions, power_of_runs, power_of_suite
    from evalwright.engine.runs import log_for, run_file
    from evalwright.engine.suites.loader import read_subject
    from evalwright.reports.formats.console import Style
    from evalwright.reports.run.power import render_expected, render_power

    options = PowerOptions(detect, power, alpha, repeats, expect)
    path = Path(subject)
    if path.is_file() and run_file(subject) is None:
        reports = list(power_of_suite(read_subject(path, None).suite, options))
    else:
        with log_for(db, subject) as log:
            reports = [power_of_runs(log, subject, options)]
    if as_json:
        document = reports[0] if len(reports) == 1 else reports
        write_stdout(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        return 0
    render = render_power(reports[0], Style.of(Streams.out))
    if len(reports) > 1:
        render = render_expected(reports, Style.of(Streams.out))
    for line in render:
        echo(line, styled=True)
    return 0
