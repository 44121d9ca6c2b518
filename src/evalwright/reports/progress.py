"""Progress of a run: how far, how good, how dear, how long still."""

import contextlib
import heapq
import time
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol, TextIO

import msgspec

from evalwright.contracts.events import EvalScored, ProviderUsage
from evalwright.reports.style import Style

if TYPE_CHECKING:
    from rich.text import Text

LINE_EVERY_SECONDS = 5.0
SLOWEST = 3


class Recorded(Protocol):
    """An event that has become durable."""

    @property
    def type(self) -> str:
        """Its type."""

    @property
    def body(self) -> bytes:
        """Its payload, as JSON."""


class Standing:
    """Where a run stands; told of durable events only."""

    def __init__(
        self, total: int, done: int = 0, passed: int = 0, cost_usd: float | None = None
    ) -> None:
        self.total = total
        self.done = done
        self.passed = passed
        self.slowest: list[tuple[int, str]] = []
        self._done_before = done
        self._cost = Decimal(repr(cost_usd or 0.0))
        self._priced = cost_usd is not None
        self._began = time.monotonic()

    def take(self, events: Sequence[Recorded]) -> None:
        """Fold events in."""
        for event in events:
            if event.type == EvalScored.TYPE:
                self._take_score(msgspec.json.decode(event.body, type=EvalScored))
            elif event.type == ProviderUsage.TYPE:
                usage = msgspec.json.decode(event.body, type=ProviderUsage)
                if usage.cost_estimate_usd is not None:
                    self._priced = True
                    self._cost += Decimal(repr(usage.cost_estimate_usd))

    def line(self) -> str:
        """The standing in one line."""
        parts = [f"{self.done}/{self.total} tasks"]
        if self.done:
            parts.append(f"{100 * self.passed / self.done:.1f} % passed")
        if self._priced:
            parts.append(f"${float(self._cost):.6g}")
        remaining = self.remaining_s()
        if remaining is not None:
            parts.append(f"about {_duration(remaining)} left")
        return " · ".join(parts)

    def slowest_line(self) -> str:
        """The slowest tasks so far."""
        ranked = sorted(self.slowest, reverse=True)
        return ", ".join(f"{task} {latency} ms" for latency, task in ranked)

    def remaining_s(self) -> float | None:
        """The time to go, from the pace so far."""
        fresh = self.done - self._done_before
        if not fresh or self.done >= self.total:
            return None
        return (time.monotonic() - self._began) / fresh * (self.total - self.done)

    def _take_score(self, scored: EvalScored) -> None:
        self.done += 1
        self.passed += scored.passed
        entry = (scored.latency_ms or 0, scored.task_id)
        if len(self.slowest) < SLOWEST:
            heapq.heappush(self.slowest, entry)
        else:
            heapq.heappushpop(self.slowest, entry)


class Progress(Protocol):
    """Shows where a run stands while it goes on."""

    def take(self, events: Sequence[Recorded]) -> None:
        """Be told of durable events."""

    def __enter__(self) -> "Progress": ...
    def __exit__(self, *_: object) -> None: ...


class Silence:
    """Shows nothing."""

    def take(self, events: Sequence[Recorded]) -> None:
        """Be told of durable events."""

    def __enter__(self) -> "Silence":
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Lines:
    """A plain line now and then, for logs and pipes."""

    def __init__(self, standing: Standing, stream: TextIO) -> None:
        self._standing = standing
        self._stream = stream
        self._next = time.monotonic() + LINE_EVERY_SECONDS

    def take(self, events: Sequence[Recorded]) -> None:
        """Fold events in, and say so when it is time."""
        self._standing.take(events)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY_SECONDS
            self._say(self._standing.line())

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self._say(self._standing.line())

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError):  # nobody need read it
            self._stream.write(line + "\n")
            self._stream.flush()


class LiveDisplay:
    """A display that redraws itself on a terminal."""

    def __init__(self, standing: Standing, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._standing = standing
        console = Console(file=stream, no_color=not Style.of(stream).colour, highlight=False)
        self._live = Live(
            console=console, get_renderable=self._draw, refresh_per_second=8, transient=True
        )

    def take(self, events: Sequence[Recorded]) -> None:
        """Fold events in; the display looks for itself."""
        self._standing.take(events)

    def __enter__(self) -> "LiveDisplay":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _draw(self) -> "Text":
        from rich.text import Text

        standing = self._standing
        filled = round(30 * standing.done / standing.total) if standing.total else 0
        text = Text()
        text.append("━" * filled, "green").append("━" * (30 - filled), "bright_black")
        text.append(f"  {standing.line()}")
        if standing.slowest:
            text.append(f"\nslowest: {standing.slowest_line()}", "dim")
        return text


def progress_for(standing: Standing, stream: TextIO, *, quiet: bool) -> Progress:
    """The fitting display for a stream."""
    if quiet:
        return Silence()
    return LiveDisplay(standing, stream) if stream.isatty() else Lines(standing, stream)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"
