"""Fixtures: canned tool answers and seeded memory, so that a task means the same every time."""

from typing import Any

import msgspec

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
    """The memory entries an agent starts with."""

    @classmethod
    def seeded(cls, fixtures: Fixtures | None) -> "Memory":
        """A copy of the task's seed: what an agent does to it stays with that agent."""
        seed = fixtures.memory_seed if fixtures else []
        return cls(msgspec.json.decode(msgspec.json.encode(seed)) if seed else ())

    def get(self, entry_id: str) -> dict[str, Any] | None:
        """The entry with this id."""
        return next((entry for entry in self if entry.get("id") == entry_id), None)
