"""The table of detectors, and the signals of a trace."""

from collections.abc import Callable, Iterable

from evalwright.contracts.report import SEVERITIES, Signal
from evalwright.signals.scene import Scene
from evalwright.trace.model import Trace

Detector = Callable[[Scene], Iterable[Signal]]

# A new kind of signal is one module and one line here.
DETECTORS: tuple[Detector, ...] = ()


def detect(trace: Trace, baseline: Trace | None = None) -> tuple[Signal, ...]:
    """All signals of a trace, the gravest first, otherwise in the order of the table."""
    scene = Scene(trace, baseline)
    found = [signal for detector in DETECTORS for signal in detector(scene)]
    return tuple(sorted(found, key=lambda signal: -SEVERITIES.index(signal.severity)))
