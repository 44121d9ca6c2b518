"""Progress of a run, or of prompts that are judged: how many, share passed, cost, time left."""

import contextlib
import heapq
import time
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO

import msgspec

from evalwright.contracts.amounts import dollars, percent, span
from evalwright.contracts.events import EvalScored, ProviderUsage
from evalwright.reports.formats.console import Style

if TYPE_CHECKING:
    from rich.text import Text

LINE_EVERY_SECONDS = 5.0
SLOWEST = 3


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
        self.slowest: list[tuple[int, str]] = []
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
                latency = (scored.latency_ms or 0, scored.task_id)
                if len(self.slowest) < SLOWEST:
                    heapq.heappush(self.slowest, latency)
                else:
                    heapq.heappushpop(self.slowest, latency)
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

    def line(self) -> str:
        """The progress in one line; the time to go follows from the pace so far."""
        parts = [f"{self.done}/{self.total} {self._noun}"]
        if self.done:
            parts.append(f"{percent(self.passed, self.done)} passed")
        if self._errors:
            parts.append(f"{self._errors} {'error' if self._errors == 1 else 'errors'}")
        if self._priced:
            parts.append(dollars(float(self._cost)))
        fresh = self.done - self._done_before
        if fresh and self.done < self.total:
            remaining_s = (time.monotonic() - self._began) / fresh * (self.total - self.done)
            parts.append(f"about {_duration(remaining_s)} left")
        return " · ".join(parts)

    def slowest_line(self) -> str:
        ranked = sorted(self.slowest, reverse=True)
        return ", ".join(f"{task} {span(latency)}" for latency, task in ranked)


class PlainProgress(Progress):
    """A plain line now and then, for logs and pipes."""

    def __init__(self, stream: TextIO, *so_far: Any, ends: bool = True) -> None:
        super().__init__(*so_far)
        self._stream = stream
        self._ends = ends  # with a line
        self._next = time.monotonic() + LINE_EVERY_SECONDS

    def refresh(self) -> None:
        """Write a line when it is time."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY_SECONDS
            self._write()

    def __exit__(self, *_: object) -> None:
        if self._ends:
            self._write()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # nobody need read it
            self._stream.write(self.line() + "\n")
            self._stream.flush()


class LiveProgress(Progress):
    """A display that redraws itself on a terminal."""

    def __init__(self, stream: TextIO, total: int, *so_far: Any) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(total, *so_far)
        console = Console(file=stream, no_color=not Style.of(stream).colour, highlight=False)
        self._live = Live(
            console=console, get_renderable=self._draw, refresh_per_second=8, transient=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _draw(self) -> "Text":
        from rich.text import Text

        filled = round(30 * self.done / self.total) if self.total else 0
        text = Text()
        text.append("━" * filled, "green").append("━" * (30 - filled), "bright_black")
        text.append(f"  {self.line()}")
        if self.slowest:
            text.append(f"\nslowest: {self.slowest_line()}", "dim")
        return text


def progress_for(
    stream: TextIO,
    total: int,
    done: int = 0,
    passed: int = 0,
    cost_usd: float | None = None,
    *,
    quiet: bool,
    noun: str = "tasks",
    ends: bool = True,
) -> Progress:
    """The display that fits a stream, for a run of so many tasks; plain, it `ends` with a line."""
    so_far = (total, done, passed, cost_usd, noun)
    if quiet:
        return Progress(*so_far)
    if stream.isatty():
        return LiveProgress(stream, *so_far)
    return PlainProgress(stream, *so_far, ends=ends)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"
