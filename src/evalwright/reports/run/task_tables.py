"""The tasks of a run as lines of JSON, a table on a console, CSV and Markdown; failures first."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from evalwright.contracts.amounts import NOTHING, dollars, span
from evalwright.contracts.jsonvalue import NotJson, stringify
from evalwright.engine.isolation import EXPLANATIONS
from evalwright.reports.formats.console import (
    SHAPES,
    Shape,
    Style,
    columns,
    cut,
    one_line,
    printable,
)
from evalwright.reports.formats.csv import csv_document, csv_text
from evalwright.reports.formats.markdown import inline, table
from evalwright.reports.run.junit import FailedRun, Reported, ReportedSeveral
from evalwright.reports.run.stories import called_cells
from evalwright.reports.run.task_details import expected_of, status_of
from evalwright.reports.run.task_records import CheckRecord, TaskRecord

_VERDICTS = {True: "Passed", False: "Failed", None: "No score"}
_SHAPES: dict[str, Shape] = {
    "passed": "passed",
    "failed": "failed",
    "error": "error",
    "open": "waiting",
}
_COUNTED = {"failed": "failed", "error": "with an error", "open": "without a score"}
_COLUMNS = (
    "taskId",
    "passed",
    "score",
    "input",
    "output",
    "failedChecks",
    "reason",
    "expected",
    "actual",
    "costUsd",
    "totalTokens",
    "latencyMs",
    "findings",
    "error",
    "tags",
    "checks",
    "runId",
    "checkScore",
    "title",
)


def task_lines(records: Sequence[TaskRecord], which: Mapping[str, Any] = {}) -> Iterator[bytes]:
    """One line of JSON for each task, in the order of the suite; `which` says of which run."""
    for record in records:
        shown = {**msgspec.to_builtins(record), **which} if which else record
        yield msgspec.json.encode(shown) + b"\n"


def failures_first(records: Sequence[TaskRecord]) -> list[TaskRecord]:
    """Tasks that failed, then those without a score, then those that passed."""
    return sorted(records, key=lambda record: (record.passed is True, record.passed is None))


def failed_checks(record: TaskRecord) -> list[CheckRecord]:
    """The checks of the answer that did not pass."""
    return [check for check in record.checks if not check.passed]


def why(record: TaskRecord) -> str:
    """Why a task did not pass, in one line: an error, or the checks that failed."""
    if record.error is not UNSET:
        return f"error: {record.error.get('code')}: {record.error.get('message', '')}"
    if record.passed is None:
        return "no score"
    failed = failed_checks(record)
    told = [f"{each.check}: {each.reason}" if each.reason else each.check for each in failed]
    if record.repetitions is not UNSET:
        passed = sum(each.passed is True for each in record.repetitions)
        told.insert(0, f"{passed} of {len(record.repetitions)} repetitions passed")
    return "; ".join(told)


def render_tasks(records: Sequence[TaskRecord], style: Style) -> str:
    """Every task on a console, with why it did not pass."""
    ordered = failures_first(records)
    rows = [
        (
            _shape(record, style),
            *called_cells(record.called, style),
            *_figures(record),
        )
        for record in ordered
    ]
    rows.insert(0, ("", "task", "", "score", "latency", "cost"))
    head, *lines = columns(rows, ".~<>>>", style.width)
    told = [style.dim(head)]
    for record, line in zip(ordered, lines, strict=True):
        told.append(line)
        said = "; ".join(filter(None, (record.checks_in_words, why(record))))
        told += [f"   {style.dim(cut(said, style.width - 3))}"] * bool(said)
    return "\n".join(told)


def render_failed(records: Sequence[TaskRecord], style: Style) -> str:
    """The tasks that did not pass, on a line each: what was expected, and what came."""
    failed = [each for each in failures_first(records) if each.passed is not True]
    rows = [("", "TASK", "EXPECTED", "ANSWER")]
    titles = Counter(record.called.title for record in failed)
    for record in failed:
        answer = record.output if record.error is UNSET else record.error.get("message", "")
        called = record.called  # by its name where others have the same title
        title = called.title if titles[called.title] == 1 else printable(called.name)
        rows.append((_shape(record, style), title, expected_of(record), _text(answer)))
    head, *lines = columns(rows, ".~~~", style.width - 2)
    counts = Counter(map(status_of, records))
    told = [f"{counts[each]:,} {words}" for each, words in _COUNTED.items() if counts[each]]
    found = f"{len(failed):,} of {len(records):,} did not pass: {', '.join(told)}"
    closing = found if failed else f"{len(records):,} of {len(records):,} passed"
    shown = [style.dim(f"  {head}"), *(f"  {line}" for line in lines)] if failed else []
    return "\n".join([*shown, f"{closing}. All: --tasks"])


def _shape(record: TaskRecord, style: Style) -> str:
    return style.shape(_SHAPES[status_of(record)])


def _figures(record: TaskRecord) -> tuple[str, str, str]:
    """Score, latency and cost."""
    return (
        NOTHING if record.score is None else f"{record.score:.4g}",
        NOTHING if record.latency_ms is None else span(record.latency_ms),
        NOTHING if record.usage.cost_usd is None else dollars(record.usage.cost_usd),
    )


def render_csv(runs: Sequence[Reported]) -> bytes:
    """A row for each task of each run, in the order of the suite."""
    return csv_document(
        _COLUMNS,
        (
            _row(run.run_id, record)
            for run in runs
            if not isinstance(run, ReportedSeveral)
            for record in run.records()
        ),
    )


def _row(run_id: str, record: TaskRecord) -> list[str]:
    failed, usage = failed_checks(record), record.usage
    first = failed[0] if failed else None
    error = record.error
    return [
        csv_text(record.task_id),
        "" if record.passed is None else str(record.passed).lower(),
        _number(record.score),
        csv_text(_text(record.input)),
        csv_text(_text(record.output)),
        csv_text(", ".join(each.check for each in failed)),
        csv_text("; ".join(each.reason for each in failed if each.reason)),
        "" if first is None else csv_text(_text(first.expected)),
        "" if first is None else csv_text(_text(first.actual)),
        _number(usage.cost_usd),
        str(usage.total_tokens),
        _number(record.latency_ms),
        ", ".join(f"{each.severity} {each.kind}" for each in record.findings),
        "" if error is UNSET else csv_text(f"{error.get('code')}: {error.get('message', '')}"),
        "" if record.tags is UNSET else csv_text(", ".join(record.tags)),
        csv_text(msgspec.json.encode(record.checks).decode()),
        csv_text(run_id),
        "" if record.check_score is UNSET else _number(record.check_score),
        csv_text(record.title),
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"


def _text(value: object) -> str:
    if value is None:
        return ""
    try:
        return stringify(value)
    except NotJson:  # nested too deeply to be sorted
        return msgspec.json.encode(value).decode()


def render_markdown(runs: Sequence[Reported]) -> bytes:
    """A heading, the verdict and a table of tasks for each run."""
    lines = [line for run in runs for line in _section(run)]
    return ("\n".join(lines).rstrip() + "\n").encode("utf-8", "backslashreplace")


def _section(run: Reported) -> Iterator[str]:
    if isinstance(run, ReportedSeveral):
        yield from (f"## {inline(run.verdict)}: {inline(run.name)}", "")
        yield from (*(f"- {inline(reason)}" for reason in run.reasons), *[""] * bool(run.reasons))
        yield from (f"**{inline(run.change)}**", "") if run.change else ()
        return
    if isinstance(run, FailedRun):
        yield f"## No result: {inline(run.code)}"
        yield from ("", f"{inline(run.message)} Run `{run.run_id}`.", "")
    else:
        summary = run.summary
        if run.repeats is None:
            yield f"## {inline(run.verdict)}: {inline(run.name)}"
        else:
            yield f"### {inline(run.verdict)}: repeat {run.repeat}"
        counts = f"{summary.passed_count:,} of {summary.task_count:,} tasks passed"
        yield from ("", f"Score {summary.aggregate_score:.4g}, {counts}. Run `{run.run_id}`.", "")
        notes = [*run.reasons, *run.tag_bars, *(EXPLANATIONS[mark] for mark in run.marks)]
        yield from (f"- {inline(note)}" for note in notes)
        yield from [""] * bool(notes)
        for counted in run.tables:
            yield from (*counted.in_markdown(), "")
        if run.change is not None and run.repeats is None:  # else they decide together
            against = f"Against the baseline {inline(run.change.called)}"
            yield from (f"{against}: **{inline(run.change.sentence)}**", "")
    head = ("Result", "Task", "Score", "Latency", "Cost", "Why", "Expected", "Actual")
    yield from table(head, map(_markdown_cells, failures_first(run.records())))
    yield ""


def _markdown_cells(record: TaskRecord) -> list[str]:
    failed = failed_checks(record)
    first = failed[0] if failed else None
    score, latency, cost = _figures(record)
    return [
        f"{SHAPES[_SHAPES[status_of(record)]]} {_VERDICTS[record.passed]}",
        " ".join(inline(printable(each)) for each in record.called.told),
        score,
        latency,
        inline(cost),
        inline(one_line(why(record))),
        "" if first is None else inline(one_line(_text(first.expected))),
        "" if first is None else inline(one_line(_text(first.actual))),
    ]
