"""What a run leaves for the user: scorecard, JSON, JUnit, a folder of files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from evalwright.cli.output import Emit, say, stderr, stdout, tell, write_file
from evalwright.contracts.errors import RunFailed
from evalwright.contracts.summary import to_json
from evalwright.engine.execution import Outcome
from evalwright.engine.history import read_history
from evalwright.engine.listing import last_continuation
from evalwright.reports.findings import STORY_TYPES, TaskStory, task_stories
from evalwright.reports.junit import render_junit, render_junit_failure
from evalwright.reports.scorecard import MOST_FAILURES, render_scorecard
from evalwright.reports.style import Style
from evalwright.store.protocol import EventLog


class Results:
    """Where results are wanted."""

    def __init__(
        self, emit: Emit, *, as_json: bool, junit: Path | None, out: Path | None, quiet: bool
    ) -> None:
        self.emit = emit
        self.as_json = as_json
        self.junit = junit
        self.out = out
        self.quiet = quiet


def write_results(results: Results, log: EventLog, outcome: Outcome) -> None:
    """Write everything that was asked for."""
    stories: Sequence[TaskStory] = ()
    if results.junit or results.out:
        stories = failed_stories(log, outcome)
    elif not results.quiet:
        stories = failed_stories(log, outcome, MOST_FAILURES)
    if not results.quiet:
        _print_scorecard(results, outcome, stories)
    if results.junit is not None:
        report = render_junit(outcome.run_id, outcome.summary, outcome.broken_bars, stories)
        write_file(results.junit, [report])
    if results.out is not None:
        _write_folder(results.out, log, outcome, stories)
    if results.as_json:
        results.emit(to_json(outcome.summary))


def write_failure(results: Results, log: EventLog, failure: RunFailed) -> None:
    """Leave a report for a run without a result: to a CI system it is an error, not nothing."""
    if results.junit is not None:
        write_file(
            results.junit, [render_junit_failure(failure.run_id, failure.code, str(failure))]
        )
    if results.out is not None:
        write_file(results.out / "events.jsonl", event_lines(log, failure.run_id))


def continued(log: EventLog, run_id: str) -> str:
    """The run that stands for this one: itself, or the last that continued it after it failed."""
    last = last_continuation(log, run_id)
    if last != run_id:
        say(f"run {run_id} failed and was continued by {last}, shown here")
    return last


def failed_stories(log: EventLog, outcome: Outcome, most: int | None = None) -> list[TaskStory]:
    """The tasks that did not pass, or the first of them."""
    failed = [result.task_id for result in outcome.summary.tasks if not result.passed][:most]
    if not failed:
        return []
    suite = read_history(log, outcome.run_id).plan.suite
    return task_stories(suite, log.read(outcome.run_id, STORY_TYPES), set(failed))


def event_lines(log: EventLog, run_id: str) -> Iterator[bytes]:
    """The log of a run as JSON lines."""
    for event in log.read(run_id):
        yield event.to_json() + b"\n"


def _print_scorecard(results: Results, outcome: Outcome, stories: Sequence[TaskStory]) -> None:
    stream = stderr() if results.as_json else stdout()
    card = render_scorecard(
        outcome.run_id, outcome.summary, outcome.broken_bars, stories, Style.of(stream)
    )
    (say if results.as_json else tell)(card, styled=True)


def _write_folder(
    folder: Path, log: EventLog, outcome: Outcome, stories: Sequence[TaskStory]
) -> None:
    plain = Style(colour=False)
    card = render_scorecard(
        outcome.run_id, outcome.summary, outcome.broken_bars, stories, plain, full=True
    )
    write_file(folder / "summary.json", [to_json(outcome.summary)])
    write_file(folder / "events.jsonl", event_lines(log, outcome.run_id))
    write_file(folder / "scorecard.txt", [card.encode(), b"\n"])
