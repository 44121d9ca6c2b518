"""The text of a prompt as numbered lines, with findings marked in place."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evalwright.contracts.marks import dotted
from evalwright.contracts.prompt_result import Finding
from evalwright.reports.formats.word_diff import Marked
from evalwright.signals.sensitive import scan

_AROUND = 1  # lines before and after a finding, where not all are shown
_LONGEST_LINE = 1_000
_WORD = re.compile(r"\w+|\S+")
_MOST_ON_A_LINE = 20


class SourceLine(NamedTuple):
    """A line: its number, its text with what findings point at marked, and the findings."""

    number: int
    pieces: Marked
    cut: str  # what is left out of a very long one, in words
    found: Sequence[Finding]


class SourceView(NamedTuple):
    """What of a text is shown, lines with findings in it, and findings outside of it."""

    lines: Sequence[SourceLine]
    marked: list[tuple[int, str]]  # a line with findings, and their rules
    elsewhere: list[Finding]
    of: int  # lines of the text


def source_view(text: str, findings: Sequence[Finding], room: int | None) -> SourceView:
    """The whole text, or where it has more characters than there is room, lines with findings."""
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
    told = list(_lines(lines, shown, by_line))
    return SourceView(told, marked, elsewhere, len(lines))


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


def _lines(
    lines: Sequence[str], shown: Sequence[int], by_line: dict[int, list[Finding]]
) -> Iterator[SourceLine]:
    for place in shown:
        found, line = by_line.get(place + 1, ())[:_MOST_ON_A_LINE], lines[place]
        cut = len(line) - _LONGEST_LINE
        line = line[:_LONGEST_LINE]
        pieces: Marked = []
        done = 0
        for finding in found:
            start, end = _span(line, finding.column - 1)
            if start >= done and end > start:
                pieces += [(False, line[done:start]), (True, line[start:end])]
                done = end
        pieces.append((False, line[done:]))
        yield SourceLine(place + 1, pieces, f"{cut:,} more characters" if cut > 0 else "", found)


def _span(line: str, start: int) -> tuple[int, int]:
    """The word at a column; nothing where the line ends before it."""
    word = _WORD.search(line, start)
    return (word.start(), word.end()) if word else (start, start)
