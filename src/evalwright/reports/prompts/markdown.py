"""Records as a Markdown report, and a short one for the summary page of a job on GitHub."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import UNSET

from evalwright.contracts.amounts import dollars
from evalwright.contracts.prompt_result import PromptResult, grade
from evalwright.prompts.agreement import PairAgreement, RunSpread
from evalwright.prompts.results import percent
from evalwright.reports.formats.console import one_line
from evalwright.reports.formats.markdown import inline, item, table
from evalwright.reports.prompts.change import change_section, points
from evalwright.reports.prompts.context import ReportContext
from evalwright.reports.prompts.groups import FileRuns, FileStatus, Overview, share
from evalwright.signals.masking import mask_text

_MOST = 20  # rows of a table on that page
_MOST_PASSED_OVER = 200
_LONGEST = 160  # characters of a cell in it
SIGNS: dict[FileStatus, str] = {
    "passed": "✅",
    "skipped": "⏭️",
    "failed": "❌",
    "error": "⛔",
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
    return ["## Summary", "", *table(["Metric", "Value"], _metrics(overview)), ""]


def _metrics(overview: Overview) -> Iterator[tuple[str, str]]:
    files = len(overview.files)
    yield "Files Evaluated", str(files)
    rows: list[tuple[str, FileStatus]] = [("Passed", "passed"), ("Failed", "failed")]
    if overview.count("error"):
        rows.append(("Errors", "error"))
    if overview.count("skipped"):
        rows.append(("Skipped (no prompts)", "skipped"))
    for name, status in rows:
        count = overview.count(status)
        yield name, f"{count} ({share(count, files)})"
    yield "Average Score", _average(overview)
    yield "Models Used", ", ".join(map(inline, overview.judges)) or "none"
    if len(overview.results) > files:
        yield "Evaluations", str(len(overview.results))
    if overview.cost_usd is not None:
        yield "Cost", dollars(overview.cost_usd).replace("$", r"\$")


def _average(overview: Overview) -> str:
    """The average; of several judges one each."""
    words = {
        judge: "none" if mean is None else percent(mean)
        for judge, mean in overview.averages.items()
    }
    if len(words) < 2:
        return next(iter(words.values()), "none")
    return ", ".join(f"{inline(judge)} {mean}" for judge, mean in words.items())


def _files(overview: Overview) -> Iterator[str]:
    names = _short_names(overview)
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


def _short_names(overview: Overview) -> dict[str, str]:
    """The name of each file, or its whole path where the name alone is not clear."""
    names = {file.path: PurePosixPath(file.path).name or file.path for file in overview.files}
    found = Counter(names.values())
    return {path: name if found[name] == 1 else path for path, name in names.items()}


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
    yield from table(
        ["Model", "Avg Score", "Evals", "Failures"],
        (_model_row(judge, mean, overview) for judge, mean in overview.averages.items()),
    )
    yield ""
    panel = overview.agreement(threshold)
    if panel is None or len(panel.judges) < 2:
        return
    yield from (
        f"Offsets are from the mean of all models, over the {panel.shared} files that all scored.",
        "",
    )
    offsets = [(inline(each.judge), points(each.offset)) for each in panel.judges]
    yield from table(["Model", "Offset"], offsets)
    yield from ("", *table(_PAIR_HEAD, map(_pair_row, panel.pairs)), "")


_PAIR_HEAD = ["Models", "Files", "Mean Difference", "Apart by", "Rank Correlation", "Same Verdict"]


def _model_row(judge: str, mean: float | None, overview: Overview) -> tuple[str, ...]:
    """A judge; failures are evaluations that could not be made."""
    groups = list(overview.of_judge(judge))
    evaluations = sum(len(each.records) for each in groups)
    failures = sum(len(each.errors) for each in groups)
    return inline(judge), "none" if mean is None else percent(mean), str(evaluations), str(failures)


def _pair_row(pair: PairAgreement) -> tuple[str, ...]:
    rank = pair.rank_correlation
    return (
        f"{inline(pair.first)}, {inline(pair.second)}",
        str(pair.prompts),
        points(pair.mean_difference),
        f"{pair.mean_absolute_difference:.1f}",
        "\N{EN DASH}" if rank is None else f"{rank:.2f}",
        f"{pair.same_verdict:.0%}",
    )


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
        lines += ["## To Look At", "", *_open_table(open_, several=len(overview.judges) > 1)]
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


def _open_table(groups: Sequence[FileRuns], *, several: bool) -> list[str]:
    head = ["", "File", *(["Model"] if several else []), "Result", "First of All"]
    lines = table(head, (_open_row(group, several=several) for group in groups[:_MOST]))
    hidden = len(groups) - _MOST
    return [*lines, *(["", f"… and {hidden} more."] if hidden > 0 else [])]


def _open_row(group: FileRuns, *, several: bool) -> list[str]:
    errors = [str(each.execution.error) for each in group.errors]
    words = [*errors, *group.recommendations, *group.issues]
    return [
        SIGNS[group.status],
        inline(group.path),
        *([inline(group.judge)] if several else []),
        outcome(group),
        inline(one_line(mask_text(words[0], personal=False), _LONGEST)) if words else "",
    ]
