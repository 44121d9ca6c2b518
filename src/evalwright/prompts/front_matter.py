"""Front matter: YAML between two lines of `---`, read as the tools that use it read it.

Editors and agents take `globs: **/*` and `description: Use it: always` for what they look like,
though neither is YAML. What cannot be read as a whole is read key by key, and a value that is no
YAML is a text; a note says so.
"""

import re
from collections.abc import Callable
from typing import Any

from evalwright.prompts.document import UnfitPrompt
from evalwright.signals.patterns import when_used

MAX_VALUES = 100_000

_OPENING = when_used(r"---[ \t]*\r?\n")
_CLOSING = when_used(r"\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_KEY = when_used(
    r"(?m)^(?:\"([^\"\n]{1,80})\"|'([^'\n]{1,80})'|([^\W\d][\w .-]{0,79}?))[ \t]*:(?=[ \t\r]|$)"
)
# Fields that anybody reads alike, which most front matter is: a text, a path, a number, a version
# or a date after a key, or a list of them below it. Whatever else is on a line is left to YAML.
_WORDS = r"[^\x00-\x1f#:\x7f]*"
_FIELD = when_used(
    r"(?:([A-Za-z][A-Za-z0-9_-]{0,79}):|([ ]{0,4})-)(?:[ ]+(?:"
    r"\"([^\x00-\x1f\"\\\x7f]*)\"|'([^\x00-\x1f'\x7f]*)'"
    rf"|([A-Za-z]{_WORDS}(?:\n[ ]+[A-Za-z0-9(]{_WORDS})+)"
    rf"|([A-Za-z]{_WORDS}|/[a-z]{_WORDS}|\d{{1,9}}[ -][a-z]{{4}}{_WORDS})"
    r"|(\d{1,15})|(\d{1,15}\.\d{1,15})|(\d{4}-\d\d-\d\d|\d{1,9}(?:\.\d{1,9}){2,3})))?[ ]*\n",
    re.ASCII,
)
_KEY_ALONE, _LINES = 1, 5  # groups of a field
# The characters beyond ASCII that are read so; as classes of a pattern they take long to compile.
_BEYOND_ASCII = (
    ("\u00a1", "\u1fff"),
    ("\u2010", "\u2027"),
    ("\u2030", "\u2bff"),
    ("\u3001", "\ud7ff"),
    ("\U0001f300", "\U0001faff"),
)
_READERS: dict[int | None, Callable[[str], Any]] = {
    2: lambda _: "null",  # an item without a value
    3: str,
    4: str,
    _LINES: lambda text: " ".join(map(str.strip, text.split("\n"))),
    6: str.rstrip,
    7: int,
    8: float,
    9: str,
}
_NOT_PLAIN = frozenset("true True TRUE false False FALSE null Null NULL".split())
_QUOTED = when_used(r"\"(.*)\"|'(.*)'", re.DOTALL)

FrontMatter = tuple[dict[str, Any] | None, int, tuple[str, ...]]


def split_front_matter(text: str) -> FrontMatter:
    """The front matter of a text (None: it has none), the offset at its end, and notes on it.

    A block that holds no `key:`, or that is never closed, is no front matter: `---` is a line
    across the page then.
    """
    opening = _OPENING.match(text)
    if opening is None:
        return None, 0, ()
    start = opening.end()
    closing = _CLOSING.search(text, start - 1)
    if closing is None:
        return None, 0, ("line 1: the front matter is not closed, so it is read as text",)
    source = text[start : closing.start() + 1]
    if not source or source.isspace():
        return {}, closing.end(), ()
    notes: list[str] = []
    fields = plain_fields(source)
    if fields is not None:
        return fields, closing.end(), ()
    try:
        loaded = load_checked(source, first_line=2, what="front matter", notes=notes)
    except UnfitPrompt as error:
        notes = [f"{error.message}; read key by key"]
        # Every key that starts a line, with the YAML after it, or else the text.
        keys = list(_KEY.finditer(source))
        ends = [each.start() for each in keys[1:]] + [len(source)]
        fields = {
            key[key.lastindex or 0]: _value(source[key.end() : end])
            for key, end in zip(keys, ends, strict=False)
        }
        loaded = fields or source
    if loaded is None:  # comments alone
        loaded = {}
    if not isinstance(loaded, dict):
        return None, 0, ("line 2: there is no `key: value` in the front matter: read as text",)
    return loaded, closing.end(), tuple(notes)


def plain_fields(source: str) -> dict[str, Any] | None:
    """Front matter of nothing but plain fields and lists; None for any other, which is YAML's."""
    if not source.isascii() and not all(
        each.isascii() or any(first <= each <= last for first, last in _BEYOND_ASCII)
        for each in set(source)
    ):
        return None
    fields: dict[str, Any] = {}
    indents: dict[str, str] = {}  # of the items of each list
    key = ""
    at = 0
    for found in _FIELD.finditer(source):
        kind = found.lastindex
        value = [] if kind == _KEY_ALONE else _READERS[kind](found[kind or 0])
        start, end = found.span()
        if start != at or (isinstance(value, str) and value in _NOT_PLAIN):
            return None
        at = end
        if found[1] is not None:
            key = found[1]
            if key in fields or key in _NOT_PLAIN:
                return None
            fields[key] = value
        elif kind == _LINES or indents.setdefault(key, found[2]) != found[2]:
            return None
        elif isinstance(below := fields.get(key), list):
            below.append(value)
        else:
            return None
    return fields if at == len(source) and [] not in fields.values() else None


def _value(source: str) -> Any:
    try:
        return load_checked(f"value:{source}", first_line=1, what="value")["value"]
    except UnfitPrompt:
        text = source.strip()
        quoted = _QUOTED.fullmatch(text)
        return text if quoted is None else quoted[quoted.lastindex or 0]


def load_checked(
    source: str,
    first_line: int,
    what: str,
    notes: list[str] | None = None,
    *,
    last_keys: bool = False,
) -> Any:
    """Read YAML; an error, `UnfitPrompt`, names its line in the file.

    Given `notes`, a duplicate key is noted there instead, and the last value counts.
    """
    import yaml  # takes a while, and few libraries need it

    from evalwright.contracts.yaml_loader import DUPLICATE_KEY, load_last_keys, load_yaml

    try:
        loaded = load_last_keys(source) if last_keys else load_yaml(source)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = None
        reason: object = " ".join(str(error).split())
        if isinstance(error, yaml.MarkedYAMLError):
            mark = error.problem_mark or error.context_mark
            reason = error.problem or error.context
        column = f", column {mark.column + 1}" if mark else ""
        message = f"line {first_line + (mark.line if mark else 0)}{column}: {what}: {reason}"
        if notes is None or DUPLICATE_KEY not in message:
            raise UnfitPrompt("invalid_input", message) from None
        notes.append(f"{message}; the last one counts")
        return load_checked(source, first_line, what, last_keys=True)
    if "*" in source and _size(loaded) > MAX_VALUES:
        raise UnfitPrompt(
            "invalid_input",
            f"line {first_line}: {what}: more than {MAX_VALUES:,} values once its aliases are "
            "expanded",
        )
    return loaded


def _size(value: Any) -> int:
    """How many values a value holds as JSON, where nothing is shared; counted to the limit."""
    count = 0
    left = [value]
    while left and count <= MAX_VALUES:
        value = left.pop()
        count += 1
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
    return count
