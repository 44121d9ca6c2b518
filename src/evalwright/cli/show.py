"""`evalwright show`: a run's scorecard, its failures in full, or its events."""

from contextlib import suppress

import click
import msgspec

from evalwright.cli.output import Streams, say, tell, write_stdout
from evalwright.cli.parameters import db_option, json_option
from evalwright.cli.results import continued, failed_stories
from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.contracts.events import Event
from evalwright.contracts.summary import to_json
from evalwright.engine.history import History, read_history
from evalwright.engine.listing import find_run, is_live
from evalwright.engine.replay import project
from evalwright.reports.console import Style, one_line
from evalwright.reports.run.scorecard import (
    LIVE,
    MOST_FAILURES,
    agreement,
    render_outcome,
    render_story,
)
from evalwright.reports.run.stories import TaskStory, task_stories
from evalwright.store.location import existing_log
from evalwright.store.protocol import EventLog

EXAMPLES = """\b
Examples:
  evalwright show latest
  evalwright show latest --task refund-window
  evalwright show latest --events --json > run.jsonl
"""


@click.command(epilog=EXAMPLES)
@click.argument("run")
@click.option("--events", "with_events", is_flag=True, help="Show the event log.")
@click.option("--task", "task_id", help="Show one task: expectation, answer and events.")
@json_option
@db_option
def command(
    *, run: str, with_events: bool, task_id: str | None, as_json: bool, db: str | None
) -> None:
    """Show RUN (an id, the beginning of one, or `latest`).

    With --json the summary alone is printed, with --events --json the log as JSON lines.
    """
    with existing_log(db) as log:
        run_id = find_run(log, run)
        if with_events or task_id:
            _show_events(log, run_id, task_id, as_json=as_json)
        else:
            _show_result(log, continued(log, run_id), as_json=as_json)


def _show_result(log: EventLog, run_id: str, *, as_json: bool) -> None:
    history = read_history(log, run_id)
    try:
        outcome = project(history)
    except CannotEvaluate:
        if not as_json:
            _show_unscored(log, history)
        raise
    if as_json:
        write_stdout(to_json(outcome.summary))
        return
    card = render_outcome(
        outcome,
        failed_stories(log, outcome),
        Style.of(Streams.out),
        agreement=agreement(log, outcome),
        full=True,
    )
    tell(card, styled=True)


def _show_unscored(log: EventLog, history: History) -> None:
    """What went wrong in a run without a result; a damaged log is reported elsewhere."""
    stories: list[TaskStory] = []
    with suppress(msgspec.MsgspecError):
        stories = task_stories(history.plan.suite, log.read(history.run_id))
    failed = history.failure()
    unjudged = ((failed.error.details if failed else None) or {}).get("unjudged", {})
    for story in stories[:MOST_FAILURES]:
        lines = render_story(story, Style.of(Streams.out), full=True)
        if story.task.task_id in unjudged:
            lines.append(f"      judge     {one_line(unjudged[story.task.task_id], None)}")
        tell("\n".join([*lines, ""]), styled=True)


def _show_events(log: EventLog, run_id: str, task_id: str | None, *, as_json: bool) -> None:
    if is_live(log, run_id):
        say(LIVE)
    if task_id is not None:
        history = read_history(log, run_id)
        _require_task(history, task_id)
        if not as_json:
            _show_task(log, history, task_id)
    for event in log.read(run_id):
        if task_id is not None and event.task_id != task_id:
            continue
        if as_json:
            write_stdout(event.to_json() + b"\n")
        else:
            tell(_line(event))


def _require_task(history: History, task_id: str) -> None:
    suite = history.plan.suite
    if task_id not in {task.task_id for task in suite.tasks}:
        raise BadInput(f"the suite {suite.suite_id} has no task {task_id!r}")


def _show_task(log: EventLog, history: History, task_id: str) -> None:
    suite = history.plan.suite
    for story in task_stories(suite, log.read(history.run_id), {task_id}):
        tell("\n".join(render_story(story, Style.of(Streams.out), full=True)), styled=True)
        tell(f"      input     {one_line(story.task.input, None)}\n")


def _line(event: Event) -> str:
    task = f" [{event.task_id}]" if event.task_id else ""
    return f"{event.sequence:>6}  {event.type}{task}  {one_line(event.body.decode())}"
