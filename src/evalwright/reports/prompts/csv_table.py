"""Records as CSV (RFC 4180): one row each, scores from 0 to 100."""

import csv
import io
import re
from collections.abc import Sequence

from evalwright.contracts.prompt_result import WEIGHTS, PromptResult
from evalwright.prompts.change import criterion_percentages, percentages
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

# Spreadsheets read such a cell as a formula, except a sign alone, such as the path of stdin.
_FORMULA = re.compile(r"[=+\-@\t\r\n](?=.)|[\uff1d\uff0b\uff0d\uff20]", re.DOTALL)


def render_csv(results: Sequence[PromptResult], context: ReportContext) -> bytes:  # noqa: ARG001
    """The columns of the specification, in its order."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    writer.writerows(map(_row, results))
    return out.getvalue().encode("utf-8", "backslashreplace")


def _row(result: PromptResult) -> list[str]:
    execution = result.execution
    criteria = criterion_percentages([result])
    return [
        _text(result.eval_id),
        _text(result.timestamp),
        _text(result.input.path),
        _text(result.input.type),
        _text(result.model.name),
        _text(result.model.provider),
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


def _text(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) else text
