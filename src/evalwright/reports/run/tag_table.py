"""The tags of a run: what their tasks came to, and the bars over them."""

from typing import Any

from evalwright.contracts.amounts import NOTHING, percent
from evalwright.engine.verdict import Outcome
from evalwright.reports.formats.console import Shape, Style, columns
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
    rows = [("", "tag", "tasks", "passed", "score", "bar")]
    for tag in found:
        met = [bar.met for bar in tag.bars]
        shape: Shape = "failed" if False in met else "error" if None in met else "passed"
        rows.append(
            (
                style.shape(shape) if met else "",
                on_one_line(tag.tag),
                f"{tag.tasks:,}",
                f"{tag.passed:,} ({percent(tag.passed, tag.tasks)})" if tag.tasks else NOTHING,
                NOTHING if tag.score is None else f"{tag.score:.4g}",
                ", ".join(f"{bar.in_words} {_MET[bar.met]}" for bar in tag.bars),
            )
        )
    head, *lines = columns(rows, ".~>>><", style.width)
    return "\n".join([style.dim(head), *lines])


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
