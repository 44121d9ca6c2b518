"""Captured bodies of failed calls: found, checked to be the run's own, and read."""

from pathlib import Path

import msgspec

from evalwright.comparison.run_folder import Unreadable, read_inside
from evalwright.trace.cached import cached

_CAPTURES = "_runner_failures"


class Captures(msgspec.Struct, frozen=True, dict=True):
    """Where the bodies of one side may lie: the run directory, and folders above it."""

    run: Path
    top: Path

    def read(self, reference: str) -> bytes | Unreadable:
        """The bytes of a captured file that a response names, or why they are not had.

        Names are relative to the run directory, then to its parents up to the folder of the
        cases. Only files of the run directory or of a `_runner_failures` folder are read: a
        response must not be able to put any other file into a report that is passed on.
        """
        if "\0" in reference:
            return Unreadable("its name holds a NUL character")
        for folder in self._folders:
            try:
                path = (folder / reference).resolve()
                if not path.is_file():
                    continue
            except (OSError, RuntimeError):
                continue
            if not self._is_capture(path):
                return Unreadable("it lies outside the run directory and its captures")
            return read_inside(path.parent, path.name)
        return Unreadable("it was not found")

    @cached
    def _folders(self) -> list[Path]:
        """The run directory, then those above it; found once, as every look costs many calls."""
        run = self.run.resolve()
        return [run, *(parent for parent in run.parents if parent.is_relative_to(self._top))]

    @cached
    def _top(self) -> Path:
        return self.top.resolve()

    def _is_capture(self, path: Path) -> bool:
        if path.is_relative_to(self._folders[0]):
            return True
        top = self._top
        return path.is_relative_to(top) and _CAPTURES in path.relative_to(top).parts[:-1]
