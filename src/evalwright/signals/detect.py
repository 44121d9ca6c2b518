"""The signals of a trace."""

from evalwright.contracts.report import SEVERITIES, Signal
from evalwright.signals.kinds import KINDS
from evalwright.signals.trace_view import TraceView
from evalwright.trace.model import Trace

DETECTORS = tuple(dict.fromkeys(kind.detect for kind in KINDS))
_IN_CLEAN_RECORDS = tuple(
    dict.fromkeys(kind.detect for kind in KINDS if not kind.needs_sensitive_text)
)


def detect(
    trace: Trace,
    baseline: Trace | None = None,
    *,
    clean: bool = False,
    regressed: bool = False,
) -> tuple[Signal, ...]:
    """All signals of a trace, the gravest first, otherwise in the order of the kinds.

    `clean` says that the record of the trace was scanned already and holds nothing sensitive, so
    nothing can have been disclosed. `regressed` says that its case got worse since the baseline.
    """
    view = TraceView(trace, baseline, regressed=regressed)
    used = _IN_CLEAN_RECORDS if clean else DETECTORS
    found = [signal for detector in used for signal in detector(view)]
    found.sort(key=lambda signal: -SEVERITIES.index(signal.severity))
    return tuple(found)
