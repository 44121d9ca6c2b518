"""Progress of a run, or of prompts that are judged: how many, share passed, cost, time left."""

import contextlib
import threading
import time
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Protocol, Self, TextIO

import msgspec

from evalwright.contracts.amounts import dollars, in_minutes
from evalwright.contracts.events import EvalScored, ProviderUsage
from evalwright.reports.formats.console import Shape, Style, draws, encoded, width

LINE_EVERY = 10  # tasks
MOST_LINES = 40  # of a run
RENEWED_SECONDS = 0.125
SHAPES_IN_LINE = 24
PLAIN = Style(colour=False)


class DurableEvent(Protocol):
    """An event that is in the log for good."""

    @property
    def type(self) -> str:
        """Its type."""

    @property
    def body(self) -> bytes:
        """Its payload, as JSON."""


class Progress:
    """How far a run is, by its durable events; this one shows nothing, its heirs do."""

    def __init__(
        self,
        total: int,
        done: int = 0,
        passed: int = 0,
        cost_usd: float | None = None,
        noun: str = "tasks",
    ) -> None:
        self.total = total
        self._noun = noun
        self._errors = 0
        self.done = done
        self.passed = passed
        self._done_before = done
        self._cost = Decimal(repr(cost_usd or 0.0))
        self._priced = cost_usd is not None
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def add(self, events: Sequence[DurableEvent]) -> None:
        for event in events:
            if event.type == EvalScored.TYPE:
                scored = msgspec.json.decode(event.body, type=EvalScored)
                self.count(passed=scored.passed)
            elif event.type == ProviderUsage.TYPE:
                usage = msgspec.json.decode(event.body, type=ProviderUsage)
                self._pay(usage.cost_estimate_usd)
        self.refresh()

    def count(self, *, passed: bool, is_error: bool = False, cost_usd: float | None = None) -> None:
        """Count one that is done."""
        self.done += 1
        self.passed += passed
        self._errors += is_error
        self._pay(cost_usd)
        self.refresh()

    def refresh(self) -> None:
        """Show it again, where it is shown."""

    def _pay(self, cost_usd: float | None) -> None:
        if cost_usd is not None:
            self._priced = True
            self._cost += Decimal(repr(cost_usd))

    def line(self, style: Style = PLAIN) -> str:
        """The progress in one line; the time to go follows from the pace so far."""
        failed, waiting = self.done - self.passed - self._errors, self.total - self.done
        shapes: list[tuple[Shape, int]] = [
            ("failed", failed),
            ("error", self._errors),
            ("passed", self.passed),
            ("waiting", waiting),
        ]
        noun = "" if self._noun == "tasks" else f" {self._noun}"
        parts = [f"{style.shape('running')} {self.done:,} of {self.total:,}{noun}"]
        parts += [f"{failed:,} failed"] if failed else []
        if self._errors:
            parts.append(f"{self._errors} {'error' if self._errors == 1 else 'errors'}")
        if self._priced:
            parts.append(dollars(float(self._cost)))
        fresh = self.done - self._done_before
        if fresh and self.done < self.total:
            remaining_s = (time.monotonic() - self._began) / fresh * (self.total - self.done)
            parts.append(f"{in_minutes(remaining_s)} left")
        # A line that is too long could not be renewed.
        while len(parts) > 2 and width("  ".join(parts)) >= style.width:
            parts.pop(-2)  # the time left comes last
        room = style.width - width("  ".join(parts)) - 3
        if room >= SHAPES_IN_LINE // 4:
            parts.insert(1, style.tasks(shapes, min(SHAPES_IN_LINE, room)))
        return "  ".join(parts)


class PlainProgress(Progress):
    """A line every ten tasks, or fewer of a large run, for logs and pipes."""

    def __init__(self, stream: TextIO, *so_far: Any) -> None:
        super().__init__(*so_far)
        self._stream = stream
        self._every = max(LINE_EVERY, -(-self.total // MOST_LINES))
        self._next = self.done + self._every

    def refresh(self) -> None:
        """Write a line when it is time."""
        if self._next <= self.done < self.total:
            self._next += self._every * (1 + (self.done - self._next) // self._every)
            with contextlib.suppress(OSError):  # nobody need read it
                self._stream.write(self.line() + "\n")
                self._stream.flush()


class LiveProgress(Progress):
    """A line on a terminal that is renewed, and goes when the run has ended."""

    def __init__(self, stream: TextIO, total: int, *so_far: Any) -> None:
        super().__init__(total, *so_far)
        self._stream = stream
        self._style = Style.of(stream)
        self._has_ended = threading.Event()
        self._clock = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Self:
        self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._clock.join()
        self._write("\x1b[K\x1b[?25h")

    def _renew(self) -> None:
        shown = ""
        while not self._has_ended.wait(RENEWED_SECONDS):
            line = self.line(self._style)
            if line != shown:
                self._write(f"\x1b[?25l{line}\x1b[K\r")
            shown = line

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(encoded(text, encoding).decode(encoding))
            self._stream.flush()


def progress_for(
    stream: TextIO,
    total: int,
    done: int = 0,
    passed: int = 0,
    cost_usd: float | None = None,
    *,
    quiet: bool,
    noun: str = "tasks",
) -> Progress:
    """The display that fits a stream, for a run of so many tasks."""
    so_far = (total, done, passed, cost_usd, noun)
    if quiet:
        return Progress(*so_far)
    return LiveProgress(stream, *so_far) if draws(stream) else PlainProgress(stream, *so_far)
