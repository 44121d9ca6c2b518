"""`evalwright score`: recorded traces, scored by a suite as they are."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from evalwright.cli.output import in_words, say, stop_in_good_order, without_secrets
from evalwright.cli.rescore import (
    held_to_whole,
    partial_option,
    run_rescore,
    scoring_options,
    scoring_request,
)
from evalwright.cli.tasks import UNREAD, told_faults
from evalwright.comparison.recordings import Recordings
from evalwright.engine.recorded_traces import RECORDED_AGENT, ScoreRequest, plan_score
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
@partial_option("trace")
@click.option(
    "--agent-id",
    metavar="ID",
    default=RECORDED_AGENT,
    show_default=True,
    help="Whose traces they are.",
)
@scoring_options(
    judges="A model that judges answers; may be given several times.",
    embeddings="A model of embeddings, for checks by meaning.",
)
def command(
    *,
    traces: str,
    suite: Path,
    tasks: tuple[str, ...],
    tagged: tuple[str, ...],
    allow_partial: bool,
    agent_id: str,
    **given: Any,
) -> int:
    """Score the answers in TRACES by a suite, as they are, and print the scorecard.

    TRACES is a file in any format that `compare` reads, a run directory, or a run. No agent is
    invoked. A trace belongs to the task whose id is its case id, else to the one whose input is
    what the user asked; several traces of a task are its repetitions. The result is a new run,
    which names TRACES as its source.

    Exit code 1 also when tasks of the suite have no trace, 2 when a record could not be read,
    whatever the others scored.
    """
    from evalwright.engine.suites.from_traces import scored_subject

    request = scoring_request(suite, given)
    stop_in_good_order()
    with request.results.places():
        recordings = Recordings(traces, partial(open_existing_log, request.db))
        subject, usable, has_own = scored_subject(suite, recordings, tasks, tagged)
        planned = plan_score(
            ScoreRequest(subject, str(suite), recordings.name, request.options, agent_id, has_own),
            usable,
        )
        planned = held_to_whole(planned, "trace", allow_partial=allow_partial)
        if recordings.faults:
            unread = f"{len(recordings.faults):,} of {recordings.count:,} records could not be read"
            planned = planned.lacking(*planned.plan.lacking, unread)
        for notice in () if request.results.quiet else (*subject.notices, *planned.notices):
            say(without_secrets(in_words(notice)))
        with opened_log(request.db) as log:
            code = run_rescore(request, log, planned)
    code, unread = max(code, told_faults(recordings)), UNREAD if recordings.faults else ""
    return request.results.ended(code, unread)
