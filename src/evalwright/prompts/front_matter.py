"""Front matter: YAML between two lines of `---`, read as the tools that use it read it.

Editors and agents take `globs: **/*` and `description: Use it: always` for what they look like,
though neither is YAML. What cannot be read as a whole is read key by key, and a value that is no
YAML is a text; a note says so.
"""

import re
from collections.abc import Callable
from typing import Any

import yaml

from evalwright.contracts.yaml_loader import DUPLICATE_KEY, JsonLoader, load_yaml
from evalwright.prompts.document import UnfitPrompt
from evalwright.prompts.patterns import when_used

MAX_VALUES = 100_000

_MAP = "tag:yaml.org,2002:map"
_OPENING = when_used(r"---[ \t]*\r?\n")
_CLOSING = when_used(r"\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_KEY = when_used(
    r"(?m)^(?:\"([^\"\n]{1,80})\"|'([^'\n]{1,80})'|([^\W\d][\w .-]{0,79}?))[ \t]*:(?=[ \t\r]|$)"
)
_QUOTED = when_used(r"\"(.*)\"|'(.*)'", re.DOTALL)

FrontMatter = tuple[dict[str, Any] | None, int, tuple[str, ...]]


class _LastKeyCounts(JsonLoader):
    """Accepts duplicate keys, as the tools that show front matter do."""


def _mapping(loader: _LastKeyCounts, node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        last = {(key.tag, str(key.value)): (key, value) for key, value in node.value}
        node.value = list(last.values())
    return JsonLoader.yaml_constructors[_MAP](loader, node)


_LastKeyCounts.add_constructor(_MAP, _mapping)


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
    try:
        loaded = load_checked(source, first_line=2, what="front matter", notes=notes)
    except UnfitPrompt as error:
        notes = [f"{error.message}; read key by key"]
        loaded = _key_by_key(source)
    if loaded is None:  # comments alone
        loaded = {}
    if not isinstance(loaded, dict):
        return None, 0, ("line 2: there is no `key: value` in the front matter: read as text",)
    return loaded, closing.end(), tuple(notes)


def _key_by_key(source: str) -> dict[str, Any] | str:
    """Every key that starts a line, with the YAML after it, or else the text."""
    keys = list(_KEY.finditer(source))
    ends = [each.start() for each in keys[1:]] + [len(source)]
    fields = {
        key[key.lastindex or 0]: _value(source[key.end() : end])
        for key, end in zip(keys, ends, strict=False)
    }
    return fields or source


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
    load: Callable[[str], Any] = load_yaml,
) -> Any:
    """Read YAML; an error, `UnfitPrompt`, names its line in the file.

    Given `notes`, a duplicate key is noted there instead, and the last value counts.
    """
    try:
        loaded = load(source)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = _why_unreadable(error, first_line, what)
        if notes is None or DUPLICATE_KEY not in message:
            raise UnfitPrompt("invalid_input", message) from None
        notes.append(f"{message}; the last one counts")
        return load_checked(source, first_line, what, load=_load_last)
    if "*" in source and _size(loaded) > MAX_VALUES:
        raise UnfitPrompt(
            "invalid_input",
            f"line {first_line}: {what}: more than {MAX_VALUES:,} values once its aliases are "
            "expanded",
        )
    return loaded


def _load_last(source: str) -> Any:
    return yaml.load(source, Loader=_LastKeyCounts)  # noqa: S506 - builds plain JSON values only


def _why_unreadable(error: Exception, first_line: int, what: str) -> str:
    mark = None
    reason: object = " ".join(str(error).split())
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context
    column = f", column {mark.column + 1}" if mark else ""
    return f"line {first_line + (mark.line if mark else 0)}{column}: {what}: {reason}"


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
