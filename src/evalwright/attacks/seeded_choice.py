"""Pseudo-random choices: a function of the seed and of what the choice is for."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

Choice = TypeVar("Choice")

_MARK = 8  # hex digits


class Chance:
    """The choices for one attack: the same on every machine, whatever else is in the suite."""

    def __init__(self, seed: int, *names: str) -> None:
        self._key = "\n".join((str(seed), *names))

    def choose(self, what: str, options: Sequence[Choice]) -> Choice:
        """One of the options; `what` keeps different choices apart."""
        return options[int(self._digest(what), 16) % len(options)]

    def rank(self) -> str:
        """A key to sort by, in an order that looks like chance."""
        return self._digest("rank")

    def mark(self) -> str:
        """A short code by which this very attack is known again."""
        return self._digest("mark")[:_MARK]

    def _digest(self, what: str) -> str:
        return hashlib.sha256(f"{self._key}\n{what}".encode()).hexdigest()
