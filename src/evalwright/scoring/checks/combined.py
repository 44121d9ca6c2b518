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


def broken(looks: Sequence[Look]) -> bool:
    """Whether one of them could not look, so that nobody knows whether it holds."""
    return any(look.broken for look in looks)
