"""A run in a notebook: the verdict, the reasons, and the first tasks, failures first."""

from collections.abc import Sequence
from typing import Any

from evalwright.engine.execution import Outcome
from evalwright.reports.html.markup import Html, clipped, display_text, render
from evalwright.reports.run.task_records import TaskRecord
from evalwright.reports.run.task_tables import failures_first, why
from evalwright.scoring.thresholds import mean

MOST_SHOWN = 20
_LONG = 160
_CELL = "padding: .15em .8em .15em 0; vertical-align: top; text-align: left"
_GOOD, _BAD = "#1a7f37", "#cf222e"


def render_notebook(
    outcomes: Sequence[Outcome], reasons: Sequence[str], records: Sequence[TaskRecord]
) -> Html:
    """The run, or its repeats, as a small piece of HTML; `records` are of the first, masked."""
    summary = outcomes[0].summary
    shown = failures_first(records)[:MOST_SHOWN]
    left = len(records) - len(shown)
    return render(
        "run",
        "notebook.html",
        verdict="FAILED" if reasons else "PASSED",
        colour=_BAD if reasons else _GOOD,
        name=display_text(f"{summary.suite_id}@{summary.suite_version}"),
        figures=_figures(outcomes),
        reasons=[clipped(reason, _LONG) for reason in reasons],
        titles=("", "Task", "Score", "Output", "Why"),
        cell=_CELL,
        rows=[_row(record) for record in shown],
        more=f"… and {left:,} more" if left else "",
        run_id=display_text(outcomes[0].run_id),
    )


def _figures(outcomes: Sequence[Outcome]) -> str:
    summary = outcomes[0].summary
    score = mean([each.summary.aggregate_score for each in outcomes])
    if len(outcomes) > 1:
        passed = sum(not each.reasons for each in outcomes)
        return f"score {score:.4g} · {passed} of {len(outcomes)} repeats passed; of the first:"
    return f"score {score:.4g} · {summary.passed_count:,} of {summary.task_count:,} tasks passed"


def _row(record: TaskRecord) -> dict[str, Any]:
    score = "" if record.score is None else f"{record.score:.4g}"
    texts = (record.task_id, score, record.output, "" if record.passed else why(record))
    return {
        "mark": "✓" if record.passed else "✗",
        "colour": _GOOD if record.passed else _BAD,
        "texts": [clipped(text, _LONG) if text != "" else "" for text in texts],
    }
