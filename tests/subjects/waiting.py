"""Waiting for a condition, never for an amount of time."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

DEADLINE_SECONDS = 300  # of tests that hang: a busy machine takes its time
POLL_SECONDS = 0.002
TIME_LIMIT_S = 600.0  # that nothing reaches, however slow the machine, until time is let pass

T = TypeVar("T")


def eventually(condition: Callable[[], T], what: str = "the condition") -> T:
    """The first true value of the condition; fails when there is none before the deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(POLL_SECONDS)
    raise AssertionError(f"{what} did not come true within {DEADLINE_SECONDS} s")


def is_gone(process: int) -> bool:
    """Whether nothing but its number is left of a process."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def let_time_pass(seconds: float) -> None:
    """In an event loop of asyncio: what would come due meanwhile is due now."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]


class Journal:
    """What agents in other processes have noted, a line for each thing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.gate = path.with_name("gate")

    @property
    def environment(self) -> dict[str, str]:
        """What an agent needs to know to write here and to wait at the gate."""
        return {"JOURNAL": str(self.path), "GATE": str(self.gate)}

    def lines(self) -> list[str]:
        """Every whole line so far."""
        text = self.path.read_text() if self.path.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()

    def wait_for(self, count: int) -> list[str]:
        """The lines, as soon as there are so many."""
        return eventually(
            lambda: lines if len(lines := self.lines()) >= count else None,
            f"{count} lines in the journal",
        )

    def open_gate(self) -> None:
        """Let the agents that wait at the gate go on."""
        self.gate.touch()

    def clear(self) -> None:
        """Begin anew."""
        self.path.unlink(missing_ok=True)
