"""Records as a Markdown report, and a short one for the summary page of a job on GitHub."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import UNSET

from evalwright.contracts.amounts import dollars
from evalwright.contracts.prompt_result import PromptResult, grade
from evalwright.prompts.agreement import RunSpread
from evalwright.prompts.results import percent
from evalwright.reports.formats.console import SHAPES, one_line
from evalwright.reports.formats.markdown import inline, item, table
from evalwright.reports.prompts.change_words import change_section, points
from evalwright.reports.prompts.context import ReportContext
from evalwright.reports.prompts.groups import FileRuns, FileStatus, Overview, share
from evalwright.signals.masking import mask_text

_MOST = 20  # rows of a table on that page
_MOST_PASSED_OVER = 200
_LONGEST = 160  # characters of a cell in it
SIGNS: dict[FileStatus, str] = {
    "passed": SHAPES["passed"],
    "skipped": SHAPES["waiting"],
    "failed": SHAPES["failed"],
    "error": SHAPES["error"],
}


def render_markdown(results: Sequence[PromptResult], context: ReportContext) -> bytes:
    """The numbers, what changed, every file, and judges beside each other."""
    overview = Overview(results)
    lines = [
        "# Prompt Evaluation Report",
        "",
        f"**Generated:** {inline(context.generated)}  ",
        f"**Tier:** {context.tier.number} ({inline(context.tier.name)})  ",
        f"**Threshold:** {context.threshold:g}%",
        "",
        *summary_section(overview),
    ]
    if context.change is not None:
        lines += ["## Change Since Baseline", "", *change_section(context.change)]
    lines += ["## Results by File", "", *_files(overview)]
    if len(overview.judges) > 1:
        lines += _model_comparison(overview, context.threshold)
    if context.passed_over:
        shown = [item(path) for path in context.passed_over[:_MOST_PASSED_OVER]]
        lines += ["## Passed Over", "", f"{len(context.passed_over)} not evaluated:", "", *shown]
    return ("\n".join(lines).rstrip() + "\n").encode("utf-8", "backslashreplace")


def summary_section(overview: Overview) -> list[str]:
    """The numbers of all files."""
    files = len(overview.files)
    rows = [("Files Evaluated", str(files))]
    for name, status in _COUNTED.items():
        count = overview.count(status)
        if count or status in ("passed", "failed"):
            rows.append((name, f"{count} ({share(count, files)})"))
    means = {
        judge: "none" if mean is None else percent(mean)
        for judge, mean in overview.averages.items()
    }
    average = next(iter(means.values()), "none")
    if len(means) > 1:
        average = ", ".join(f"{inline(judge)} {mean}" for judge, mean in means.items())
    rows.append(("Average Score", average))
    rows.append(("Models Used", ", ".join(map(inline, overview.judges)) or "none"))
    if len(overview.results) > files:
        rows.append(("Evaluations", str(len(overview.results))))
    if overview.cost_usd is not None:
        rows.append(("Cost", dollars(overview.cost_usd).replace("$", r"\$")))
    return ["## Summary", "", *table(["Metric", "Value"], rows), ""]


_COUNTED: dict[str, FileStatus] = {
    "Passed": "passed",
    "Failed": "failed",
    "Errors": "error",
    "Skipped (no prompts)": "skipped",
}


def _files(overview: Overview) -> Iterator[str]:
    # The name of each file, or its whole path where the name alone is not clear
    short = {file.path: PurePosixPath(file.path).name or file.path for file in overview.files}
    found = Counter(short.values())
    names = {path: name if found[name] == 1 else path for path, name in short.items()}
    several = len(overview.judges) > 1
    for group in overview.groups:
        name = names[group.path]
        judge = f", {inline(group.judge)}" if several else ""
        yield f"### {SIGNS[group.status]} {inline(name)} — {outcome(group)}{judge}"
        yield ""
        if group.criteria:
            yield from table(
                ["Criterion", "Score", "Grade"],
                (
                    (criterion.capitalize(), percent(value), grade(value))
                    for criterion, value in group.criteria.items()
                ),
            )
            yield ""
        if group.spread and group.spread.runs > 1:
            yield from (f"**Runs:** {runs_in_words(group.spread)}", "")
        for each in group.errors:
            run = f" in run {each.execution.run_index}" if len(group.records) > 1 else ""
            code = inline(str(each.execution.error_code))
            yield f"**Error{run}:** {code}: {inline(str(each.execution.error))}"
            yield ""
        if group.first.summary:
            yield from (f"**Summary:** {inline(group.first.summary)}", "")
        yield from _list("Issues", group.issues)
        yield from _list("Recommendations", group.recommendations)
        details = [each.details for each in group.records if each.details is not UNSET]
        notes = dict.fromkeys(note for each in details for note in each.notes)
        yield from _list("Notes", list(notes))


def outcome(group: FileRuns) -> str:
    """The score with its grade, and the code of an error where there is one."""
    words = []
    if group.score is not None:
        words.append(f"{percent(group.score, group.threshold)} ({group.grade})")
    codes = dict.fromkeys(str(each.execution.error_code) for each in group.errors)
    words += [f"error ({inline(code)})" for code in codes]
    return ", ".join(words)


def runs_in_words(spread: RunSpread) -> str:
    """Several runs of one judge: their mean, how far they scatter, and what that leaves open."""
    assert spread.sd is not None
    assert spread.low is not None
    assert spread.high is not None
    assert spread.flip_rate is not None
    return (
        f"{spread.runs}, mean {percent(spread.mean)}, sd {spread.sd:.1f}, "
        f"95% interval {spread.low:.1f} to {spread.high:.1f}%, "
        f"{spread.passes} at or above the threshold, flip rate {spread.flip_rate:.2f}"
    )


def _list(title: str, entries: Sequence[str]) -> Iterator[str]:
    if entries:
        yield from (f"**{title}:**", *map(item, entries), "")


def _model_comparison(overview: Overview, threshold: float) -> Iterator[str]:
    yield from ("## Model Comparison", "")
    rows = []
    for judge, mean in overview.averages.items():  # failures are what could not be made
        groups = list(overview.of_judge(judge))
        counts = [sum(len(each.records) for each in groups), sum(len(g.errors) for g in groups)]
        rows.append((inline(judge), "none" if mean is None else percent(mean), *map(str, counts)))
    yield from (*table(["Model", "Avg Score", "Evals", "Failures"], rows), "")
    panel = overview.agreement(threshold)
    if panel is None or len(panel.judges) < 2:
        return
    yield from (
        f"Offsets are from the mean of all models, over the {panel.shared} files that all scored.",
        "",
    )
    offsets = [(inline(each.judge), points(each.offset)) for each in panel.judges]
    yield from (*table(["Model", "Offset"], offsets), "")
    pairs = [
        (
            f"{inline(pair.first)}, {inline(pair.second)}",
            str(pair.prompts),
            points(pair.mean_difference),
            f"{pair.mean_absolute_difference:.1f}",
            "\N{EN DASH}" if pair.rank_correlation is None else f"{pair.rank_correlation:.2f}",
            f"{pair.same_verdict:.0%}",
        )
        for pair in panel.pairs
    ]
    yield from (*table(_PAIR_HEAD, pairs), "")


_PAIR_HEAD = ["Models", "Files", "Mean Difference", "Apart by", "Rank Correlation", "Same Verdict"]


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
    open_ = [each for each in overview.worst_first() if each.status in ("failed", "error")]
    if open_:
        several = len(overview.judges) > 1
        head = ["", "File", *(["Model"] if several else []), "Result", "First of All"]
        rows = []
        for group in open_[:_MOST]:
            errors = [str(each.execution.error) for each in group.errors]
            words = next(iter([*errors, *group.recommendations, *group.issues]), "")
            rows.append(
                [
                    SIGNS[group.status],
                    inline(group.path),
                    *([inline(group.judge)] if several else []),
                    outcome(group),
                    inline(one_line(mask_text(words, personal=False), _LONGEST)),
                ]
            )
        lines += ["## To Look At", "", *table(head, rows)]
        if len(open_) > _MOST:
            lines += ["", f"… and {len(open_) - _MOST} more."]
    return ("\n".join(lines).rstrip() + "\n").encode("utf-8", "backslashreplace")


def _verdict(overview: Overview) -> str:
    errors, failed = overview.count("error"), overview.count("failed")
    skipped = overview.count("skipped")
    if len(overview.files) == skipped:
        return "nothing was evaluated" + (f", {skipped} skipped" if skipped else "")
    if errors:
        return f"{SIGNS['error']} {errors} of {len(overview.files)} could not be evaluated"
    if failed:
        return f"{SIGNS['failed']} {failed} of {len(overview.files)} failed"
    left_out = f", {skipped} skipped" if skipped else ""
    return f"{SIGNS['passed']} all {len(overview.files) - skipped} passed{left_out}"
