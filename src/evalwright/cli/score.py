"""`evalwright score`: recorded traces, scored by a suite as they are."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from evalwright.cli.evaluation import RunRequest
from evalwright.cli.output import (
    reserve_stdout,
    say,
    stop_in_good_order,
    without_secrets,
    write_stdout,
)
from evalwright.cli.parameters import (
    cassette_option,
    config_option,
    db_option,
    fail_on_option,
    form_options,
    json_option,
    judge_samples_option,
    model_timeout_option,
    out_option,
    quiet_option,
    record_option,
    secrets_option,
    tags_option,
    wanted_forms,
)
from evalwright.cli.rescore import run_rescore
from evalwright.cli.results import Results
from evalwright.cli.tasks import told_faults
from evalwright.comparison.recordings import Recordings
from evalwright.contracts.planning import RunOptions
from evalwright.engine.plan import refuse_combinations
from evalwright.engine.recorded_traces import RECORDED_AGENT
from evalwright.engine.trace_scoring import ScoreRequest, plan_score
from evalwright.store.location import open_existing_log, opened_log

EXAMPLES = """\b
Examples:
  evalwright score traces.jsonl --suite evals.yaml
  evalwright score incident.otlp.json --suite policy.yaml --html incident.html
  evalwright score traces.jsonl --suite evals.yaml --tagged smoke --judge openai:gpt-4.1-mini
"""


@click.command(epilog=EXAMPLES)
@click.argument("traces", metavar="TRACES", type=click.Path())
@click.option(
    "--suite",
    required=True,
    type=click.Path(path_type=Path),
    help="The suite to score by. One without tasks applies its defaults to every trace.",
)
@click.option(
    "--task",
    "tasks",
    metavar="GLOB",
    multiple=True,
    help="Score only tasks whose id fits, for example 'order-*'; may be given several times.",
)
@click.option(
    "--tagged",
    metavar="TAG",
    multiple=True,
    help="Score only tasks with this tag; may be given several times.",
)
@click.option(
    "--allow-partial", is_flag=True, help="Tasks without a trace do not make the exit code 1."
)
@click.option(
    "--agent-id",
    metavar="ID",
    default=RECORDED_AGENT,
    show_default=True,
    help="Whose traces they are.",
)
@tags_option
@click.option(
    "--judge",
    "judges",
    metavar="NAME",
    multiple=True,
    help="A model that judges answers; may be given several times.",
)
@judge_samples_option
@model_timeout_option
@click.option(
    "--embedding-model", metavar="NAME", help="A model of embeddings, for checks by meaning."
)
@cassette_option
@record_option
@fail_on_option
@form_options("run", "Write a {title} report to this file.")
@out_option
@quiet_option
@secrets_option
@json_option
@config_option
@db_option
def command(
    *,
    traces: str,
    suite: Path,
    tasks: tuple[str, ...],
    tagged: tuple[str, ...],
    allow_partial: bool,
    agent_id: str,
    out: Path | None,
    quiet: bool,
    show_secrets: bool,
    as_json: bool,
    config: Path | None,
    db: str | None,
    **given: Any,
) -> int:
    """Score the answers in TRACES by a suite, as they are, and print the scorecard.

    TRACES is a file in any format that `compare` reads, a run directory, or a run. No agent is
    invoked. A trace belongs to the task whose id is its case id, else to the one whose input is
    what the user asked; several traces of a task are its repetitions. The result is a new run,
    which names TRACES as its source.

    Exit code 1 also when tasks of the suite have no trace, 2 when a record could not be read.
    """
    from evalwright.engine.recorded_subject import scored_subject

    forms = {name: path.absolute() for name, path in wanted_forms("run", given).items()}
    options = RunOptions(**given)
    refuse_combinations(options)
    results = Results(
        emit=reserve_stdout() if as_json else write_stdout,
        as_json=as_json,
        forms=forms,
        out=out and out.absolute(),
        quiet=quiet,
        show_secrets=show_secrets,
    )
    stop_in_good_order()
    request = RunRequest(
        suite=suite, agent=None, options=options, results=results, db=db, config=config
    )
    with results.places():
        recordings = Recordings(traces, partial(open_existing_log, db))
        subject, usable, has_own = scored_subject(suite, recordings, tasks, tagged)
        planned = plan_score(
            ScoreRequest(subject, str(suite), recordings.name, options, agent_id, has_own), usable
        )
        for notice in () if quiet else (*subject.notices, *planned.notices):
            say(without_secrets(notice))
        with opened_log(db) as log:
            code = run_rescore(request, log, planned)
    return _exit_code(code, planned.missing, recordings, allow_partial=allow_partial)


def _exit_code(
    code: int, missing: tuple[str, ...], recordings: Recordings, *, allow_partial: bool
) -> int:
    """That of the scores, unless something was not there to be scored."""
    unread = told_faults(recordings)
    if code == 0 and missing and not allow_partial:
        count = f"{len(missing):,} task{' has' if len(missing) == 1 else 's have'}"
        say(f"{count} no trace, so this is no pass; --allow-partial accepts that")
        code = 1
    return code or unread
