"""A comparison as Markdown: short enough for a pull request, complete about what got worse."""

import msgspec

from evalwright.comparison.summary import facts_of
from evalwright.contracts.report import Item
from evalwright.engine.task_names import case_called
from evalwright.reports.comparison.machine import MachineReport
from evalwright.reports.formats.ci import MOST_NOTES, Note, quality_issue, quality_report
from evalwright.reports.formats.console import one_line
from evalwright.reports.formats.figures import pass_rates
from evalwright.reports.formats.markdown import inline
from evalwright.reports.formats.words import CHANGES

_MOST_CASES = 25


def render_markdown(report: MachineReport) -> bytes:
    """The verdict, the numbers, and the cases that need a look."""
    summary = report.summary
    lines = [f"# {inline(summary.verdict)}", ""]
    before = report.summary.root_cause_breakdown_baseline
    after = report.summary.root_cause_breakdown
    rows = [
        *[
            f"| {inline(cause)} | {before[cause]} | {count} |"
            for cause, count in after.items()
            if count or before[cause]
        ],
        *_severity_rows(report),
    ]
    if (judged := summary.judged).cases:
        rows.insert(0, f"| passed of {judged.cases} | {judged.baseline_pass} | {judged.new_pass} |")
    if rows:
        lines += ["| | baseline | new |", "| --- | ---: | ---: |", *rows, ""]
    if summary.significance is not msgspec.UNSET:
        found = summary.significance
        lines += [f"**{inline(found.sentence)}** {inline(pass_rates(found))}", ""]
    shown = [item for item in report.items if _needs_a_look(item)]
    lines += _table(sorted(shown, key=_order))
    if report.pairing is not None:
        lines += ["", inline(report.pairing.note)]
    return ("\n".join(lines).rstrip() + "\n").encode()


def notes_on(report: MachineReport) -> list[Note]:
    """A note for each case that needs a look; of many, the last says how many more there are."""
    shown = sorted(filter(_needs_a_look, report.items), key=_order)
    notes = [
        Note(
            f"{_name(item)}: {_change(item)}",
            _why(item),
            level="error" if item.change == "regression" else "warning",
        )
        for item in shown
    ]
    rest = len(notes) - MOST_NOTES + 1
    if rest <= 1:
        return notes
    return [*notes[: MOST_NOTES - 1], Note("evalwright", f"… and {rest:,} more cases")]


def render_code_quality(report: MachineReport) -> bytes:
    """An issue for each case that needs a look, at the file of the cases."""
    path = report.cases_path or "cases.json"
    return quality_report(
        [
            quality_issue(
                f"evalwright/{item.change}",
                f"{_name(item)}: {_why(item)}",
                path,
                1,
                "major" if item.change == "regression" else "minor",
                item.case_id,
            )
            for item in sorted(filter(_needs_a_look, report.items), key=_order)
        ]
    )


def _name(item: Item) -> str:
    return case_called(item.case_id, item.title).name


def _change(item: Item) -> str:
    return CHANGES[item.told_change].words.lower()


def _why(item: Item) -> str:
    ruling = item.governance_preview.new
    told = [each.message for each in item.failed_assertions.new]
    return "; ".join(told) or f"{ruling.recommendation}: {ruling.reason}"


def _severity_rows(report: MachineReport) -> list[str]:
    security = report.summary.security
    before = msgspec.to_builtins(security.signal_counts_baseline)
    after = msgspec.to_builtins(security.signal_counts_new)
    return [
        f"| signals: {severity} | {before[severity]} | {after[severity]} |"
        for severity in reversed(list(after))
        if after[severity] or before[severity]
    ]


def _needs_a_look(item: Item) -> bool:
    """Whether a case got worse, asks for a gate or has a new severe signal."""
    facts = facts_of(item)
    return facts.change == "regression" or facts.new.gated or facts.alarming


def _order(item: Item) -> tuple[bool, bool, bool]:
    return (
        item.governance_preview.new.recommendation != "block",
        not item.security.new.requires_gate_recommendation,
        item.change != "regression",
    )


def _table(items: list[Item]) -> list[str]:
    if not items:
        return []
    lines = ["| case | what | why | gate |", "| --- | --- | --- | --- |"]
    lines += [_row(item) for item in items[:_MOST_CASES]]
    hidden = len(items) - _MOST_CASES
    if hidden > 0:
        lines += ["", f"… and {hidden} more, all in `report.html`."]
    return lines


def _row(item: Item) -> str:
    root = "" if item.new_root is msgspec.UNSET else item.new_root
    reasons = [one_line(each.message, 120) for each in item.failed_assertions.new[:2]]
    ruling = item.governance_preview.new
    gate = f"{ruling.recommendation}: {one_line(ruling.reason, 120)}"
    case = " ".join(case_called(item.case_id, item.title).told)
    cells = (case, f"{_change(item)} {root}".strip(), "; ".join(reasons), gate)
    return f"| {' | '.join(inline(one_line(cell, 300)) for cell in cells)} |"
