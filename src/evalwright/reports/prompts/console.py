"""Results for people at a terminal: the worst first, not too many, and one line for all."""

from collections.abc import Iterator, Sequence

from evalwright.contracts.amounts import dollars
from evalwright.contracts.prompt_result import FindingSeverity, PromptResult
from evalwright.prompts.results import percent
from evalwright.prompts.sources import passed_over_in_words
from evalwright.reports.formats.console import (
    SHAPES,
    Style,
    drawn_bar,
    one_line,
    width,
    wrapped,
)
from evalwright.reports.prompts.context import ReportContext
from evalwright.reports.prompts.groups import FileRuns, FileStatus, Overview, count_findings
from evalwright.signals.masking import mask_text

_MOST_GROUPS = 20
_MOST_FINDINGS = 3
_MOST_CHANGES = 10
_BAR = 20
_SIGNS: dict[FileStatus, str] = {
    "passed": SHAPES["passed"],
    "skipped": SHAPES["waiting"],
    "failed": SHAPES["failed"],
    "error": SHAPES["error"],
}
_ORDER: tuple[FindingSeverity, ...] = ("error", "warning", "info")


def render_console(
    results: Sequence[PromptResult],
    context: ReportContext,
    style: Style,
) -> str:
    """The worst files with what to do about them; a single file with all that is known of it."""
    overview = Overview(results)
    page = _Page(overview, style)
    lines = list(page.groups())
    if context.change is not None:
        lines += ["", *page.changes(context)]
    if context.passed_over:
        words = f"passed over: {passed_over_in_words(context.passed_over)}"
        lines += ["", *map(style.dim, wrapped(words, style.width, hanging="  "))]
    return "\n".join([*lines, "", page.summary(context)])


class _Page:
    """Lines of one width."""

    def __init__(self, overview: Overview, style: Style) -> None:
        self._overview = overview
        self._style = style
        self._width = style.width
        self._alone = len(overview.files) == 1

    def groups(self) -> Iterator[str]:
        ranked = self._overview.worst_first()
        most = len(ranked) if self._alone else _MOST_GROUPS
        for group in ranked[:most]:
            yield self._headline(group)
            for record in group.errors:
                yield from self._lines(f"{record.execution.error_code}: {record.execution.error}")
            for issue in dict.fromkeys(
                each for record in group.records for each in record.issues or ()
            ):
                if issue.startswith("test case "):
                    yield from self._lines(issue)
            if self._alone:
                for name, value in group.criteria.items():
                    bar = drawn_bar(value / 100, _BAR)
                    paint = self._style.red if value < group.threshold else str
                    yield f"    {name:<14} {bar} {paint(f'{percent(value):>6}')}"
            if group.spread and group.spread.sd is not None:
                parts = f"{group.spread.runs} runs, sd {group.spread.sd:.1f}"
                yield from self._lines(f"{parts}, flip rate {group.spread.flip_rate:.2f}")
            if self._alone or group.status != "passed":
                yield from self._findings(group)
        if len(ranked) > most:
            hidden = ranked[most:]
            open_ = sum(each.status in ("failed", "error") for each in hidden)
            failing = f", {open_} of them not passed" if open_ else ""
            yield self._style.dim(f"… and {len(hidden)} more{failing}; -o report.html shows all")

    def _headline(self, group: FileRuns) -> str:
        score = "\N{EN DASH}" if group.score is None else percent(group.score, group.threshold)
        what = "not a prompt" if group.not_a_prompt else group.grade or "no result"
        said = f"{_SIGNS[group.status]} {score:>6}  {what:<11}  "
        judge = f"  {group.judge}" if len(self._overview.judges) > 1 else ""
        room = self._width - len(said) - len(judge)
        path = _shortened_path(one_line(group.path, None), max(room, 12))
        paint = {
            "passed": self._style.green,
            "skipped": self._style.dim,
            "failed": self._style.red,
            "error": self._style.yellow,
        }[group.status]
        return paint(said) + self._style.bold(path) + self._style.dim(one_line(judge, 40))

    def _findings(self, group: FileRuns) -> Iterator[str]:
        found = sorted(group.findings, key=lambda each: _ORDER.index(each.severity))
        most = len(found) if self._alone else _MOST_FINDINGS
        parts = [
            f"{f'{each.line}:{each.column}':<7} {each.severity:<7} {each.rule} {each.message}"
            for each in found[:most]
        ]
        if not found:
            parts = group.recommendations[:most] if not self._alone else group.recommendations
        for each in parts:
            yield from self._lines(each)
        if len(found) > most:
            left = count_findings(found[most:])
            yield self._style.dim(f"    … and {left} more findings")

    def _lines(self, text: str) -> list[str]:
        """A text below a headline: whole of a single file, else its beginning."""
        line = one_line(mask_text(text, personal=False), None)
        if self._alone:
            return wrapped(line, self._width, "    ", "      ")
        first, *more = wrapped(line[: self._width], self._width - 1, "    ")
        is_whole = not more and len(line) <= self._width
        return [first if is_whole else f"{first}…"]

    def changes(self, context: ReportContext) -> Iterator[str]:
        from evalwright.reports.prompts.change_words import (
            change_in_words,
            points,
            verdict_in_words,
            worst_changes,
        )

        assert context.change is not None
        for each in worst_changes(context.change)[:_MOST_CHANGES]:
            said = f"{points(each.delta):>6}  {verdict_in_words(each)}  "
            path = _shortened_path(one_line(each.path, None), max(self._width - len(said), 12))
            yield (self._style.red(said) if each.verdict == "worse" else said) + path
        for note in context.change.notes:
            yield from map(self._style.yellow, wrapped(note, self._width, hanging="  "))
        words = f"since the baseline: {change_in_words(context.change)}"
        paint = self._style.red if context.change.regressed else str
        yield from map(paint, wrapped(words, self._width, hanging="  "))

    def summary(self, context: ReportContext) -> str:
        overview, style = self._overview, self._style
        parts = [f"{len(overview.files)} {'file' if self._alone else 'files'}"]
        parts.append(style.green(f"{overview.count('passed')} passed"))
        if overview.count("failed"):
            parts.append(style.red(f"{overview.count('failed')} failed"))
        if overview.count("error"):
            parts.append(style.yellow(f"{overview.count('error')} could not be evaluated"))
        if overview.count("skipped"):
            parts.append(f"{overview.count('skipped')} skipped (no prompts)")
        if not self._alone:
            # One judge need not be named.
            for judge, mean in overview.averages.items():
                named = f" {one_line(judge, 40)}" if len(overview.judges) > 1 else ""
                parts += [] if mean is None else [f"average{named} {percent(mean)}"]
        parts.append(f"threshold {context.threshold:g}%")
        parts.append(f"tier {context.tier.number} ({context.tier.name})")
        if overview.cost_usd is not None:
            parts.append(dollars(overview.cost_usd))
        lines = parts[:1]
        for part in parts[1:]:
            if width(lines[-1]) + 3 + width(part) > self._width:
                lines.append(part)
            else:
                lines[-1] += f" · {part}"
        return "\n".join(lines)


def _shortened_path(path: str, room: int) -> str:
    """The end of a path tells more than its beginning."""
    return path if len(path) <= room else "…" + path[1 - room :]
