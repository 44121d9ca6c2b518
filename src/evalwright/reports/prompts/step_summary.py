"""A short Markdown for the summary page of a job on GitHub."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from evalwright.contracts.prompt_result import PromptResult
from evalwright.reports.markdown import inline, table
from evalwright.reports.prompts.change import change_section
from evalwright.reports.prompts.context import ReportContext
from evalwright.reports.prompts.groups import FileRuns, Overview
from evalwright.reports.prompts.markdown import SIGNS, outcome, summary_section
from evalwright.reports.text import one_line

_VARIABLE = "GITHUB_STEP_SUMMARY"
_MOST = 20
_LONGEST = 160


def append_step_summary(results: Sequence[PromptResult], context: ReportContext) -> None:
    """Add to the job's summary, where there is one; if it cannot be written, nothing is lost."""
    place = os.environ.get(_VARIABLE)
    if place:
        with contextlib.suppress(OSError), Path(place).open("ab") as file:
            file.write(render_step_summary(results, context))


def render_step_summary(results: Sequence[PromptResult], context: ReportContext) -> bytes:
    """The numbers, what changed, and the files that did not pass, the worst first."""
    overview = Overview(results)
    tier = context.tier
    lines = [
        f"# Prompts: {_verdict(overview)}",
        "",
        f"Tier {tier.number} ({inline(tier.name)}), threshold {context.threshold:g}%",
        "",
        *summary_section(overview),
    ]
    if context.change is not None:
        lines += ["## Change Since Baseline", "", *change_section(context.change, most=_MOST)]
    open_ = [group for group in overview.worst_first() if group.status != "passed"]
    if open_:
        lines += ["## To Look At", "", *_table(open_, several=len(overview.judges) > 1)]
    return ("\n".join(lines).rstrip() + "\n").encode("utf-8", "backslashreplace")


def _verdict(overview: Overview) -> str:
    errors, failed = overview.count("error"), overview.count("failed")
    if not overview.files:
        return "nothing was evaluated"
    if errors:
        return f"{SIGNS['error']} {errors} of {len(overview.files)} could not be evaluated"
    if failed:
        return f"{SIGNS['failed']} {failed} of {len(overview.files)} failed"
    return f"{SIGNS['passed']} all {len(overview.files)} passed"


def _table(groups: Sequence[FileRuns], *, several: bool) -> list[str]:
    head = ["", "File", *(["Model"] if several else []), "Result", "First of All"]
    lines = table(head, (_row(group, several=several) for group in groups[:_MOST]))
    hidden = len(groups) - _MOST
    return [*lines, *(["", f"… and {hidden} more."] if hidden > 0 else [])]


def _row(group: FileRuns, *, several: bool) -> list[str]:
    errors = [str(each.execution.error) for each in group.errors]
    told = [*errors, *group.recommendations, *group.issues]
    return [
        SIGNS[group.status],
        inline(group.path),
        *([inline(group.judge)] if several else []),
        outcome(group),
        inline(one_line(told[0], _LONGEST)) if told else "",
    ]
