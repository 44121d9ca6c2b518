"""Writes values as YAML for people: block texts, comments, and nothing that another version of YAML
would read otherwise. `yaml_loader` reads back what was written.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

_STEP = "  "
_WIDEST = 88  # characters of a text on a line of its own
_NARROW = 76  # characters of a list or object that stands in one line
_FLAT, _FEW = 3, 8  # levels and members of one that may
_DEEPEST = 12  # levels that are written below each other; what is below stands in one line
_LONGEST_KEY = 500  # characters; YAML finds no colon after a longer one
_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./()'?!-]|, ?(?=[\w(])| (?=[\w(]))*", re.ASCII)
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class Noted(msgspec.Struct, frozen=True):
    """A value with remarks, which stand above it."""

    value: Any
    notes: tuple[str, ...]


def to_yaml(value: Any, level: int = 0) -> str:
    """A value as lines of a document, each with the indentation of this level."""
    return "".join(f"{line}\n" for line in _lines(value, _STEP * level, level))


def comment(text: str, indent: str = "") -> str:
    """A remark: one line, whatever the text is."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return f"{indent}# {' '.join(shown.split())}"


def _lines(value: Any, indent: str, level: int) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _member(key, each, indent, level)
    elif isinstance(value, list | tuple) and value:
        for each in value:
            yield from _item(each, indent, level)
    else:
        yield from _texts(indent, value, indent)


def _member(key: str, value: Any, indent: str, level: int) -> Iterator[str]:
    if isinstance(value, Noted):
        yield from (comment(note, indent) for note in value.notes)
        value = value.value
    name = _key(key)
    lead = f"{indent}{name}:" if len(name) < _LONGEST_KEY else f"{indent}? {name}\n{indent}:"
    if _is_below(value, level):
        yield lead
        yield from _lines(value, indent + _STEP, level + 1)
    else:
        yield from _texts(f"{lead} ", value, indent + _STEP)


def _item(value: Any, indent: str, level: int) -> Iterator[str]:
    if isinstance(value, Noted):
        yield from (comment(note, indent) for note in value.notes)
        value = value.value
    is_pair = isinstance(value, dict) and len(value) == 1 and level < _DEEPEST
    if not is_pair and not _is_below(value, level):
        yield from _texts(f"{indent}- ", value, indent + _STEP)
        return
    lines = _lines(value, indent + _STEP, level + 1)
    first = next(lines)
    if first.lstrip().startswith(("#", "?")):  # a remark, or a key that has a line to itself
        yield f"{indent}-"
        yield first
    else:
        yield f"{indent}- {first[len(indent) + len(_STEP) :]}"
    yield from lines


def _is_below(value: Any, level: int) -> bool:
    if not isinstance(value, dict | list | tuple) or not value or level >= _DEEPEST:
        return False
    return not (_is_shallow(value, _FLAT) and len(_flow(value)) <= _NARROW)


def _is_shallow(value: Any, levels: int) -> bool:
    if isinstance(value, Noted):
        return False
    if not isinstance(value, dict | list | tuple):
        return not isinstance(value, str) or not _is_block(value)
    inner = list(value.values() if isinstance(value, dict) else value)
    is_list_of_objects = not isinstance(value, dict) and any(isinstance(x, dict) for x in inner)
    if not levels or len(inner) > _FEW or is_list_of_objects:
        return False
    return all(_is_shallow(each, levels - 1) for each in inner)


def _texts(lead: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, str) and _is_block(value):
        kept = "-" if not value.endswith("\n") else "+" if value.endswith("\n\n") else ""
        yield f"{lead}|{kept}"
        lines = value.removesuffix("\n").split("\n")
        yield from (f"{indent}{line}" if line else "" for line in lines)
    else:
        yield f"{lead}{_scalar(value) if isinstance(value, str) else _flow(value)}"


def _is_block(text: str) -> bool:
    if "\n" not in text and len(text) <= _WIDEST:
        return False
    return not text[0].isspace() and text.replace("\n", "").replace("\t", "").isprintable()


def _flow(value: Any) -> str:
    if isinstance(value, Noted):
        return _flow(value.value)
    if isinstance(value, dict):
        members = ", ".join(_flow_member(key, each) for key, each in value.items())
        return f"{{ {members} }}" if members else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        return _quoted(value) if "?" in value else _scalar(value)
    return msgspec.json.encode(value).decode()


def _flow_member(key: str, value: Any) -> str:
    name = _key(key)
    return f"{'? ' if len(name) >= _LONGEST_KEY else ''}{name}: {_flow(value)}"


def _key(text: str) -> str:
    return text if _is_plain(text) and not set(" ,?") & set(text) else _quoted(text)


def _scalar(text: str) -> str:
    return text if len(text) <= _WIDEST and "," not in text and _is_plain(text) else _quoted(text)


def _is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None and text.lower() not in _RESERVED


def _quoted(text: str) -> str:
    is_simple = "'" not in text and ('"' in text or "\\" in text)
    if is_simple and text.isprintable():
        return f"'{text}'"
    return '"' + "".join(_ESCAPES.get(each) or _seen(each) for each in text) + '"'


def _seen(letter: str) -> str:
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
