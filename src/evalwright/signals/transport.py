"""Signals about the transport: the call to the agent failed."""

from collections.abc import Iterator

from evalwright.contracts.report import Severity, Signal, SignalDetails
from evalwright.signals.trace_view import TraceView
from evalwright.trace.model import RunnerFailure

_KINDS = ("http_error", "timeout", "network_error", "invalid_json")


def runner_failures(scene: TraceView) -> Iterator[Signal]:
    """`runner_failure_detected`: there is no answer, so no event can prove it."""
    failure = scene.trace.failure
    if failure is None:
        return
    severity: Severity = "low" if failure.transient else "medium"
    yield Signal(
        "runner_failure_detected",
        severity,
        "high",
        "The call to the agent failed",
        SignalDetails(rule=f"transport/{_kind(failure)}", notes=_notes(failure)),
        (),
    )


def _notes(failure: RunnerFailure) -> str:
    status = "" if failure.status is None else f" with status {failure.status}"
    attempt = "" if failure.attempt is None else f" on attempt {failure.attempt}"
    lasting = "" if failure.transient is None else _lasting(failure)
    return f"The call to the agent ended in {_kind(failure)}{status}{attempt}{lasting}."


def _kind(failure: RunnerFailure) -> str:
    """The class of the failure; whatever else a runner wrote there is not repeated."""
    return failure.kind if failure.kind in _KINDS else "other"


def _lasting(failure: RunnerFailure) -> str:
    return ", which may pass" if failure.transient else ", which will not pass by itself"


TRANSPORT_DETECTORS = (runner_failures,)
