"""The tags of a run: what their tasks came to, and the bars over them."""

from typing import Any

from evalwright.contracts.amounts import NOTHING, percent
from evalwright.engine.verdict import Outcome
from evalwright.reports.formats.console import Style
from evalwright.reports.run.side_by_side import aligned
from evalwright.scoring.pass_bars import TagResult, by_tag, on_one_line, results_of

_MET = {True: "met", False: "missed", None: "not evaluated"}


def _tags(outcome: Outcome) -> list[TagResult]:
    """Every tag of the tasks of a run, those that have a bar first."""
    plan, results = outcome.plan, results_of(outcome.summary)
    return by_tag(plan.suite.tasks, plan.suite.thresholds, results, plan.scoring)


def render_tags(outcome: Outcome, style: Style) -> str:
    """A line for each tag."""
    found = _tags(outcome)
    if not found:
        return "no task of this run has a tag"
    rows, marks = [("tag", "tasks", "passed", "score", "bar")], []
    for tag in found:
        met = [bar.met for bar in tag.bars]
        missed = style.red("✗") if False in met else style.yellow("?") if None in met else ""
        marks.append(missed or (style.green("✓") if met else " "))
        rows.append(
            (
                on_one_line(tag.tag),
                f"{tag.tasks:,}",
                f"{tag.passed:,} ({percent(tag.passed, tag.tasks)})" if tag.tasks else NOTHING,
                NOTHING if tag.score is None else f"{tag.score:.4g}",
                ", ".join(f"{bar.in_words} {_MET[bar.met]}" for bar in tag.bars),
            )
        )
    head, *lines = aligned(rows)
    shown = (f"{mark} {line}" for mark, line in zip(marks, lines, strict=True))
    return "\n".join([style.dim(f"  {head}"), *shown])


def tag_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """The same for JSON."""
    return [
        {
            "tag": tag.tag,
            "tasks": tag.tasks,
            "passed": tag.passed,
            "score": tag.score,
            "bars": [{bar.kind: bar.wanted, "met": bar.met} for bar in tag.bars],
        }
        for tag in _tags(outcome)
    ]
