"""Completed runs as objects: verdict, tasks, events, reports, tables."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from evalwright.contracts.coverage import Coverage
from evalwright.contracts.errors import MissingExtra
from evalwright.contracts.events import ToolCalled, ToolReturned
from evalwright.engine.examination import made_calls
from evalwright.engine.history import read_history
from evalwright.engine.own_checks import OwnFacts
from evalwright.engine.replay import project
from evalwright.engine.session import verdict_of, verdict_on
from evalwright.engine.verdict import Outcome, change_of_repeats
from evalwright.reports.run.task_records import ReadTask, TaskRecord, read_tasks
from evalwright.store.location import existing_log

if TYPE_CHECKING:
    from evalwright.engine.mutants import MutationReport

_CALL_EVENTS = {each.TYPE: each for each in (ToolCalled, ToolReturned)}


class MissingLibrary(MissingExtra, ImportError):
    """A package is needed that is not installed."""

    def __init__(self, wanted_by: str, package: str) -> None:
        super().__init__(f"{wanted_by}() needs {package}: pip install {package}")


class CheckReport(OwnFacts):
    """What one check said of an answer."""

    check: str
    passed: bool
    score: float
    expected: Any
    actual: Any
    reason: str


class CallReport(OwnFacts):
    """A tool call of the agent."""

    tool: str
    args: Any
    result: Any
    is_ok: bool


class UsageReport(OwnFacts):
    """What the agent's model calls took; the cost is None where a call has no price."""

    calls: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    cost_usd: float | None


class TaskReport(OwnFacts):
    """One task of a run: what was asked, what the agent answered, and how it was scored.

    A dictionary whose fields are attributes, too: `task.passed` or `task["passed"]`. Of a task that
    is repeated, the answer is the first that came out as the task did; `repetitions` has all.
    """

    id: str
    passed: bool
    score: float
    input: Any
    output: Any  # None where the agent failed
    checks: list[CheckReport]
    calls: list[CallReport]
    usage: UsageReport
    findings: list[OwnFacts]
    error: dict[str, Any] | None
    latency_ms: int | None
    cost_usd: float | None
    tags: list[str]
    repetitions: list[OwnFacts]
    coverage: Coverage  # what was observed, and how: `calls`, `usage`, `messages`
    title: str  # its own, else what is asked; of a row without an id, its readable name

    def __repr__(self) -> str:
        return f"<task {self.id}: {'passed' if self.passed else 'failed'}, score {self.score:g}>"


class RunResult:
    """A completed run, or the repeats of one; it shows its scorecard in a notebook.

    With repeats, `id`, `summary`, `tasks`, `events` and `html` are those of the first; `repeats`
    holds them all, `group` is the id of their group, `passed` asks all of them, and `score` is
    their mean.
    """

    def __init__(self, db: str | Path, outcomes: Sequence[Outcome], *, alone: bool = False) -> None:
        first = outcomes[0]
        self._db = db
        self._outcomes = outcomes
        self._alone = alone or first.plan.group is None  # also of a repeat by itself
        self._verdict = verdict_of(first) if self._alone else verdict_on(outcomes)
        self.id: str = first.run_id
        self.reasons: list[str] = self._verdict.reasons
        self.passed: bool = self._verdict.passed
        self.score: float = sum(each.summary.aggregate_score for each in outcomes) / len(outcomes)
        self.repeats: tuple[RunResult, ...] = (self,)
        if not self._alone:
            self.repeats = tuple(RunResult(db, [each], alone=True) for each in outcomes)

    @property
    def db(self) -> str | Path:
        """The file, or the address, of the log that holds the run."""
        return self._db

    @property
    def sentence(self) -> str | None:
        """Whether what changed against the baseline is more than chance; None without one."""
        change = change_of_repeats(self._outcomes)
        return None if change is None else change.sentence

    @property
    def group(self) -> str | None:
        """The id of the group, of repeats; else None."""
        group = self._outcomes[0].plan.group
        return None if group is None or self._alone else group.id

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The EvalSummary, with the names it has on the wire."""
        return dict(msgspec.to_builtins(self._outcomes[0].summary))

    @cached_property
    def tasks(self) -> dict[str, TaskReport]:
        """Every task by its id, in the order of the suite, read from the log."""
        with existing_log(str(self._db)) as log:
            reading = read_tasks(log.read(self.id), show_secrets=True)
        return {task.record.task_id: task_report(task) for task in reading.tasks}

    def events(self) -> Iterator[dict[str, Any]]:
        """The events of the run, in order, as they are on the wire."""
        with existing_log(str(self._db)) as log:
            for event in log.read(self.id):
                yield msgspec.json.decode(event.to_json())

    def report(self) -> str:
        """The scorecard as `evalwright show` prints it: failed tasks in full, secrets masked."""
        from evalwright.reports.formats.console import Style
        from evalwright.reports.run.reported import render_group, shown_run
        from evalwright.reports.run.scorecard import overrides_of, render_outcome

        style, first = Style(colour=False), self._outcomes[0]
        with existing_log(str(self._db)) as log:
            shown = [shown_run(log, outcome) for outcome in self._outcomes]
            if not self._alone:
                return render_group(shown, style)
            said, number = overrides_of(log, first), log.facts(first.run_id).number
        _, stories, agreement, tables = shown[0]
        return render_outcome(
            first,
            stories,
            style,
            agreement=agreement,
            overrides=said,
            tables=tables,
            full=True,
            number=number,
        )

    def mutants(
        self,
        *,
        kinds: Sequence[str] = (),
        tasks: Sequence[str] = (),
        seed: int = 1,
        most: int | None = None,
    ) -> "MutationReport":
        """What the suite notices of damaged answers, as `evalwright mutants` has it; no judges."""
        from evalwright.api.suite_run import complete_here
        from evalwright.engine.mutants import MutantOptions, Mutants

        with existing_log(str(self._db)) as log:
            mutants = Mutants(log, self.id, MutantOptions(kinds, tasks, seed, most))
        try:
            if mutants.has_asks:
                complete_here(mutants.ask())
        finally:
            mutants.close()
        return mutants.report()

    def html(self) -> str:
        """The run as one self-contained page, as `--html` writes it; secrets are masked."""
        return self._rendered("html")

    def junit(self) -> str:
        """The run, or all its repeats, as JUnit XML; secrets are masked."""
        return self._rendered("junit")

    def _rendered(self, form: str) -> str:
        from evalwright.reports.forms import renderer
        from evalwright.reports.run.reported import reported_runs, shown_run

        with existing_log(str(self._db)) as log:
            shown = [shown_run(log, outcome) for outcome in self._outcomes]
            runs = reported_runs(log, shown, show_secrets=False, alone=self._alone)
            return renderer("run", form)(runs).decode()

    def _repr_html_(self) -> str:
        from evalwright.reports.run.notebook import render_notebook

        with existing_log(str(self._db)) as log:
            readings = [
                read_tasks(log.read(each.run_id), show_secrets=False) for each in self._outcomes
            ]
        records = [[task.record for task in reading.tasks] for reading in readings]
        return render_notebook(self._outcomes, self._verdict, records)

    def to_rows(self) -> list[dict[str, Any]]:
        """A flat dictionary for each task, of every repeat: for tables and data frames."""
        return [
            _row(run.id, number, task)
            for number, run in enumerate(self.repeats, 1)
            for task in run.tasks.values()
        ]

    def to_pandas(self) -> Any:
        """The rows as a data frame of pandas, where that is installed."""
        try:
            import pandas
        except ImportError:
            raise MissingLibrary("to_pandas", "pandas") from None
        return pandas.DataFrame(self.to_rows())

    def to_polars(self) -> Any:
        """The rows as a data frame of polars, where that is installed; data in them is JSON."""
        try:
            import polars
        except ImportError:
            raise MissingLibrary("to_polars", "polars") from None
        rows = [{name: _cell(value) for name, value in row.items()} for row in self.to_rows()]
        return polars.DataFrame(rows, infer_schema_length=None)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied to another process it is the same run, read from its log there."""
        return _read_again, (self._db, [each.run_id for each in self._outcomes], self._alone)

    def __repr__(self) -> str:
        return f"<run {self.id}: {self._verdict.in_words}, score {self.score:g}>"


def _read_again(db: str | Path, run_ids: Sequence[str], alone: bool) -> RunResult:  # noqa: FBT001
    with existing_log(str(db)) as log:
        outcomes = [project(read_history(log, each)) for each in run_ids]
    return RunResult(db, outcomes, alone=alone)


def task_report(task: ReadTask) -> TaskReport:
    """A task as it was read from a log."""
    record = task.record
    deeds = [
        event.decode(_CALL_EVENTS[event.type]) for event in task.trace if event.type in _CALL_EVENTS
    ]
    return TaskReport(
        id=record.task_id,
        passed=bool(record.passed),
        score=record.score or 0.0,
        input=record.input,
        output=record.output,
        checks=[CheckReport(msgspec.to_builtins(each)) for each in record.checks],
        calls=[CallReport(call._asdict()) for call in made_calls(deeds)],
        usage=UsageReport(msgspec.structs.asdict(record.usage)),
        findings=[OwnFacts(msgspec.to_builtins(each)) for each in record.findings],
        error=None if record.error is UNSET else record.error,
        latency_ms=record.latency_ms,
        cost_usd=record.usage.cost_usd,
        tags=[] if record.tags is UNSET else record.tags,
        repetitions=_repetitions(record),
        coverage=Coverage(**({} if record.coverage is UNSET else record.coverage)),
        title=record.title,
    )


def _repetitions(record: TaskRecord) -> list[OwnFacts]:
    if record.repetitions is UNSET:
        return []
    return [
        OwnFacts(
            passed=each.passed,
            score=each.score,
            output=each.output,
            checks=[CheckReport(msgspec.to_builtins(check)) for check in each.checks],
            latency_ms=each.latency_ms,
            error=None if each.error is UNSET else each.error,
        )
        for each in record.repetitions
    ]


def _row(run_id: str, repeat: int, task: TaskReport) -> dict[str, Any]:
    failed = [check for check in task.checks if not check.passed]
    error = task.error or {}
    return {
        "run_id": run_id,
        "repeat": repeat,
        "id": task.id,
        "passed": task.passed,
        "score": task.score,
        "input": task.input,
        "output": task.output,
        "failed_checks": ", ".join(check.check for check in failed),
        "reason": "; ".join(check.reason for check in failed if check.reason),
        "error": f"{error.get('code')}: {error.get('message', '')}" if error else None,
        "latency_ms": task.latency_ms,
        "cost_usd": task.cost_usd,
        "total_tokens": task.usage.total_tokens,
        "findings": ", ".join(f"{each['severity']} {each['kind']}" for each in task.findings),
        "tags": ", ".join(task.tags),
    }


def _cell(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value
