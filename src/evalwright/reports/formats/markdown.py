"""Text from outside as Markdown that shows it as it is, and tables of such text."""

import re
from collections.abc import Iterable, Sequence
from html import escape

from evalwright.reports.formats.console import printable

# Characters that mean something anywhere in a line; # and @ do on the pages of code hosts. An
# underscore within a word means nothing, and file names are full of them.
_SPECIAL = re.compile(r"[\\`*\[\]<>|&~$#@]|(?<![^\W_])_|_(?![^\W_])")
_AT_START = re.compile(r"([-+#=:]|\d{1,9}(?=[.)]))")


def inline(text: str) -> str:
    """A text on one line, with nothing in it that Markdown would take for its own."""
    line = printable(" ".join(text.split()))
    return _SPECIAL.sub(r"\\\g<0>", line)


def item(text: str) -> str:
    """A line of a list; its first characters do not begin another list or a heading."""
    line = inline(text)
    start = _AT_START.match(line)
    if start is None:
        return f"- {line}"
    if start[0].isdigit():
        return f"- {start[0]}\\{line[start.end() :]}"
    return f"- \\{line}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], figures: int = 0) -> list[str]:
    """A table; its cells are Markdown already, and the last columns may be figures."""
    dashes = ["-" * (len(name) + 2) for name in head]
    aligned = [f"{each[1:]}:" for each in dashes[len(head) - figures :]]
    ruler = "|".join([*dashes[: len(head) - figures], *aligned])
    return [f"| {' | '.join(head)} |", f"|{ruler}|", *(f"| {' | '.join(row)} |" for row in rows)]


def folded(title: str, lines: Iterable[str]) -> list[str]:
    """Markdown that is shown when somebody opens it, under a title in plain text."""
    summary = f"<details><summary>{escape(printable(title))}</summary>"
    return [summary, "", *lines, "", "</details>", ""]
