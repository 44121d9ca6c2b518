"""The table of detectors, and the signals of a trace."""

from collections.abc import Callable, Iterable

from evalwright.contracts.report import SEVERITIES, Signal
from evalwright.signals.actions import ACTION_DETECTORS
from evalwright.signals.disclosure import (
    find_pii_in_output,
    find_secrets_in_output,
    find_token_exfil,
)
from evalwright.signals.injection import find_injections
from evalwright.signals.outbound import OUTBOUND_DETECTORS
from evalwright.signals.trace_view import TraceView
from evalwright.signals.transport import TRANSPORT_DETECTORS
from evalwright.trace.model import Trace

Detector = Callable[[TraceView], Iterable[Signal]]

# A new kind of signal is one module and one line here.
DISCLOSURES: tuple[Detector, ...] = (
    find_token_exfil,
    find_secrets_in_output,
    find_pii_in_output,
)
DETECTORS: tuple[Detector, ...] = (
    find_injections,
    *DISCLOSURES,
    *ACTION_DETECTORS,
    *OUTBOUND_DETECTORS,
    *TRANSPORT_DETECTORS,
)


def detect(
    trace: Trace, baseline: Trace | None = None, *, clean: bool = False
) -> tuple[Signal, ...]:
    """All signals of a trace, the gravest first, otherwise in the order of the table.

    `clean` says that the record of the trace was scanned already and holds nothing sensitive, so
    nothing can have been disclosed.
    """
    scene = TraceView(trace, baseline)
    used = _WITHOUT_DISCLOSURES if clean else DETECTORS
    found = [signal for detector in used for signal in detector(scene)]
    found.sort(key=lambda signal: -SEVERITIES.index(signal.severity))
    return tuple(found)


_WITHOUT_DISCLOSURES = tuple(each for each in DETECTORS if each not in DISCLOSURES)
