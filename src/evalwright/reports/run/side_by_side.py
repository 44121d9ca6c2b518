"""Several agents or models beside each other, on a console."""

from collections.abc import Sequence

from evalwright.contracts.amounts import NOTHING, dollars, percent, share_interval, span
from evalwright.engine.task_names import NO_NAMES, TaskNames
from evalwright.reports.formats.console import Style, columns, printable, wrapped
from evalwright.reports.formats.figures import points_in_words, with_minus
from evalwright.reports.run.several_runs import render_change
from evalwright.scoring.agent_comparison import SideBySide
from evalwright.scoring.statistics import p_in_words

MOST_DIFFERENCES = 20
_HEAD = ("", "", "passed", "rate", "interval", "score", "cost", "p50", "p95")


def render_side_by_side(
    compared: SideBySide, style: Style, names: TaskNames = NO_NAMES
) -> list[str]:
    """A line for each variant, how far it is from the first, and the tasks that differ."""
    rows: list[Sequence[str]] = [_HEAD]
    for number, variant in enumerate(compared.variants, 1):
        latencies = (variant.median_latency_ms, variant.p95_latency_ms)
        rows.append(
            (
                f"{number}",
                variant.name,
                f"{variant.passed_count:,} of {variant.task_count:,}",
                percent(variant.pass_rate),
                share_interval(*variant.pass_interval),
                f"{variant.score:.4g}",
                NOTHING if variant.cost_usd is None else dollars(variant.cost_usd),
                *(NOTHING if each is None else span(each) for each in latencies),
            )
        )
    lines = [style.bold(f"{compared.name}, side by side")]
    head, *told = columns(rows, "<~>>>>>>>", style.width - 2)
    lines += [style.dim(f"  {head}"), *(f"  {line}" for line in told)]
    first = compared.variants[0].name
    for change in compared.changes:
        lines += render_change(change, style, f"{change.name} against {first}: ")
        rate = points_in_words(change.pass_rate_change, change.pass_rate_interval)
        low, high = change.score_interval
        interval = f"{low + 0.0:+.3g} to {high + 0.0:+.3g}"  # never -0
        score = f"score {change.score_change:+.4g}, 95% interval {interval}"
        if change.newly_passing or change.newly_failing or change.score_change:
            figures = f"pass rate {rate}; {score} ({p_in_words(change.score_p)})"
            lines += wrapped(with_minus(figures), style.width, "    ")
    count = len(compared.differences)
    if not count:
        return [*lines, "  every task came out the same"]
    rows = [("", "", *(f"{number}" for number in range(1, len(compared.variants) + 1)))]
    for task in compared.differences[:MOST_DIFFERENCES]:
        marks = (style.shape("passed" if passed else "failed") for passed in task.passed)
        scores = [f"{mark} {each:.4g}" for mark, each in zip(marks, task.scores, strict=True)]
        called = names.of(task.task_id)
        rows.append((called.title, printable(called.name) if called.subtitle else "", *scores))
    lines.append(f"  {count} {'task differs' if count == 1 else 'tasks differ'}")
    head, *told = columns(rows, "~<" + "<" * len(compared.variants), style.width - 2)
    lines += [style.dim(f"  {head}"), *(f"  {line}" for line in told)]
    if count > MOST_DIFFERENCES:
        lines.append(style.dim(f"    and {count - MOST_DIFFERENCES} more: --json"))
    return lines
