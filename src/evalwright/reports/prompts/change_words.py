"""What changed since a baseline, as words and as Markdown."""

from collections.abc import Sequence

from evalwright.prompts.change import VERDICTS, Change, FileChange
from evalwright.prompts.results import percent
from evalwright.reports.formats.markdown import inline, table

_MINUS = "\N{MINUS SIGN}"
_SIGNS = {
    "worse": "■",
    "better": "○",
    "within noise": "≈",
    "noise unknown": "?",
    "same": "=",
    "only before": _MINUS,
    "only now": "+",
}


def change_in_words(change: Change) -> str:
    """All verdicts with their numbers, in one line."""
    words = [f"{count} {verdict}" for verdict, count in change.counts.items()]
    return ", ".join(words) or "nothing to compare"


def change_section(change: Change, *, most: int | None = None) -> list[str]:
    """The verdicts, and a table of all files that are not the same, the worst first."""
    several = len({each.judge for each in change.files}) > 1
    moved = worst_changes(change)
    head = ["File", *(["Judge"] if several else []), "Before", "Now", "Change", "Noise", "Verdict"]
    lines = [f"Compared with the baseline: {change_in_words(change)}.", ""]
    lines += [line for note in change.notes for line in (inline(note), "")]
    if moved:
        lines += table(head, (_row(each, with_judge=several) for each in moved[:most]))
        hidden = len(moved) - len(moved[:most])
        lines += ["", *([f"… and {hidden} more.", ""] if hidden else [])]
    return lines


def worst_changes(change: Change) -> Sequence[FileChange]:
    """The files that are not the same, the worst verdicts and the largest changes first."""
    moved = [each for each in change.files if each.verdict != "same"]
    return sorted(moved, key=lambda each: (VERDICTS.index(each.verdict), -abs(each.delta or 0.0)))


def points(value: float | None) -> str:
    """A difference in percentage points, with its sign."""
    if value is None:
        return "\N{EN DASH}"
    shown = round(value, 1) or round(value, 4)
    return f"{shown:+g}".replace("-", _MINUS)


def verdict_in_words(change: FileChange) -> str:
    """The verdict with its sign, and what explains it."""
    words = f"{_SIGNS[change.verdict]} {change.verdict}"
    if change.lost_cases:
        return f"{words}: test cases that passed now fail"
    if change.content_changed is False and change.verdict in ("better", "worse"):
        return f"{words}, though the file did not change"
    return words


def criteria_in_words(change: FileChange) -> str:
    """The criteria that moved, the largest change first."""
    moved = sorted(change.criteria.items(), key=lambda entry: -abs(entry[1]))
    return ", ".join(f"{name} {points(value)}" for name, value in moved if value)


def _row(change: FileChange, *, with_judge: bool) -> list[str]:
    noise = "\N{EN DASH}" if change.noise is None else f"{change.noise:.1f}"
    return [
        inline(change.path),
        *([inline(change.judge)] if with_judge else []),
        *(
            "\N{EN DASH}" if each is None else percent(each)
            for each in (change.before, change.after)
        ),
        points(change.delta),
        noise,
        verdict_in_words(change),
    ]
