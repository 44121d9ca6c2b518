"""The text of a prompt as HTML: numbered lines, with findings marked in place."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from evalwright.contracts.marks import dotted
from evalwright.contracts.prompt_result import Finding
from evalwright.reports.formats.html import Html, quoted_html, text_html
from evalwright.signals.sensitive import scan

_AROUND = 1  # lines before and after a finding, where not all are shown
_LONGEST_LINE = 1_000
_WORD = re.compile(r"\w+|\S+")
_MOST_ON_A_LINE = 20


class SourceView(NamedTuple):
    """What of a text is shown, lines with findings in it, and findings outside of it."""

    html: Html
    marked: list[tuple[int, str]]  # a line that has an anchor, and the rules of its findings
    elsewhere: list[Finding]
    lines_shown: int
    lines: int


def source_view(
    text: str, findings: Sequence[Finding], room: int | None, anchor: Html
) -> SourceView:
    """The whole text, or where it has more characters than there is room, lines with findings.

    A line with findings has an anchor: `anchor` and its number.
    """
    lines = [line.removesuffix("\r") for line in masked(text, findings).split("\n")]
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    by_line: dict[int, list[Finding]] = {}
    for finding in findings:
        by_line.setdefault(finding.line, []).append(finding)
    shown = (
        range(len(lines))
        if room is None or len(text) <= room
        else _chosen(lines, sorted(by_line), room)
    )
    chosen = set(shown)
    elsewhere = [
        each
        for line, found in by_line.items()
        for each in (found if line - 1 not in chosen else found[_MOST_ON_A_LINE:])
    ]
    marked = [
        (line, ", ".join(dict.fromkeys(each.rule for each in found)))
        for line, found in sorted(by_line.items())
        if line - 1 in chosen
    ]
    html = Html("".join(_blocks(lines, shown, by_line, anchor)))
    return SourceView(html, marked, elsewhere, len(chosen), len(lines))


def masked(text: str, findings: Sequence[Finding]) -> str:
    """The text with its secrets dotted out, and personal data that a finding points at.

    Every character keeps its place.
    """
    starts = _starts(text, [each for each in findings if each.criterion == "safety"])
    for found in scan(text):
        is_secret = found.family == "secret" and found.confidence != "low"
        if is_secret or found.start in starts:
            hidden = dotted(text[found.start : found.end])
            text = text[: found.start] + hidden + text[found.end :]
    return text


def _starts(text: str, findings: Sequence[Finding]) -> set[int]:
    if not findings:
        return set()
    begin, offsets = 0, [0]
    while (begin := text.find("\n", begin) + 1) > 0:
        offsets.append(begin)
    return {
        offsets[each.line - 1] + each.column - 1 for each in findings if each.line <= len(offsets)
    }


def _chosen(lines: Sequence[str], with_findings: Sequence[int], room: int) -> list[int]:
    """Lines around findings, from the first on, as long as there is room."""
    chosen: set[int] = set()
    for line in with_findings:
        around = range(max(0, line - 1 - _AROUND), min(len(lines), line + _AROUND))
        fresh = [place for place in around if place not in chosen]
        room -= sum(min(len(lines[place]), _LONGEST_LINE) + 1 for place in fresh)
        if room < 0:
            break
        chosen.update(fresh)
    return sorted(chosen)


def _blocks(
    lines: Sequence[str], shown: Collection[int], by_line: dict[int, list[Finding]], anchor: Html
) -> Iterator[Html]:
    """Runs of lines that follow each other, each as a list that goes on with its number."""
    before = -1
    for place in shown:
        if place != before + 1 or before < 0:
            yield Html("</ol>" if before >= 0 else "")
            yield Html(f'<ol class="src" start="{place + 1}">')
        before = place
        found = by_line.get(place + 1, ())[:_MOST_ON_A_LINE]
        yield Html(f'<li id="{anchor}{place + 1}">' if found else "<li>")
        line = lines[place]
        cut = len(line) - _LONGEST_LINE
        if cut > 0:
            line = line[:_LONGEST_LINE]
        parts, done = [], 0
        for finding in found:
            start, end = _span(line, finding.column - 1)
            if start >= done and end > start:
                title = quoted_html(f"{finding.rule} {finding.severity}")
                marked = Html(f'<mark title="{title}">{text_html(line[start:end])}</mark>')
                parts += [text_html(line[done:start]), marked]
                done = end
        parts.append(text_html(line[done:]))
        if cut > 0:
            parts.append(Html(f'<span class="cut"> … {cut:,} more characters</span>'))
        yield Html("".join([*parts, *map(_message, found)]))
    if before >= 0:
        yield Html("</ol>")


def _span(line: str, start: int) -> tuple[int, int]:
    """The word at a column; nothing where the line ends before it."""
    word = _WORD.search(line, start)
    return (word.start(), word.end()) if word else (start, start)


def _message(finding: Finding) -> Html:
    rule = text_html(finding.rule)
    message = text_html(finding.message)
    hit = Html(f"<b>{rule}</b> {finding.severity}: {message}")
    return Html(f'<span class="hit {finding.severity}">{hit}</span>')
