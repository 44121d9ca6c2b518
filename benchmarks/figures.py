"""What was measured: samples of a quantity, the target beside it, and figures made from others."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Probe:
    """A way to take one sample, and how often to take it."""

    subject: str
    repeat: int
    take: Callable[[], dict[str, float]]


@dataclass(frozen=True)
class Figure:
    measurement: str
    subject: str
    quantity: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def best(self) -> float:
        return min(self.samples)

    @property
    def target(self) -> float | None:
        return TARGETS.get((self.measurement, self.subject, self.quantity))

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.median <= self.target


@dataclass(frozen=True)
class Failure:
    """A probe that could not be taken."""

    measurement: str
    subject: str
    reason: str


MB = 1_000_000
TARGETS = {
    ("instant", "evalwright sync", "cpu_seconds"): 1.0,
    ("instant", "evalwright async", "cpu_seconds"): 1.0,
    ("instant", "evalwright / pydantic-evals, sync", "cpu_ratio"): 0.5,
    ("instant", "evalwright / pydantic-evals, async", "cpu_ratio"): 0.5,
    ("instant", "evalwright sync", "peak_bytes"): 70 * MB,
    ("instant", "evalwright async", "peak_bytes"): 70 * MB,
    ("latency", "evalwright sync", "bound_ratio"): 1.0,
    ("latency", "evalwright async", "bound_ratio"): 1.0,
    ("memory", "evalwright 10,000", "peak_bytes"): 70 * MB,
    ("startup", "evalwright --version", "wall_seconds"): 0.12,
    ("startup", "evalwright --help", "wall_seconds"): 0.15,
    ("readback", "evalwright show", "wall_seconds"): 0.4,
    ("checks", "evalwright", "cpu_seconds"): 2.0,
    ("checks", "evalwright", "rescore_cpu_seconds"): 2.0,
}


def derived(figures: list[Figure]) -> list[Figure]:
    """Figures that follow from the measured ones, where those are there."""
    known = {(f.measurement, f.subject, f.quantity): f for f in figures}
    return [*ratios(known), *peers_memory(figures), *growth(known)]


Known = dict[tuple[str, str, str], Figure]


def ratios(known: Known) -> list[Figure]:
    made = []
    for kind in ("sync", "async"):
        ours = known.get(("instant", f"evalwright {kind}", "cpu_seconds"))
        theirs = known.get(("instant", f"pydantic-evals {kind}", "cpu_seconds"))
        if ours and theirs:
            subject = f"evalwright / pydantic-evals, {kind}"
            made.append(Figure("instant", subject, "cpu_ratio", (ours.median / theirs.median,)))
    return made


def peers_memory(figures: list[Figure]) -> list[Figure]:
    return [
        Figure("memory", f"{f.subject} 10,000", f.quantity, f.samples)
        for f in figures
        if (f.measurement, f.quantity) == ("instant", "peak_bytes")
        and not f.subject.startswith("evalwright")
    ]


def growth(known: Known) -> list[Figure]:
    made = []
    for quantity in ("peak_bytes", "suite_bytes", "summary_bytes"):
        few = known.get(("memory", "evalwright 10,000", quantity))
        many = known.get(("memory", "evalwright 100,000", quantity))
        if few and many:
            grown = (many.median - few.median,)
            made.append(Figure("memory", "evalwright growth", quantity, grown))
    return made
