"""Text from outside as Markdown that shows it as it is, and tables of such text."""

import re
from collections.abc import Iterable, Sequence

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


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table; its cells are Markdown already."""
    ruler = "|".join("-" * (len(name) + 2) for name in head)
    return [f"| {' | '.join(head)} |", f"|{ruler}|", *(f"| {' | '.join(row)} |" for row in rows)]
