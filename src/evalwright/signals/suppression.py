"""Suppressions: signals that someone decided not to act upon, with a reason and an end.

A suppressed signal is not gone: it is reported beside the others, with the reason.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from evalwright.contracts.documents import parse_document
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.jsonvalue import child
from evalwright.contracts.report import Signal, Suppressed

Side: TypeAlias = Literal["baseline", "new"]

_FIELDS = ("kind", "case", "side", "tool", "rule", "reason", "expires")
_REQUIRED = {
    "kind": "name the kind of signal, for example untrusted_url_input",
    "reason": "say why this signal may be passed over",
    "expires": "give the last day on which it holds, for example 2026-12-31",
}


class Suppression(msgspec.Struct, frozen=True):
    """One entry. What it leaves out matches everything; `expires` is the last day it holds."""

    kind: str
    reason: str
    expires: date
    case: str | None = None
    side: Side | None = None
    tool: str | None = None
    rule: str | None = None

    def covers(self, signal: Signal, case_id: str, side: Side) -> bool:
        """Whether the entry speaks of this signal; its expiry is another matter."""
        return (
            self.kind == signal.kind
            and self.side in (None, side)
            and self.tool in (None, signal.details.tool)
            and self.rule in (None, signal.details.rule)
            and (self.case in (None, case_id) or fnmatchcase(case_id, self.case or ""))
        )


class Suppressions:
    """The entries of a file, and which of them have been of use."""

    def __init__(self, entries: Sequence[Suppression] = ()) -> None:
        self.entries = tuple(entries)
        self.used: set[int] = set()

    def apply(
        self, signals: Iterable[Signal], case_id: str, side: Side, today: date
    ) -> tuple[tuple[Signal, ...], tuple[Suppressed, ...]]:
        """The signals that stay, and those that an entry takes out, with its reason."""
        if not self.entries:
            return tuple(signals), ()
        kept: list[Signal] = []
        suppressed: list[Suppressed] = []
        for signal in signals:
            covering = (
                place
                for place, each in enumerate(self.entries)
                if today <= each.expires and each.covers(signal, case_id, side)
            )
            place = next(covering, None)
            if place is None:
                kept.append(signal)
            else:
                self.used.add(place)
                entry = self.entries[place]
                suppressed.append(Suppressed(signal, entry.reason, entry.expires.isoformat()))
        return tuple(kept), tuple(suppressed)

    def expired(self, today: date) -> tuple[Suppression, ...]:
        """The entries that no longer hold."""
        return tuple(entry for entry in self.entries if entry.expires < today)

    def unused(self) -> tuple[Suppression, ...]:
        """The entries that have taken nothing out so far."""
        return tuple(
            entry for place, entry in enumerate(self.entries) if place not in self.used
        )  # fmt: skip


def parse_suppressions(source: bytes, name: str) -> Suppressions:
    """Read a suppression file, YAML or JSON by its name; all its problems at once."""
    document = parse_document(source, name)
    problems = _check(document)
    if problems:
        raise InvalidDocument(name, problems)
    entries = document["suppressions"]
    return Suppressions([msgspec.convert(entry, Suppression) for entry in entries])


def _check(document: Any) -> list[Problem]:
    if not isinstance(document, dict) or not isinstance(document.get("suppressions"), list):
        message = "a suppression file holds one list named `suppressions`"
        return [Problem("$", message, "write suppressions: [{kind, reason, expires}]")]
    problems = [
        Problem(child("$", key), f"unknown field {key!r}", "known here: suppressions")
        for key in document
        if key != "suppressions"
    ]
    for place, entry in enumerate(document["suppressions"]):
        path = child("$.suppressions", place)
        if not isinstance(entry, dict):
            remedy = "give it kind, reason and expires"
            problems.append(Problem(path, "a suppression is an object", remedy))
            continue
        problems += [
            Problem(path, f"`{field}` is missing", remedy)
            for field, remedy in _REQUIRED.items()
            if field not in entry
        ]
        for key, value in entry.items():
            problem = _check_field(key, value, child(path, key))
            if problem is not None:
                problems.append(problem)
    return problems


def _check_field(key: str, value: Any, path: str) -> Problem | None:
    if key not in _FIELDS:
        return Problem(path, f"unknown field {key!r}", _nearest(key, _FIELDS))
    if not isinstance(value, str) or not value.strip():
        remedy = _REQUIRED.get(key, "leave it out to match everything")
        return Problem(path, f"`{key}` must be a text that is not empty", remedy)
    if key == "kind":
        from evalwright.signals.kinds import KIND_NAMES  # brings every detector with it

        if value in KIND_NAMES:
            return None
        return Problem(path, f"{value!r} is not a kind of signal", _nearest(value, KIND_NAMES))
    if key == "side" and value not in get_args(Side):
        return Problem(path, f"{value!r} is not a side", "baseline or new")
    if key == "expires" and not _is_day(value):
        return Problem(path, f"{value!r} is not a date", _REQUIRED["expires"])
    return None


def _nearest(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word[:60].lower(), known, n=1)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"


def _is_day(value: str) -> bool:
    try:
        return date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False
