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
    causes = summary.root_cause_breakdown_baseline, summary.root_cause_breakdown
    severities = [
        msgspec.to_builtins(each)
        for each in (
            summary.security.signal_counts_baseline,
            summary.security.signal_counts_new,
        )
    ]
    counted = [(inline(cause), causes[0][cause], count) for cause, count in causes[1].items()]
    counted += [
        (f"signals: {each}", severities[0][each], severities[1][each])
        for each in reversed(severities[1])
    ]
    rows = [f"| {name} | {old} | {new} |" for name, old, new in counted if old or new]
    if (judged := summary.judged).cases:
        rows.insert(0, f"| passed of {judged.cases} | {judged.baseline_pass} | {judged.new_pass} |")
    if rows:
        lines += ["| | baseline | new |", "| --- | ---: | ---: |", *rows, ""]
    if summary.significance is not msgspec.UNSET:
        found = summary.significance
        lines += [f"**{inline(found.sentence)}** {inline(pass_rates(found))}", ""]
    if items := _worth_a_look(report):
        lines += ["| case | what | why | gate |", "| --- | --- | --- | --- |"]
    for item in items[:_MOST_CASES]:
        root = "" if item.new_root is msgspec.UNSET else item.new_root
        ruling = item.governance_preview.new
        cells = (
            " ".join(case_called(item.case_id, item.title).told),
            f"{CHANGES[item.told_change].words.lower()} {root}".strip(),
            "; ".join(one_line(each.message, 120) for each in item.failed_assertions.new[:2]),
            f"{ruling.recommendation}: {one_line(ruling.reason, 120)}",
        )
        lines.append(f"| {' | '.join(inline(one_line(cell, 300)) for cell in cells)} |")
    if len(items) > _MOST_CASES:
        lines += ["", f"… and {len(items) - _MOST_CASES} more, all in `report.html`."]
    if report.pairing is not None:
        lines += ["", inline(report.pairing.note)]
    return ("\n".join(lines).rstrip() + "\n").encode()


def notes_on(report: MachineReport) -> list[Note]:
    """A note for each case that needs a look; of many, the last says how many more there are."""
    notes = [
        Note(
            f"{_name(item)}: {CHANGES[item.told_change].words.lower()}",
            _why(item),
            level="error" if item.change == "regression" else "warning",
        )
        for item in _worth_a_look(report)
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
            for item in _worth_a_look(report)
        ]
    )


def _name(item: Item) -> str:
    return case_called(item.case_id, item.title).name


def _why(item: Item) -> str:
    ruling = item.governance_preview.new
    told = [each.message for each in item.failed_assertions.new]
    return "; ".join(told) or f"{ruling.recommendation}: {ruling.reason}"


def _worth_a_look(report: MachineReport) -> list[Item]:
    """The cases that got worse, ask for a gate or have a new severe signal; the worst first."""
    found = []
    for item in report.items:
        facts = facts_of(item)
        if facts.change == "regression" or facts.new.gated or facts.alarming:
            found.append(item)
    return sorted(
        found,
        key=lambda item: (
            item.governance_preview.new.recommendation != "block",
            not item.security.new.requires_gate_recommendation,
            item.change != "regression",
        ),
    )
