"""Several agents or models beside each other, on a console."""

from collections.abc import Iterator, Sequence

from evalwright.contracts.amounts import NOTHING, dollars, percent, share_interval, span
from evalwright.engine.task_names import NO_NAMES, TaskNames
from evalwright.reports.formats.console import Style, printable
from evalwright.reports.formats.figures import points_in_words
from evalwright.scoring.side_by_side import (
    SideBySide,
    TaskDifference,
    VariantChange,
    VariantFigures,
)
from evalwright.scoring.statistics import p_in_words

MOST_DIFFERENCES = 20
_HEAD = ("", "passed", "pass rate (95% interval)", "score", "cost", "latency p50", "p95")


def render_side_by_side(
    compared: SideBySide, style: Style, names: TaskNames = NO_NAMES
) -> list[str]:
    """A line for each variant, how far it is from the first, and the tasks that differ."""
    return [
        style.bold(f"{compared.name}, side by side"),
        *_table([_HEAD, *map(_cells, compared.variants)]),
        *(f"  {line}" for change in compared.changes for line in _change(compared, change, style)),
        *_differences(compared, style, names),
    ]


def aligned(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> list[str]:
    """Rows of cells as lines with columns; `numbers` are in all but the first of them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if numbers and place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"  {line}" for line in aligned(rows)]


def _cells(variant: VariantFigures) -> tuple[str, ...]:
    low, high = variant.pass_interval
    return (
        printable(variant.name),
        f"{variant.passed_count} of {variant.task_count}",
        f"{percent(variant.pass_rate)} ({share_interval(low, high)})",
        f"{variant.score:.4g}",
        NOTHING if variant.cost_usd is None else dollars(variant.cost_usd),
        _milliseconds(variant.median_latency_ms),
        _milliseconds(variant.p95_latency_ms),
    )


def _milliseconds(value: int | None) -> str:
    return NOTHING if value is None else span(value)


def _change(compared: SideBySide, change: VariantChange, style: Style) -> Iterator[str]:
    first = printable(compared.variants[0].name)
    sentence = printable(change.sentence)
    yield f"{printable(change.name)} against {first}:"
    yield f"  {style.red(sentence) if change.is_worse else sentence}"
    rate = points_in_words(change.pass_rate_change, change.pass_rate_interval)
    low, high = change.score_interval
    interval = f"{low + 0.0:+.3g} to {high + 0.0:+.3g}"  # never -0
    score = f"score {change.score_change:+.4g}, 95% interval {interval}"
    if change.newly_passing or change.newly_failing or change.score_change:
        yield f"  pass rate {rate}; {score} ({p_in_words(change.score_p)})"


def _differences(compared: SideBySide, style: Style, names: TaskNames) -> list[str]:
    if not compared.differences:
        return ["  every task came out the same"]
    shown = compared.differences[:MOST_DIFFERENCES]
    head = ["", *(printable(variant.name) for variant in compared.variants), ""]
    rows = [head, *(_difference_cells(each, names) for each in shown)]
    count = len(compared.differences)
    lines = [f"  {count} {'task differs' if count == 1 else 'tasks differ'}", *_table(rows)]
    if len(shown) < len(compared.differences):
        lines.append(style.dim(f"  … and {len(compared.differences) - len(shown)} more: --json"))
    return lines


def _difference_cells(task: TaskDifference, names: TaskNames) -> list[str]:
    marks = ("✓" if passed else "✗" for passed in task.passed)
    called = names.of(task.task_id)
    return [
        printable(called.name),
        *(f"{mark} {score:.4g}" for mark, score in zip(marks, task.scores, strict=True)),
        printable(called.beside),
    ]
