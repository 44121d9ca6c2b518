"""Transport failures: the agent could not be called."""

import pytest

from comparing import a_failure, a_trace
from evalwright.signals.actions import runner_failures
from evalwright.signals.trace_view import TraceView
from evalwright.trace.decode import decode_trace


def signals_of(response):
    return list(runner_failures(TraceView(decode_trace(response, "one", "Hello"))))


@pytest.mark.parametrize(("transient", "severity"), [(True, "low"), (False, "medium")])
def test_a_failure_that_may_pass_is_less_grave(transient, severity):
    (signal,) = signals_of(a_failure("timeout", is_transient=transient))
    assert (signal.kind, signal.severity) == ("runner_failure_detected", severity)


def test_the_note_says_class_and_status_and_no_event_is_cited():
    (signal,) = signals_of(a_failure("http_error", status=502))
    assert "http_error with status 502 on attempt 1" in signal.details.notes
    assert signal.details.rule == "transport/http_error"
    assert signal.evidence_refs == ()


def test_the_words_of_the_failure_are_not_repeated_at_length():
    (signal,) = signals_of(a_failure("x" * 10_000))
    assert len(signal.details.notes) < 200


def test_an_answered_call_is_no_failure():
    assert list(runner_failures(TraceView(a_trace()))) == []
