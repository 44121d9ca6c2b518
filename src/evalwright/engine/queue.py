"""Which task is next: a queue that workers take from, whatever keeps it."""

from collections.abc import Iterable
from typing import Protocol


class TaskQueue(Protocol):
    """Hands out the tasks of a run, by their place in the suite."""

    async def take(self) -> int | None:
        """The next task to work on; None when there is none left."""


class LocalQueue:
    """The tasks of a run that one process executes; the log tells which are left."""

    def __init__(self, tasks: Iterable[int]) -> None:
        self._tasks = iter(tasks)

    async def take(self) -> int | None:
        """The next task to work on; None when there is none left."""
        return next(self._tasks, None)
