"""What the checks of checks share: they look at all of them, and tell what each said."""

from collections.abc import Callable, Sequence
from typing import Any

from evalwright.scoring.checks.base import (
    NESTED,
    Answers,
    Examined,
    Look,
    Prepared,
    Preparing,
)

CHECKS_SCHEMA = {"type": "array", "minItems": 1, "items": NESTED}


def prepare_all(documents: Sequence[Any], preparing: Preparing, path: str) -> list[Prepared]:
    """The checks of a list."""
    return [preparing.nested(each, f"{path}[{n}]") for n, each in enumerate(documents)]


def combined(
    name: str, look: Callable[[Examined, Answers], Look], inner: Sequence[Prepared]
) -> Prepared:
    """A check of others, which needs and looks for what they do."""
    asks = tuple(dict.fromkeys(ask for each in inner for ask in each.asks))
    return Prepared(name, look, asks, seeks=[seek for each in inner for seek in each.seeks])


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
    return Look(False, 0.0, expected, failed[0][1].actual, reason, True, "missing_required_data")
