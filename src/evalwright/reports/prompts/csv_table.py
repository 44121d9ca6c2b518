"""Records as CSV (RFC 4180): one row each, scores from 0 to 100."""

from collections.abc import Sequence

from evalwright.contracts.prompt_result import WEIGHTS, PromptResult
from evalwright.prompts.change import criterion_percentages, percentages
from evalwright.reports.formats.csv import csv_document, csv_text
from evalwright.reports.prompts.context import ReportContext

COLUMNS = (
    "eval_id",
    "timestamp",
    "path",
    "type",
    "model",
    "provider",
    "tier",
    "run",
    "status",
    "overall",
    *WEIGHTS,
    "passed",
    "grade",
)


def render_csv(results: Sequence[PromptResult], context: ReportContext) -> bytes:  # noqa: ARG001
    """The columns of the specification, in its order."""
    return csv_document(COLUMNS, map(_row, results))


def _row(result: PromptResult) -> list[str]:
    execution = result.execution
    criteria = criterion_percentages([result])
    return [
        csv_text(result.eval_id),
        csv_text(result.timestamp),
        csv_text(result.input.path),
        csv_text(result.input.type),
        csv_text(result.model.name),
        csv_text(result.model.provider),
        str(execution.tier),
        str(execution.run_index),
        execution.status,
        _number(next(iter(percentages([result])), None)),
        *(_number(criteria.get(name)) for name in WEIGHTS),
        "true" if result.passed else "false",
        result.grade or "",
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")
