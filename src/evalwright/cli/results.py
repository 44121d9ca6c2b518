"""What a run leaves for the user: scorecard, JSON, JUnit, a folder of files."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evalwright.cli.output import (
    Emit,
    check_place,
    make_folder,
    say,
    stderr,
    stdout,
    tell,
    write_file,
)
from evalwright.contracts.errors import RunFailed
from evalwright.contracts.summary import to_json
from evalwright.engine.execution import Outcome
from evalwright.engine.history import read_history
from evalwright.engine.listing import last_continuation
from evalwright.engine.session import reasons_against
from evalwright.reports.findings import STORY_TYPES, TaskStory, task_stories
from evalwright.reports.forms import renderer
from evalwright.reports.outcome import LIVE, agreement, render_outcome, shown_reasons
from evalwright.reports.repeats import render_repeats
from evalwright.reports.run.junit import FailedRun, ReportedRun
from evalwright.reports.scorecard import MOST_FAILURES
from evalwright.reports.style import Style
from evalwright.scoring.repeats import RepeatsReport, summarise_repeats
from evalwright.store.protocol import EventLog


class Results:
    """Where results are wanted."""

    def __init__(
        self, emit: Emit, *, as_json: bool, forms: Mapping[str, Path], out: Path | None, quiet: bool
    ) -> None:
        self.emit = emit
        self.as_json = as_json
        self.forms = forms
        self.out = out
        self.quiet = quiet

    def check_places(self) -> None:
        """Refuse, before the work begins, places that cannot be written to when it is done."""
        if self.out is not None:
            make_folder(self.out)
        for path in self.forms.values():
            check_place(path)


def write_results(results: Results, log: EventLog, outcomes: Sequence[Outcome]) -> int:
    """Write everything that was asked for; 0 if the run, or all its repeats, may ship."""
    told = [_Told(log, outcome, results) for outcome in outcomes]
    is_group = outcomes[0].plan.group is not None
    report = summarise_repeats([each.summary for each in outcomes]) if is_group else None
    if not results.quiet:
        _print(results, told, report)
    for name, path in results.forms.items():
        write_file(path, [renderer("run", name)([each.reported() for each in told])])
    if results.out is not None:
        for each in told:
            _write_folder(_folder(results.out, each.outcome), log, each)
    if results.as_json:
        summaries = [each.summary for each in outcomes]
        results.emit(to_json(summaries if is_group else summaries[0]))
    return 1 if reasons_against(outcomes) else 0


class _Told:
    """One run, with the stories of its failed tasks as far as they are wanted."""

    def __init__(self, log: EventLog, outcome: Outcome, results: Results) -> None:
        self.outcome = outcome
        self.stories: Sequence[TaskStory] = ()
        self.agreement = None if results.quiet and not results.out else agreement(log, outcome)
        if results.forms or results.out:
            self.stories = failed_stories(log, outcome)
        elif not results.quiet:
            self.stories = failed_stories(log, outcome, MOST_FAILURES)

    def card(self, style: Style, *, full: bool = False) -> str:
        """The scorecard."""
        return render_outcome(
            self.outcome, self.stories, style, agreement=self.agreement, full=full
        )

    def reported(self) -> ReportedRun:
        """What a report tells of it."""
        outcome = self.outcome
        return ReportedRun(
            outcome.run_id,
            outcome.summary,
            shown_reasons(outcome),
            self.stories,
            outcome.plan.is_live,
        )


def write_failure(results: Results, log: EventLog, failure: RunFailed) -> None:
    """Leave a report for a run without a result: to a CI system it is an error, not nothing."""
    for name, path in results.forms.items():
        run = FailedRun(failure.run_id, failure.code, str(failure))
        write_file(path, [renderer("run", name)([run])])
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


def _print(results: Results, told: Sequence[_Told], report: RepeatsReport | None) -> None:
    style = Style.of(stderr() if results.as_json else stdout())
    tell_all = say if results.as_json else tell
    if report is None:
        tell_all(told[0].card(style), styled=True)
        return
    reasons = reasons_against([each.outcome for each in told])
    lines = [*_deltas(told), *(f"  {style.red('✗')} {reason}" for reason in reasons)]
    lines += _frame(told[0].outcome, style, passed=not reasons)
    tell_all("\n".join([*render_repeats(report, style), *lines]), styled=True)


def _frame(outcome: Outcome, style: Style, *, passed: bool) -> list[str]:
    """The verdict on all repeats, and how to find them again."""
    verdict = style.green("PASSED") if passed else style.red("FAILED")
    summary, group = outcome.summary, outcome.plan.group
    assert group is not None
    live = [f"  {style.yellow(LIVE)}"] if outcome.plan.is_live else []
    return [
        f"{style.bold(verdict)}  {summary.suite_id}@{summary.suite_version}",
        *live,
        f"  {style.dim(group.id)}",
    ]


def _deltas(told: Sequence[_Told]) -> list[str]:
    """The change of each repeat against the baseline, where there is one."""
    changes = [each.outcome.summary.regression for each in told]
    deltas = [f"{change.score_delta:+.4g}" for change in changes if change is not None]
    baseline = told[0].outcome.plan.baseline
    return [f"  against {baseline.run_id}: score {', '.join(deltas)}"] if baseline else []


def _folder(out: Path, outcome: Outcome) -> Path:
    """Each repeat has a folder of its own."""
    group = outcome.plan.group
    if group is None:
        return out
    folder = out / f"repeat-{group.index}"
    make_folder(folder)
    return folder


def _write_folder(folder: Path, log: EventLog, told: _Told) -> None:
    card = told.card(Style(colour=False), full=True)
    write_file(folder / "summary.json", [to_json(told.outcome.summary)])
    write_file(folder / "events.jsonl", event_lines(log, told.outcome.run_id))
    write_file(folder / "scorecard.txt", [card.encode(), b"\n"])
