"""`evalwright calibrate`: how good is the judge?"""

from pathlib import Path

import click

from evalwright.cli.output import Streams, check_place, echo, say, write_file, write_stdout
from evalwright.cli.parameters import db_option, json_option
from evalwright.contracts.errors import CannotEvaluate

EXAMPLES = """\b
Examples:
  evalwright calibrate latest --next 50 --out labels.csv
  evalwright calibrate latest --labels labels.csv
  evalwright calibrate 14 --labels labels.csv --labels-of 12
"""


@click.command(epilog=EXAMPLES)
@click.argument("run")
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Labels of people, as CSV or JSON lines: taskId, passed, and perhaps criterion and "
    "reviewer. Reviews on the pages of the run count, too.",
)
@click.option(
    "--labels-of",
    metavar="RUN",
    help="The labels are of this run, which the same judge judged.",
)
@click.option(
    "--next",
    "wanted",
    type=click.IntRange(1),
    metavar="N",
    help="Choose so many tasks to label next, and write them as CSV.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the chosen tasks to this file; by default to stdout.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the choice of tasks.")
@json_option
@db_option
def command(
    *,
    run: str,
    labels: Path | None,
    labels_of: str | None,
    wanted: int | None,
    out: Path | None,
    seed: int,
    as_json: bool,
    db: str | None,
) -> int:
    """Say how good the judges of RUN are by what people say, and correct its pass rate by that.

    Nobody is asked: judges have said what they said, and people too, in FILE or on the pages of
    the run.
    """
    import msgspec

    from evalwright.engine.calibration import (
        calibrate,
        choose_next,
        labels_in_log,
        read_labels,
    )
    from evalwright.engine.runs import find_run, log_for
    from evalwright.reports.formats.console import Style
    from evalwright.reports.run.calibration import next_as_csv, render_calibration
    from evalwright.signals.masking import mask_bytes

    if out is not None:
        check_place(out)
    given = read_labels(labels) if labels else []
    with log_for(db, run, labels_of) as log:
        run_id = find_run(log, run)
        source = find_run(log, labels_of) if labels_of else None
        said = [*labels_in_log(log, source or run_id), *given]
        if wanted is not None:
            chosen = choose_next(log, run_id, said, wanted, seed)
            document = next_as_csv(log, run_id, chosen)
            if out is None:
                write_stdout(document)
            else:
                write_file(out, [document])
                say(f"{len(chosen):,} tasks to label in {out}")
            return 0
        report = calibrate(log, run_id, said, source)
    document = mask_bytes(msgspec.json.encode(report), personal=False)
    report = msgspec.json.decode(document, type=type(report))
    if as_json:
        write_stdout(msgspec.json.format(document, indent=2) + b"\n")
    else:
        for line in render_calibration(report, Style.of(Streams.out)):
            echo(line, styled=True)
    if not report.labels:
        raise CannotEvaluate("no task has a label: choose some with --next, and name their file")
    return 0
