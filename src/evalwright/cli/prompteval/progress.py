"""Progress of a judged evaluation: how far, how good, how dear, how long still."""

import time
from decimal import Decimal
from types import TracebackType
from typing import Self, TextIO

from msgspec import UnsetType

from evalwright.contracts.prompt_result import PromptResult

LINE_EVERY_SECONDS = 5.0
BAR = 20


class PromptProgress:
    """One line that is rewritten on a terminal; elsewhere a line now and then."""

    def __init__(self, total: int, stream: TextIO, *, quiet: bool) -> None:
        self._total = total
        self._stream = stream
        self._quiet = quiet
        self._rewrites = stream.isatty()
        self._done = 0
        self._passed = 0
        self._errors = 0
        self._cost = Decimal(0)
        self._began = time.monotonic()
        self._said_at = self._began

    def take(self, result: PromptResult) -> None:
        """Count a record."""
        self._done += 1
        self._passed += result.passed
        self._errors += result.execution.status == "error"
        details = result.details
        if not isinstance(details, UnsetType) and details.cost_usd is not None:
            self._cost += Decimal(repr(details.cost_usd))
        now = time.monotonic()
        if self._rewrites or now - self._said_at >= LINE_EVERY_SECONDS:
            self._said_at = now
            self._say()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._rewrites and self._done and not self._quiet:
            self._stream.write("\n")

    def line(self) -> str:
        """Where it stands."""
        filled = BAR * self._done // self._total
        bar = "█" * filled + "░" * (BAR - filled)
        told = [f"{bar} {self._done}/{self._total} evaluations", f"{self._passed} passed"]
        if self._errors:
            told.append(f"{self._errors} {'error' if self._errors == 1 else 'errors'}")
        if self._cost:
            told.append(f"${self._cost:.4g}")
        left = self._total - self._done
        if left:
            pace = (time.monotonic() - self._began) / self._done
            told.append(f"about {round(pace * left)} s left")
        return " · ".join(told)

    def _say(self) -> None:
        if self._quiet:
            return
        if self._rewrites:
            self._stream.write(f"\r\x1b[2K{self.line()}")
        else:
            self._stream.write(f"{self.line()}\n")
        self._stream.flush()
