"""Fixtures: canned tool answers and seeded memory, so that a task means the same every time."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from evalwright.contracts.redaction import NOTHING_SECRET, Redactor
from evalwright.contracts.suite import Fixtures


class NoFixture(LookupError):
    """A call to a tool that the fixtures do not answer."""


class ToolFixtures:
    """The canned answers of one task: each tool's in order, then its last one again."""

    def __init__(self, fixtures: Fixtures | None) -> None:
        self._answers: dict[str, list[Any]] = {}
        self._taken: dict[str, int] = {}
        for entry in fixtures.tool_responses if fixtures else ():
            self._answers.setdefault(entry.tool, []).append(
                None if entry.response is msgspec.UNSET else entry.response
            )

    def names(self) -> list[str]:
        """The tools that have an answer."""
        return list(self._answers)

    def take(self, tool: str) -> msgspec.Raw:
        """The next answer of a tool, as JSON: every taker gets a copy of its own."""
        answers = self._answers.get(tool)
        if answers is None:
            known = ", ".join(sorted(self._answers)) or "none"
            raise NoFixture(
                f"the task has no toolResponses entry for {tool!r} (it has: {known}); "
                "live tools are never called in its place"
            )
        taken = self._taken.get(tool, 0)
        self._taken[tool] = taken + 1
        return msgspec.Raw(msgspec.json.encode(answers[min(taken, len(answers) - 1)]))


class Memory(list[dict[str, Any]]):
    """The memory entries an agent starts with: those of its task, and of nobody else."""

    @classmethod
    def seeded(
        cls,
        fixtures: Fixtures | None,
        redactor: Redactor = NOTHING_SECRET,
        now: datetime | None = None,
    ) -> "Memory":
        """A copy of the task's seed without known secrets; what an agent does to it stays there.

        An entry whose `expiresAt` is not after `now` is left out.
        """
        if fixtures is None or not fixtures.memory_seed:
            return cls()
        seed = msgspec.json.decode(redactor.redact(msgspec.json.encode(fixtures.memory_seed)))
        now = now or datetime.now(UTC)
        return cls(entry for entry in seed if not _has_expired(entry, now))

    def get(self, entry_id: str) -> dict[str, Any] | None:
        """The entry with this id."""
        return next((entry for entry in self if entry.get("id") == entry_id), None)


def _has_expired(entry: dict[str, Any], now: datetime) -> bool:
    """Whether the time of an entry is over; what is no date-time says nothing of that."""
    try:
        end = datetime.fromisoformat(entry["expiresAt"].upper())
    except (KeyError, AttributeError, TypeError, ValueError):
        return False
    return (end if end.tzinfo else end.replace(tzinfo=UTC)) <= now
