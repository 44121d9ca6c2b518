"""What a run leaves for the user: scorecard, JSON, JUnit, a folder of files."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import msgspec

from evalwright.cli.output import (
    Emit,
    Streams,
    check_place,
    echo,
    folder_for_results,
    make_folder,
    print_exit,
    say,
    without_secrets,
    write_file,
)
from evalwright.contracts.errors import BadInput, RunFailed
from evalwright.contracts.summary import to_json
from evalwright.engine.runs import LATEST, find_run, last_continuation
from evalwright.engine.session import reasons_against
from evalwright.engine.verdict import Outcome
from evalwright.reports.formats.ci import (
    NotedFile,
    append_step_summary,
    workflow_command,
)
from evalwright.reports.formats.console import Style, columns
from evalwright.reports.forms import FORMS_OF, renderer
from evalwright.reports.run.junit import FailedRun, Reported, ReportedSeveral
from evalwright.reports.run.reported import (
    ShownRun,
    failed_stories,
    render_group,
    reported_runs,
    tables_of,
    task_reader,
)
from evalwright.reports.run.scorecard import (
    MOST_FAILURES,
    agreement,
    render_outcome,
)
from evalwright.store.location import shown_db
from evalwright.store.protocol import EventLog

TELLING_FAILURES = frozenset({"junit", "codequality"})  # forms that need their stories


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """Where results are wanted."""

    emit: Emit
    as_json: bool
    forms: Mapping[str, Path]
    out: Path | None
    quiet: bool
    show_secrets: bool = False
    suite: Path | None = None  # the file that notes are made at
    github: bool = False
    summarised: bool = False  # on the page of a job

    def check_places(self) -> None:
        """Refuse, before the work begins, places that cannot be written to when it is done."""
        if self.out is not None:
            make_folder(self.out)
        taken: dict[str, str] = {}
        for name, path in self.forms.items():
            if (other := taken.setdefault(os.path.realpath(path), name)) != name:
                raise BadInput(f"--{name} {path}: --{other} is written there")
            check_place(path)

    @contextmanager
    def places(self) -> Iterator[None]:
        """The same for the length of the work; a folder that stays empty is gone after it."""
        with nullcontext() if self.out is None else folder_for_results(self.out):
            self.check_places()
            yield

    def ended(self, code: int, meaning: str = "") -> int:
        """Say with which exit code the command ends, where anything is to be said."""
        is_told = not self.quiet and (code != 0 or not self.as_json)
        return print_exit(code, meaning, aside=self.as_json) if is_told else code


def write_results(results: Results, log: EventLog, outcomes: Sequence[Outcome]) -> int:
    """Write everything that was asked for; 0 if the run, or all its repeats, may ship."""
    runs = show_results(results, log, outcomes)
    if results.forms or results.github or results.summarised:
        publish(results, reported(results, log, runs))
    if results.as_json:
        summaries = [each.summary for each in outcomes]
        results.emit(to_json(summaries[0] if outcomes[0].plan.group is None else summaries))
    return 1 if reasons_against(outcomes) else 0


def say_next(results: Results, log: EventLog, outcomes: Sequence[Outcome], db: str | None) -> None:
    """Say by which commands one goes on with a run that does not pass in everything."""
    plan, summaries = outcomes[0].plan, [each.summary for each in outcomes]
    if results.quiet or results.as_json or all(s.passed_count == s.task_count for s in summaries):
        return
    run = str(log.facts(outcomes[0].run_id).number) if plan.group is None else plan.group.id
    where = f" --db {shlex.quote(shown_db(db))}" if db else ""
    steps = [("See them", f"show {run} --table"), ("In full", f"show {run}")]
    if plan.baseline is not None and plan.group is None:
        steps.insert(
            1, ("What changed", f"compare {plan.baseline.name or plan.baseline.run_id} {run}")
        )
    steps.append(("In a browser", "view"))
    rows = [(words, f"evalwright {command}{where}") for words, command in steps]
    echo("\n".join(["", *(f"  {line}" for line in columns(rows, "<<"))]))


def publish(results: Results, runs: Sequence[Reported]) -> None:
    """Write the reports that are one file, and what a code host shows of the runs."""
    write_forms(results, runs)
    if not results.summarised and not results.github:
        return
    from evalwright.reports.run.pull_request import notes_on, render_step_summary

    if results.summarised:
        append_step_summary(render_step_summary(runs))
    if results.github:
        for note in notes_on(runs):
            (say if results.as_json else echo)(workflow_command(note))


def write_forms(results: Results, runs: Sequence[Reported]) -> None:
    """Write the reports that are one file."""
    for name, path in results.forms.items():
        write = renderer("run", name)
        if not FORMS_OF["run"][name].one_each:
            write_file(path, [write(runs)], is_private=results.show_secrets)
            continue
        # A page for each of several runs, and one that sets them side by side
        shown, count = list[Reported](), sum(not isinstance(run, ReportedSeveral) for run in runs)
        for run in runs:
            if isinstance(run, ReportedSeveral) or count == 1:
                shown.append(run)
                continue
            number = sum(not isinstance(each, ReportedSeveral) for each in shown) + 1
            place = path.with_name(f"{path.stem}-{number}{path.suffix}")
            write_file(place, [write([run])], is_private=results.show_secrets)
            shown.append(run if isinstance(run, FailedRun) else run._replace(page=place.name))
        write_file(path, [write(shown)], is_private=results.show_secrets)


def show_results(results: Results, log: EventLog, outcomes: Sequence[Outcome]) -> "list[ShownRun]":
    """Print the scorecard of a run, or of its repeats, and write the folder of each.

    What nobody wants to see is not read.
    """
    needs_all = not TELLING_FAILURES.isdisjoint(results.forms) or bool(
        results.out or results.github or results.summarised
    )
    with_stories = needs_all or not results.quiet
    most = None if needs_all else MOST_FAILURES
    with_agreement = bool(results.out or not results.quiet)
    runs = [
        ShownRun(
            outcome,
            failed_stories(log, outcome, most, show_secrets=results.show_secrets)
            if with_stories and outcome.summary.passed_count < outcome.summary.task_count
            else (),
            agreement(log, outcome) if with_agreement and outcome.plan.panel else None,
            tables_of(log, outcome),
        )
        for outcome in outcomes
    ]
    if not results.quiet:
        style = Style.of(Streams.err if results.as_json else Streams.out)
        numbers = [log.facts(each.outcome.run_id).number for each in runs]
        card = render_card(runs, style, number=numbers[0])
        (say if results.as_json else echo)(card, styled=True)
    if results.out is not None:
        for each in runs:
            write_folder(results.out, log, each, is_private=results.show_secrets)
    return runs


def render_card(
    runs: Sequence[ShownRun],
    style: Style,
    *,
    with_failures: bool = True,
    number: int | None = None,
) -> str:
    """What is said of a run, or of its repeats."""
    first = runs[0]
    if first.outcome.plan.group is not None:
        return render_group(runs, style)
    stories = first.stories if with_failures else None
    return render_outcome(
        first.outcome,
        stories,
        style,
        agreement=first.agreement,
        tables=first.tables,
        number=number,
    )


def reported(
    results: Results, log: EventLog, runs: Sequence[ShownRun], *, alone: bool = False
) -> list[Reported]:
    """A run, or its repeats, as the reports take it; they may read the log while it is open."""
    shown = reported_runs(log, runs, show_secrets=results.show_secrets, alone=alone)
    return [each._replace(file=suite_file(results)) for each in shown]


def suite_file(results: Results) -> NotedFile | None:
    """The file that notes are made at."""
    return None if results.suite is None else NotedFile(results.suite)


def write_failure(results: Results, log: EventLog, failure: RunFailed) -> None:
    """Leave a report for a run without a result: to a CI system it is an error, not nothing."""
    publish(results, [failed_run(results, log, failure.run_id, failure.code, str(failure))])
    if results.out is not None:
        write_file(results.out / "events.jsonl", event_lines(log, failure.run_id), is_private=True)


def failed_run(results: Results, log: EventLog, run_id: str, code: str, message: str) -> FailedRun:
    """A run without a result, as the reports take it."""
    shown = message if results.show_secrets else without_secrets(message)
    read = task_reader(log, run_id, show_secrets=results.show_secrets)
    return FailedRun(run_id, code, shown, read, suite_file(results))


def continued(log: EventLog, run_id: str) -> str:
    """The run to show: this one, or the last that continued it after it failed."""
    last = last_continuation(log, run_id)
    if last != run_id:
        say(f"run {run_id} failed and was continued by {last}, shown here")
    return last


def or_latest(log: EventLog, run: str | None) -> str:
    """The run that a user named; without a name the latest, and which that is."""
    if run is None:
        say(f"run {log.facts(find_run(log, LATEST)).number}, the latest")
    return run or LATEST


def event_lines(log: EventLog, run_id: str) -> Iterator[bytes]:
    """The log of a run as JSON lines."""
    for event in log.read(run_id):
        yield event.to_json() + b"\n"


def write_folder(out: Path, log: EventLog, run: ShownRun, *, is_private: bool) -> None:
    """The files of a run; each repeat has its own folder."""
    outcome, folder = run.outcome, out
    if outcome.plan.group is not None:
        folder = out / f"repeat-{outcome.plan.group.index}"
        make_folder(folder)
    outcome, stories, agreement, tables = run
    card = render_outcome(
        outcome, stories, Style(colour=False), agreement=agreement, full=True, tables=tables
    )
    write_file(folder / "summary.json", [to_json(outcome.summary)])
    write_file(folder / "events.jsonl", event_lines(log, outcome.run_id), is_private=True)
    write_file(folder / "scorecard.txt", [card.encode(), b"\n"], is_private=is_private)
