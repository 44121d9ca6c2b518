"""Counters, gauges and histograms, and the Prometheus text format."""

import math
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import ClassVar

MAX_SERIES = 1000  # of one metric; further label values share one series
OTHER = "other"

Labels = tuple[str, ...]


class Family(ABC):
    """A metric: its name, its help text, and a series for every set of label values."""

    kind: ClassVar[str]

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.labels = tuple(labels)
        self._help_text = help_text
        self._lock = threading.Lock()

    def lines(self) -> Iterator[str]:
        """The metric in the text format."""
        yield f"# HELP {self.name} {_escape_help(self._help_text)}"
        yield f"# TYPE {self.name} {self.kind}"
        with self._lock:
            samples = list(self._samples())
        for suffix, labels, value in samples:
            yield f"{self.name}{suffix}{_label_text(labels)} {_number(value)}"

    @abstractmethod
    def _samples(self) -> Iterator[tuple[str, list[tuple[str, str]], float]]:
        """The current values."""

    def _key(self, known: Collection[Labels], values: Labels) -> Labels:
        """The series of these label values; the number of series is bounded."""
        assert len(values) == len(self.labels), f"{self.name} has the labels {self.labels}"
        if values in known or len(known) < MAX_SERIES:
            return values
        return (OTHER,) * len(values)

    def _named(self, values: Labels) -> list[tuple[str, str]]:
        return list(zip(self.labels, values, strict=True))


class Counter(Family):
    """A number that only grows."""

    kind = "counter"

    def __init__(
        self, name: str, help_text: str, labels: Sequence[str] = (), begin_with: Sequence[str] = ()
    ) -> None:
        super().__init__(name, help_text, labels)
        begin = [(each,) for each in begin_with] if labels else [()]
        self._values: dict[Labels, float] = dict.fromkeys(begin, 0)

    def add(self, *labels: str, by: float = 1) -> None:
        """Count something, once or by an amount."""
        assert by >= 0, f"{self.name} only grows"
        with self._lock:
            key = self._key(self._values, labels)
            self._values[key] = self._values.get(key, 0) + by

    def _samples(self) -> Iterator[tuple[str, list[tuple[str, str]], float]]:
        for values, value in self._values.items():
            yield "", self._named(values), value


class Gauge(Family):
    """A number that goes up and down; it has no labels."""

    kind = "gauge"

    def __init__(self, name: str, help_text: str) -> None:
        super().__init__(name, help_text)
        self._value: float = 0
        self._read: Callable[[], float] | None = None

    def add(self, by: float) -> None:
        """Change it by an amount."""
        with self._lock:
            self._value += by

    def read_from(self, read: Callable[[], float]) -> None:
        """From now on, ask for the value whenever the metrics are read."""
        self._read = read

    def _samples(self) -> Iterator[tuple[str, list[tuple[str, str]], float]]:
        yield "", [], self._read() if self._read else self._value


class Histogram(Family):
    """How many observations there were up to each bound, and their sum."""

    kind = "histogram"

    def __init__(
        self, name: str, help_text: str, bounds: Sequence[float], labels: Sequence[str] = ()
    ) -> None:
        super().__init__(name, help_text, labels)
        self._bounds = (*sorted(bounds), math.inf)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Take in one observation."""
        with self._lock:
            key = self._key(self._counts, labels)
            counts = self._counts.setdefault(key, [0] * len(self._bounds))
            counts[bisect_left(self._bounds, value)] += 1
            self._sums[key] = self._sums.get(key, 0) + value

    def _samples(self) -> Iterator[tuple[str, list[tuple[str, str]], float]]:
        for values, counts in self._counts.items():
            named, total = self._named(values), 0
            for bound, count in zip(self._bounds, counts, strict=True):
                total += count
                yield "_bucket", [*named, ("le", _number(bound))], total
            yield "_sum", named, self._sums[values]
            yield "_count", named, total


def _label_text(labels: list[tuple[str, str]]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels) + "}"


def _escape_label(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
