"""What the checks of checks share: they look at all of them, and tell what each said."""

from collections.abc import Sequence
from typing import Any

from evalwright.scoring.checks.base import (
    NESTED,
    Answers,
    Ask,
    Examined,
    Look,
    Prepared,
    Preparing,
)

CHECKS_SCHEMA = {"type": "array", "minItems": 1, "items": NESTED}


def prepare_all(documents: Sequence[Any], preparing: Preparing, path: str) -> list[Prepared]:
    """The checks of a list."""
    return [preparing.nested(each, f"{path}[{n}]") for n, each in enumerate(documents)]


def asks_of(prepared: Sequence[Prepared]) -> tuple[Ask, ...]:
    """What all of them must be told."""
    return tuple(dict.fromkeys(ask for each in prepared for ask in each.asks))


def look_at_all(prepared: Sequence[Prepared], examined: Examined, answers: Answers) -> list[Look]:
    """What each of them sees."""
    return [each.look(examined, answers) for each in prepared]


def told(prepared: Sequence[Prepared], looks: Sequence[Look]) -> str:
    """Why those that failed did."""
    failed = [(each.name, look) for each, look in zip(prepared, looks, strict=True)]
    return "; ".join(f"{name}: {look.reason}" for name, look in failed if not look.passed)


def broken(prepared: Sequence[Prepared], looks: Sequence[Look], expected: Any) -> Look | None:
    """What they come to where one of them could not look: an error is never a pass."""
    if not any(look.broken for look in looks):
        return None
    failed = [(each.name, look) for each, look in zip(prepared, looks, strict=True) if look.broken]
    reason = "; ".join(f"{name}: {look.reason}" for name, look in failed)
    return Look(False, 0.0, expected, failed[0][1].actual, reason, True)
