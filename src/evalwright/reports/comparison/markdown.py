"""A comparison as Markdown: short enough for a pull request, complete about what got worse."""

import msgspec

from evalwright.comparison.summary import facts_of
from evalwright.contracts.report import Item
from evalwright.engine.task_names import case_called
from evalwright.reports.comparison.case_page import divergence_words
from evalwright.reports.comparison.machine import MachineReport
from evalwright.reports.formats.ci import MOST_NOTES, Note, quality_issue, quality_report
from evalwright.reports.formats.console import SHAPES, Shape, one_line
from evalwright.reports.formats.figures import pass_rates, with_minus
from evalwright.reports.formats.markdown import folded, inline, table
from evalwright.reports.formats.words import CHANGES, in_words

_MOST_CASES = 25
# By the first words of the verdict; whatever else it begins with, it speaks of no reason not to.
_SHAPES: dict[str, Shape] = {
    "Do not ship yet": "failed",
    "Cannot tell": "error",
    "Nothing to compare": "error",
}


def render_markdown(report: MachineReport) -> bytes:
    """The verdict, how sure it is, the numbers, one case to start with; the others folded."""
    summary = report.summary
    shape = _SHAPES.get(summary.verdict.partition(":")[0], "ship")
    lines = [f"### {SHAPES[shape]} {inline(summary.verdict)}", ""]
    if summary.significance is not msgspec.UNSET:
        found = summary.significance
        lines += [f"**{inline(found.sentence)}** {inline(with_minus(pass_rates(found)))}", ""]
    security, judged = summary.security, summary.judged
    old, new = (
        msgspec.to_builtins(each)
        for each in (security.signal_counts_baseline, security.signal_counts_new)
    )
    causes = summary.root_cause_breakdown_baseline, summary.root_cause_breakdown
    rows = [
        (inline(in_words(cause)), causes[0][cause], count) for cause, count in causes[1].items()
    ]
    rows += [(f"signals: {each}", old[each], new[each]) for each in reversed(new)]
    rows = [row for row in rows if row[1] or row[2]]
    if judged.cases:
        rows.insert(0, (f"passed of {judged.cases}", judged.baseline_pass, judged.new_pass))
    if rows and shape != "ship":
        counts = [[name, f"{before:,}", f"{now:,}"] for name, before, now in rows]
        lines += [*table(["", "baseline", "new"], counts, 2), ""]
    if items := _worth_a_look(report):
        first = items[0]
        why = divergence_words(first) or _why(first)
        named = inline(case_called(first.case_id, first.title).title or first.case_id)
        lines += [f"**Start here:** {named}: {inline(one_line(why, 300))}", ""]
        shown = table(["case", "what", "why", "gate"], map(_cells, items[:_MOST_CASES]))
        if len(items) > _MOST_CASES:
            shown += ["", f"… and {len(items) - _MOST_CASES} more, all in `report.html`."]
        count = "1 case needs" if len(items) == 1 else f"{len(items):,} cases need"
        lines += folded(f"{count} a look", shown)
    if report.pairing is not None:
        lines += folded("How far to trust it", [inline(report.pairing.note)])
    return ("\n".join(lines).rstrip() + "\n").encode()


def _cells(item: Item) -> list[str]:
    root = "" if item.new_root is msgspec.UNSET else in_words(item.new_root)
    ruling = item.governance_preview.new
    cells = (
        " ".join(case_called(item.case_id, item.title).told),
        f"{CHANGES[item.told_change].words.lower()} {root}".strip(),
        "; ".join(one_line(each.message, 120) for each in item.failed_assertions.new[:2]),
        f"{ruling.recommendation}: {one_line(ruling.reason, 120)}",
    )
    return [inline(one_line(cell, 300)) for cell in cells]


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
