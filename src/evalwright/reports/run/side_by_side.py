"""Several agents or models beside each other, on a console."""

from collections.abc import Sequence

from evalwright.contracts.amounts import NOTHING, dollars, percent, share_interval, span
from evalwright.engine.task_names import NO_NAMES, TaskNames
from evalwright.reports.formats.console import Style, printable
from evalwright.reports.formats.figures import points_in_words
from evalwright.scoring.agent_comparison import SideBySide
from evalwright.scoring.statistics import p_in_words

MOST_DIFFERENCES = 20
_HEAD = ("", "passed", "pass rate (95% interval)", "score", "cost", "latency p50", "p95")


def render_side_by_side(
    compared: SideBySide, style: Style, names: TaskNames = NO_NAMES
) -> list[str]:
    """A line for each variant, how far it is from the first, and the tasks that differ."""
    rows: list[Sequence[str]] = [_HEAD]
    for variant in compared.variants:
        latencies = (variant.median_latency_ms, variant.p95_latency_ms)
        rows.append(
            (
                printable(variant.name),
                f"{variant.passed_count} of {variant.task_count}",
                f"{percent(variant.pass_rate)} ({share_interval(*variant.pass_interval)})",
                f"{variant.score:.4g}",
                NOTHING if variant.cost_usd is None else dollars(variant.cost_usd),
                *(NOTHING if each is None else span(each) for each in latencies),
            )
        )
    lines = [style.bold(f"{compared.name}, side by side")]
    lines += [f"  {line}" for line in aligned(rows)]
    first = printable(compared.variants[0].name)
    for change in compared.changes:
        sentence = printable(change.sentence)
        lines.append(f"  {printable(change.name)} against {first}:")
        lines.append(f"    {style.red(sentence) if change.is_worse else sentence}")
        rate = points_in_words(change.pass_rate_change, change.pass_rate_interval)
        low, high = change.score_interval
        interval = f"{low + 0.0:+.3g} to {high + 0.0:+.3g}"  # never -0
        score = f"score {change.score_change:+.4g}, 95% interval {interval}"
        if change.newly_passing or change.newly_failing or change.score_change:
            lines.append(f"    pass rate {rate}; {score} ({p_in_words(change.score_p)})")
    count = len(compared.differences)
    if not count:
        return [*lines, "  every task came out the same"]
    rows = [["", *(printable(variant.name) for variant in compared.variants), ""]]
    for task in compared.differences[:MOST_DIFFERENCES]:
        marks = ("✓" if passed else "✗" for passed in task.passed)
        scores = [f"{mark} {each:.4g}" for mark, each in zip(marks, task.scores, strict=True)]
        called = names.of(task.task_id)
        rows.append([printable(called.name), *scores, printable(called.subtitle)])
    lines.append(f"  {count} {'task differs' if count == 1 else 'tasks differ'}")
    lines += [f"  {line}" for line in aligned(rows)]
    if count > MOST_DIFFERENCES:
        lines.append(style.dim(f"  … and {count - MOST_DIFFERENCES} more: --json"))
    return lines


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
