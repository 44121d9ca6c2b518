"""Tables of words in plain text, each file beside the module that reads it.

`[title]` opens a table, and `name: entry entry …` a row of it, which goes on in lines that begin
with a space. In an entry `_` stands for a space. Lines with `#` are comments; each file begins with
what it holds, where that comes from, and what measures it.
"""

from pathlib import Path
from typing import TypeAlias

WordTable: TypeAlias = dict[str, list[str]]


def word_tables(module: str) -> dict[str, WordTable]:
    """The tables beside a module, given by its `__file__`: rows by title and name."""
    return {
        title: {
            name: [each.replace("_", " ") for each in row.split()] if "_" in row else row.split()
            for name, row in rows.items()
        }
        for title, rows in text_tables(module).items()
    }


def text_tables(module: str) -> dict[str, dict[str, str]]:
    """The same tables where a row is a text for people or models; `_` stands for itself."""
    text = Path(module).with_suffix(".txt").read_text(encoding="utf-8")
    tables: dict[str, dict[str, str]] = {}
    table: dict[str, str] = {}
    name = ""
    for line in text.split("\n"):
        if line.startswith("["):
            table = tables[line.strip("[]")] = {}
        elif line.startswith(" "):
            table[name] += f" {line.strip()}"
        elif line and not line.startswith("#"):
            name, _, row = line.partition(":")
            table[name] = row.strip()
    return tables


def either(*rows: list[str]) -> str:
    """A pattern for any of the entries of some rows, which are parts of patterns."""
    return "|".join(entry for row in rows for entry in row)
