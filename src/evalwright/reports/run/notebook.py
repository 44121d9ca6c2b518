"""A run in a notebook: the verdict, the reasons, and the first tasks, failures first."""

from collections.abc import Sequence
from typing import Any

from evalwright.contracts.short_names import suite_name
from evalwright.engine.session import RunVerdict, verdict_of
from evalwright.engine.verdict import Outcome, change_of_repeats
from evalwright.reports.design.files import token
from evalwright.reports.design.markup import render
from evalwright.reports.formats.text import clipped, display_text
from evalwright.reports.run.several_runs import worst_first
from evalwright.reports.run.task_records import TaskRecord
from evalwright.reports.run.task_tables import failures_first, why
from evalwright.scoring.repeats import TaskRepeats, summarise_repeats

MOST_SHOWN = 20
_LONG = 160
_CELL = "padding: .15em .8em .15em 0; vertical-align: top; text-align: left"
_SHAPES = {"pass": "○", "fail": "■", "warn": "◆"}  # passed, failed, flaky; as on a console


def render_notebook(
    outcomes: Sequence[Outcome], verdict: RunVerdict, records: Sequence[Sequence[TaskRecord]]
) -> str:
    """The run, or its repeats, as a small piece of HTML; `records` are those of each, masked."""
    first = outcomes[0]
    summary, group = first.summary, first.plan.group
    titles: tuple[str, ...] = ("", "Task", "Score", "Output", "Why")
    if len(outcomes) == 1 or group is None:
        rows = [_row(record) for record in failures_first(records[0])[:MOST_SHOWN]]
        score, run_id = summary.aggregate_score, first.run_id
        figures = f"{summary.passed_count:,} of {summary.task_count:,} tasks passed"
    else:
        report = summarise_repeats([each.summary for each in outcomes])
        by_task = {each[0].task_id: each for each in zip(*records, strict=True)}
        shown = worst_first(report.tasks)[:MOST_SHOWN]
        rows = [_repeated_row(task, by_task[task.task_id]) for task in shown]
        titles = ("", "Task", "Passed", "Score", "Output", "Why")
        score, run_id = report.score.mean, group.id
        passed = sum(verdict_of(each).passed for each in outcomes)
        figures = f"{passed} of {len(outcomes)} repeats passed · {report.sentence}"
    change = change_of_repeats(outcomes)
    left = len(records[0]) - len(rows)
    return render(
        "run",
        "notebook.html",
        verdict=display_text(str(verdict)),
        kind="pass" if verdict.passed else "fail",
        colour=_result("pass" if verdict.passed else "fail")["colour"],
        shape="●" if verdict.passed else "■",
        name=display_text(suite_name(f"{summary.suite_id}@{summary.suite_version}")),
        figures=f"score {score:.4g} · {figures}",
        change="" if change is None else clipped(change.sentence, _LONG * 4),
        reasons=[clipped(reason, _LONG) for reason in verdict.reasons],
        titles=titles,
        cell=_CELL,
        rows=rows,
        more=f"… and {left:,} more" if left else "",
        run_id=display_text(run_id),
    )


def _result(tone: str) -> dict[str, str]:
    """A shape, and a colour that can be seen on a light and on a dark notebook."""
    return {"shape": _SHAPES[tone], "colour": token(f"{tone}-solid")}


def _row(record: TaskRecord) -> dict[str, Any]:
    score = "" if record.score is None else f"{record.score:.4g}"
    texts = (
        " ".join(record.called.told),
        score,
        record.output,
        "" if record.passed else why(record),
    )
    return {
        "task_id": record.called.name,
        "failed": not record.passed,
        **_result("pass" if record.passed else "fail"),
        "texts": [clipped(text, _LONG) if text != "" else "" for text in texts],
    }


def _repeated_row(task: TaskRepeats, records: Sequence[TaskRecord]) -> dict[str, Any]:
    """A task over all repeats; the answer is that of the first in which it failed, if any."""
    row = _row(failures_first(records)[0])
    name, _, output, reason = row["texts"]
    score = f"{task.score.mean:.4g}"
    passed = f"{task.passes} of {task.runs}"
    return {
        **row,
        **(_result("warn") if task.verdict == "flaky" else {}),
        "texts": [name, passed, score, output, reason],
    }
