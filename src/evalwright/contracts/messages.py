"""Messages that name options, which every edge calls by names of its own.

    phrase("{@agent:{ref}}: there is no file {path}", ref=ref, path=path)

`{@field}` is an option, by its field in `RunOptions` or its keyword in Python, and `{@field:value}`
the same with a value. The command line writes `{@max_cost_usd}` as its help does, pytest with its
prefix, a host as on the wire; a command that is quoted has `{$field}`, which is the command line's
everywhere. As a text, a message is in the words of Python.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

_OPTION = re.compile(r"\{@(\w+)")
# What functions of Python take besides the fields of `RunOptions`; what neither has, only the
# command line offers, and it is called as there.
KEYWORDS = frozenset(
    (
        *("agent", "agent_id", "model_class", "config", "db", "cases"),
        *("tasks", "tagged", "failed", "errors", "sample", "seed", "limit"),
    )
)


class Edge(NamedTuple):
    """Where people meet messages: how options are written there, and what is said otherwise."""

    write: Callable[[str, str], str]  # a field, and a value or ""
    words: Mapping[str, str] = {}  # templates by the codes of messages


class OptionText(msgspec.Struct, frozen=True):
    """A text with options in it: a template and values, and a code where edges differ in more."""

    template: str
    code: str
    values: dict[str, Any]

    @property
    def field(self) -> str | None:
        """The option that the message is about: the first in it."""
        found = _OPTION.search(self.template)
        return found and found[1]

    def told(self, edge: Edge) -> str:
        """In the words of an edge."""
        values = {name: _told_value(value, edge) for name, value in self.values.items()}
        values["code"] = self.code
        return edge.words.get(self.code, self.template).format_map(_Values(values, edge))

    def __str__(self) -> str:
        return self.told(PYTHON)


def phrase(template: str, /, code: str = "", **values: Any) -> OptionText:
    """A message from its template, and the values in it."""
    return OptionText(template, code, values)


Text = str | OptionText


def told(text: object, edge: Edge) -> str:
    """A message, an error or a plain text in the words of an edge."""
    return str(_told_value(text, edge))


def _told_value(value: Any, edge: Edge) -> Any:
    return value.told(edge) if hasattr(value, "told") else value


class _Values(dict[str, Any]):
    """The values of a template; the other names in it are options."""

    def __init__(self, values: Mapping[str, Any], edge: Edge) -> None:
        super().__init__(values)
        self._edge = edge

    def __missing__(self, name: str) -> "_Option":
        if name[0] not in "@$":
            raise KeyError(name)
        return _Option(name[1:], self._edge if name[0] == "@" else IN_LOGS)


def _as_recorded(field: str, value: str) -> str:
    return as_option(_UNIT.sub("", field).replace("_", "-"), value)


_UNIT = re.compile(r"_(usd|s)$")
# What a log keeps is in the words of the command line, whoever began the run.
IN_LOGS = Edge(_as_recorded)


class _Option(NamedTuple):
    field: str
    edge: Edge

    def __format__(self, value: str) -> str:
        return self.edge.write(self.field, value)


def as_option(name: str, value: str) -> str:
    """An option as command lines write it."""
    return f"--{name} {value}" if value else f"--{name}"


def _as_keyword(field: str, value: str) -> str:
    from evalwright.contracts.run_plan import RunOptions  # which needs errors, and they this

    default = getattr(RunOptions(), field, KEYWORDS)
    if default is KEYWORDS and field not in KEYWORDS:
        return as_option(field.replace("_", "-"), value)
    if isinstance(default, bool):
        return f"{field}=True"
    if not value:
        return field
    is_list = isinstance(default, tuple) or field in ("tasks", "tagged")
    return f'{field}=["{value}"]' if is_list else f'{field}="{value}"'


PYTHON = Edge(
    _as_keyword,
    {
        "no_agent": "{name}: names no agent; give one: ew.run(…, agent=answer)",
    },
)
