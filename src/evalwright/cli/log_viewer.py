"""What of a run is shown: its scorecard, its failures in full, its tasks, its events."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import UNSET

from evalwright.cli.output import (
    Streams,
    echo,
    in_words,
    print_json,
    room,
    say,
    without_secrets,
    write_stdout,
)
from evalwright.cli.results import (
    TELLING_FAILURES,
    Results,
    continued,
    failed_run,
    or_latest,
    reported,
    write_forms,
)
from evalwright.contracts.coverage import coverage_in_words
from evalwright.contracts.errors import BadInput, CannotEvaluate, RunFailed
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.summary import to_json
from evalwright.engine.history import History, read_history
from evalwright.engine.replay import project
from evalwright.engine.runs import find_runs, is_live, log_for
from evalwright.engine.task_names import TaskNames
from evalwright.reports.formats.console import Style, one_line, wrapped
from evalwright.reports.run.junit import FailedRun
from evalwright.reports.run.reported import (
    ShownRun,
    failed_stories,
    render_group,
    tables_of,
    task_reader,
)
from evalwright.reports.run.scorecard import (
    LIVE,
    MOST_FAILURES,
    agreement,
    overrides_of,
    render_outcome,
    render_story,
)
from evalwright.reports.run.stories import STORY_TYPES, TaskStory, mask_stories, task_stories
from evalwright.reports.run.task_records import read_task
from evalwright.store.protocol import EventLog

_WHOLE = 1_000_000  # characters of a payload


def show_run(
    run: str | None,
    db: str | None,
    forms: dict[str, Path],
    *,
    with_events: bool,
    task_id: str | None,
    full: bool,
    with_tasks: bool,
    with_table: bool,
    by_tag: bool,
    as_json: bool,
    show_secrets: bool,
) -> None:
    """Show the parts of a run that are wanted, and write its reports."""
    results = Results(
        emit=write_stdout,
        as_json=as_json,
        forms=forms,
        out=None,
        quiet=False,
        show_secrets=show_secrets,
    )
    with results.places(), log_for(db, run) as log:
        run_ids = find_runs(log, or_latest(log, run))
        viewer = LogViewer(log, as_json=as_json, show_secrets=show_secrets, full=full)
        if with_events or task_id:
            for number, run_id in enumerate(run_ids, 1):
                if len(run_ids) > 1 and not as_json:
                    title = f"run {number} of {len(run_ids)}  {run_id}"
                    echo(Style.of(Streams.out).bold(title), styled=True)
                viewer.events(run_id, task_id, is_listed=with_events or as_json)
        if with_tasks or with_table or by_tag or results.forms or not (with_events or task_id):
            histories = [read_history(log, continued(log, run_id)) for run_id in run_ids]
            if results.forms:
                write_reports(results, log, histories)
            if with_tasks or with_table:
                viewer.tasks(histories, only_failed=with_table)
            elif by_tag:
                viewer.tags(histories)
            elif as_json or not results.forms:
                viewer.result(histories[0]) if len(histories) == 1 else viewer.group(histories)
            for history in histories:
                project(history)  # one without a result ends with its exit code


def write_reports(results: Results, log: EventLog, histories: Sequence[History]) -> None:
    """Write the reports of runs that are one file each; one without a result has none in it."""
    runs: list[ShownRun] = []
    failed: list[FailedRun] = []
    for history in histories:
        try:
            outcome = project(history)
        except CannotEvaluate as error:
            code = error.code if isinstance(error, RunFailed) else "incomplete"
            failed.append(failed_run(results, log, history.run_id, code, str(error)))
            continue
        stories: list[TaskStory] = []
        if not TELLING_FAILURES.isdisjoint(results.forms):  # other forms tell of all tasks
            stories = failed_stories(log, outcome, show_secrets=results.show_secrets)
        runs.append(ShownRun(outcome, stories, None, tables_of(log, outcome)))
    shown = reported(results, log, runs, alone=len(histories) == 1)
    write_forms(results, [*shown, *failed])


class LogViewer:
    """What is shown of the runs of a log, with secrets or without."""

    def __init__(self, log: EventLog, *, as_json: bool, show_secrets: bool, full: bool) -> None:
        self._log = log
        self._as_json = as_json
        self._show_secrets = show_secrets
        self._full = full  # of a task, however long it is

    def result(self, history: History) -> None:
        """The scorecard of a run, or its summary."""
        try:
            outcome = project(history)
        except CannotEvaluate:
            if not self._as_json:
                self._unscored(history)
            raise
        if self._as_json:
            write_stdout(to_json(outcome.summary))
            return
        card = render_outcome(
            outcome,
            failed_stories(self._log, outcome, show_secrets=self._show_secrets),
            Style.of(Streams.out),
            agreement=agreement(self._log, outcome),
            full=True,
            overrides=overrides_of(self._log, outcome),
            tables=tables_of(self._log, outcome),
            number=self._log.facts(outcome.run_id).number,
        )
        echo(card, styled=True)

    def group(self, histories: Sequence[History]) -> None:
        """The scorecard of repeats, or their summaries; runs without a result are told apart."""
        outcomes = []
        for history in histories:
            try:
                outcomes.append(project(history))
            except CannotEvaluate as error:
                say(f"run {history.run_id} has no result: {without_secrets(in_words(error))}")
        if self._as_json:
            write_stdout(to_json([each.summary for each in outcomes]))
        elif outcomes:
            shown = [ShownRun(each, (), None) for each in outcomes]
            echo(render_group(shown, Style.of(Streams.out), full=True), styled=True)

    def tasks(self, histories: Sequence[History], *, only_failed: bool) -> None:
        """The tasks of a run, as far as it came; of repeats, with which of them it is of."""
        from evalwright.reports.run.task_tables import render_failed, render_tasks, task_lines

        style, several = Style.of(Streams.out), len(histories) > 1
        for number, history in enumerate(histories, 1):
            read = task_reader(self._log, history.run_id, show_secrets=self._show_secrets)
            records = [task.record for task in read().tasks]
            if self._as_json:
                which = {"runId": history.run_id, "repeat": number} if several else {}
                wanted = [each for each in records if not (only_failed and each.passed)]
                write_stdout(b"".join(task_lines(wanted, which)))
                continue
            if several:
                space = "\n" if number > 1 else ""
                title = f"run {number} of {len(histories)}  {history.run_id}"
                echo(f"{space}{style.bold(title)}", styled=True)
            render = render_failed if only_failed else render_tasks
            echo(render(records, style), styled=True)

    def tags(self, histories: Sequence[History]) -> None:
        """What the tasks of each tag came to, in each of the runs."""
        from evalwright.reports.run.tag_table import render_tags, tag_rows

        outcomes = [project(history) for history in histories]
        if self._as_json:
            found = [tag_rows(outcome) for outcome in outcomes]
            print_json(found[0] if len(found) == 1 else found)
            return
        for number, outcome in enumerate(outcomes, 1):
            if len(outcomes) > 1:
                echo(f"run {number}  {outcome.run_id}")
            echo(render_tags(outcome, Style.of(Streams.out)), styled=True)

    def _unscored(self, history: History) -> None:
        """What went wrong in a run without a result; a damaged log is reported elsewhere."""
        stories: list[TaskStory] = []
        with suppress(msgspec.MsgspecError):
            events = self._log.read(history.run_id, STORY_TYPES)
            stories = task_stories(history.plan.suite, events)
        failed = history.failure()
        unjudged = ((failed.error.details if failed else None) or {}).get("unjudged", {})
        for story in self._masked(stories[:MOST_FAILURES]):
            lines = render_story(story, Style.of(Streams.out))
            if story.task.task_id in unjudged:
                reason = one_line(unjudged[story.task.task_id], None)
                shown = reason if self._show_secrets else without_secrets(reason)
                lines.append(f"      judge     {shown}")
            echo("\n".join([*lines, ""]), styled=True)

    def _masked(self, stories: list[TaskStory]) -> list[TaskStory]:
        return stories if self._show_secrets or not stories else mask_stories(stories)

    def events(self, run_id: str, task_id: str | None, *, is_listed: bool) -> None:
        """The events of a run, or a task of it and perhaps its events."""
        if is_live(self._log, run_id):
            say(LIVE)
        if task_id is not None:
            history = read_history(self._log, run_id)
            suite = history.plan.suite
            meant = TaskNames.of_tasks(suite.tasks).find(task_id)
            if meant is None:
                raise BadInput(f"the suite {suite_name(suite.suite_id)} has no task {task_id!r}")
            task_id = meant
            if not self._as_json:
                self._task(history, task_id)
        for event in self._log.read(run_id) if is_listed else ():
            if task_id is not None and event.task_id != task_id:
                continue
            if self._show_secrets:
                shown = event
            else:
                from evalwright.signals.masking import mask_bytes

                shown = msgspec.structs.replace(event, body=mask_bytes(event.body, personal=False))
            if self._as_json:
                write_stdout(shown.to_json() + b"\n")
            else:
                task = f" [{shown.task_id}]" if shown.task_id else ""
                line = f"{shown.sequence:>6}  {shown.type}{task}  {one_line(shown.body.decode())}"
                echo("\n".join(wrapped(line, room(), hanging=" " * 8)), styled=True)

    def _task(self, history: History, task_id: str) -> None:
        """What a task is called and came to, its conversation, and what its checks say."""
        from evalwright.reports.run.conversation import conversation_of
        from evalwright.reports.run.evidence import evident_findings
        from evalwright.reports.run.transcript import render_transcript

        style, plan = Style.of(Streams.out), history.plan
        events = [event for event in self._log.read(history.run_id) if event.task_id == task_id]
        for story in self._masked(task_stories(plan.suite, events, {task_id})):
            read, masked = read_task(story.task, events, plan.agent)
            agent, attack = plan.agent, plan.attacks.get(task_id) if plan.is_adversarial else None
            mark = attack and attack.mark
            found = read.record.findings
            evident = evident_findings(story.task, agent.agent_id, events, found, mark)
            said = events if self._show_secrets else masked
            steps = conversation_of(
                story.task.input, said, evident, agent=agent.name, longest=_WHOLE
            )
            head, *more = render_story(story, style, with_trace=True)
            lines = [head, *render_transcript(steps, style, full=self._full), "", *more]
            if read.record.coverage is not UNSET:
                seen = f"observed  {coverage_in_words(read.record.coverage)}"
                lines += wrapped(seen, style.width, "      ", " " * 16)
            echo("\n".join([*lines, ""]), styled=True)
