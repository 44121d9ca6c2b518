"""A comparison on a console: the verdict, both sides, and the tasks that changed, with why."""

from collections.abc import Iterator

from msgspec import UNSET

from evalwright.contracts.amounts import percent, share_interval
from evalwright.contracts.report import Summary
from evalwright.reports.comparison.folder import WrittenReport
from evalwright.reports.comparison.overview import OverviewRow
from evalwright.reports.formats.console import Style, columns, cut, printable, width, wrapped
from evalwright.reports.formats.figures import change_scale, with_minus
from evalwright.reports.formats.words import in_words
from evalwright.scoring.statistics import wilson

_MOST = 5


def render_comparison(report: WrittenReport, style: Style) -> str:
    """All that a console says of a comparison, but for what follows from it."""
    summary = report.summary
    if report.blocks_shipping is None or not summary.total_cases:
        words, mark = "", style.shape("error")
    elif report.blocks_shipping:
        words, mark = style.red("FAILED"), style.shape("failed")
    else:
        words, mark = style.green("PASSED"), style.shape("ship")
    taken = " " * len("PASSED ● " if words else "▲ ")
    first, *lines = wrapped(with_minus(summary.verdict), style.width, taken, "  ")
    head = f"{style.bold(words)} {mark}" if words else mark
    lines.insert(0, f"{head} {style.bold(first.removeprefix(taken))}")
    if summary.significance is not UNSET:
        lines += wrapped(with_minus(summary.significance.sentence), style.width, "  ")
        lines += ["", *_sides(summary, style)]
    shown: dict[str, OverviewRow] = {}
    for title, count, matching in (
        ("Got worse", summary.regressions, [r for r in report.rows if r.change == "regression"]),
        ("Asks for a gate", summary.gated_cases, [row for row in report.rows if row.gated]),
        ("Got better", summary.improvements, [r for r in report.rows if r.change == "improvement"]),
    ):
        rows = [row for row in matching if row.case_id not in shown][: _MOST - len(shown)]
        shown |= {row.case_id: row for row in rows}
        if count:
            lines += ["", f"  {style.bold(f'{title}: {count:,}')}", *_tasks(rows, style)]
        if more := count - sum(row.case_id in shown for row in matching):
            rest = f"and {more:,} more" if rows else "not shown here"
            lines.append(style.dim(f"    {rest}"))
    if kinds := summary.security.top_signal_kinds_new:
        told = f"Signals: {', '.join(map(in_words, kinds))}"
        lines += ["", *wrapped(told, style.width, "  ", "    ")]
    return "\n".join(lines)


def _sides(summary: Summary, style: Style) -> list[str]:
    """The pass rate of both sides with its interval, and how it changed."""
    judged, found = summary.judged, summary.significance
    assert found is not UNSET
    rows = []
    for name, passed in (("Baseline", judged.baseline_pass), ("New", judged.new_pass)):
        interval = share_interval(*wilson(passed, judged.cases))
        rows.append([name, percent(passed, judged.cases), interval, ""])
    if found.difference:
        scale = change_scale(found.difference, found.confidence_interval)
        rows[1][3] = f"{scale['words']}, {scale['interval']}"
    lines = [f"  {line}" for line in columns(rows, "<>><", style.width - 2)]
    if width(lines[1]) > style.width:
        change, rows[1][3] = rows[1][3], ""
        lines = [*(f"  {line}" for line in columns(rows, "<>><")), f"            {change}"]
    return lines


def _tasks(rows: list[OverviewRow], style: Style) -> Iterator[str]:
    """Each task with its cause, and below it where its sides part, or why it asks for a gate."""
    cells = [
        (
            style.shape("passed" if row.new_pass and not row.gated else "failed"),
            printable(row.title or row.case_id),
            in_words(row.new_root).capitalize(),
        )
        for row in rows
    ]
    for row, line in zip(rows, columns(cells, ".~<", style.width - 2), strict=True):
        yield f"  {line}"
        is_gate = row.gated and row.change != "regression"
        if why := row.reason if is_gate else row.divergence:
            short = cut(why, 2 * style.width - 20)
            yield from map(style.dim, wrapped(short, style.width, "    "))
