"""The log of the host: what it tells, and what it never does."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telemetry_runs import CANARY, TENANT, FixedClock, a_recorded_run, observe

from builders import RUN_ID, SUITE_ID, a_log, an_event
from evalwright.contracts.events import CapBreached, ProviderUsage, RunFailure
from evalwright.contracts.events import ErrorDetail as Error
from evalwright.host.telemetry.logs import audit, logging_to
from evalwright.host.telemetry.telemetry import RunOrigin, Telemetry
from evalwright.host.telemetry.trace_context import read_trace
from evalwright.signals.masking.credentials import mask_log_text

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
KEY = "ew_abcdefgh234567ab_" + "S3cretS3cret" * 3
TEST_KEY = "ew_test_abcdefgh234567ab_" + "S3cretS3cret" * 3


class Written(io.StringIO):
    """A stream that is a terminal, or is not."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def entries(self) -> list[dict]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture
def written():
    stream = Written()
    with logging_to(stream):
        yield stream


def test_a_request_is_logged_with_everything_but_its_content(written):
    Telemetry(FixedClock()).on_request(
        method="GET",
        route="/v1/runs/{runId}",
        status=404,
        seconds=0.0123456,
        correlation_id="c-1",
        tenant=TENANT,
        key_id="k1",
        run_id=RUN_ID,
        trace_id=TRACE,
    )
    (entry,) = written.entries
    assert entry.pop("ts").endswith("Z")
    assert entry == {
        "level": "info",
        "event": "request",
        "method": "GET",
        "route": "/v1/runs/{runId}",
        "status": 404,
        "latencyMs": 12.346,
        "runId": RUN_ID,
        "tenant": TENANT,
        "keyId": "k1",
        "correlationId": "c-1",
        "traceId": TRACE,
    }


def test_a_server_error_is_logged_as_an_error(written):
    Telemetry(FixedClock()).on_request("GET", None, 500, 0, correlation_id="c")
    assert written.entries[0]["level"] == "error"


def test_a_run_is_logged_when_it_is_created_and_when_it_ends(written):
    origin = RunOrigin("c-1", read_trace(f"00-{TRACE}-00f067aa0ba902b7-01"))
    observe(Telemetry(FixedClock()), a_log(), origin)
    created, completed = written.entries
    shared = {
        "level": "info",
        "runId": RUN_ID,
        "workflowId": SUITE_ID,
        "tenant": TENANT,
        "correlationId": "c-1",
        "traceId": TRACE,
    }
    assert created.items() >= (shared | {"metricKind": "openwop.run.created"}).items()
    end = {"metricKind": "openwop.run.completed", "status": "completed", "durationMs": 7}
    assert completed.items() >= (shared | end).items()


def test_a_failed_run_is_logged_with_its_code_and_not_with_its_message(written):
    events = [*a_log(ending="open"), an_event(RunFailure(Error("agent_unavailable", CANARY)))]
    observe(Telemetry(FixedClock()), events)
    failed = written.entries[-1]
    assert (failed["level"], failed["status"]) == ("error", "failed")
    assert failed["errorCode"] == "agent_unavailable"
    assert CANARY not in written.getvalue()


def test_an_error_code_that_is_a_text_is_not_repeated(written):
    observe(Telemetry(FixedClock()), [an_event(RunFailure(Error(f"a text: {CANARY}", "no")))])
    assert written.entries[-1]["errorCode"] == "other"


def test_cost_and_limits_are_logged_by_the_names_of_the_protocol(written):
    usage = ProviderUsage("openai", CANARY, 10, 2, cost_estimate_usd=0.5)
    events = [an_event(usage, "task-1"), an_event(CapBreached("budget-cost", 1, 2), sequence=1)]
    observe(Telemetry(FixedClock()), events)
    cost, limit = written.entries
    assert cost["metricKind"] == "openwop.cost.recorded"
    told = {"provider": "openai", "tokensInput": 10, "tokensOutput": 2, "nodeId": "task-1"}
    assert cost.items() >= (told | {"usd": 0.5, "estimated": True}).items()
    assert limit["metricKind"] == "openwop.cap.exceeded"
    assert (limit["kind"], limit["limit"], limit["observed"]) == ("budget-cost", 1, 2)


def test_what_matters_is_audited_and_a_refusal_stands_out(written):
    audit("deployment.promote", "denied", tenant=TENANT, key_id="k1", scope="deploy:promote")
    audit("key.revoke", "done", resource="k2")
    denied, done = written.entries
    assert (denied["event"], denied["level"], denied["outcome"]) == ("audit", "warning", "denied")
    assert (done["level"], done["resource"]) == ("info", "k2")


def test_nothing_that_a_run_is_about_is_logged(written, tmp_path):
    observe(Telemetry(FixedClock()), a_recorded_run(tmp_path))
    assert [entry["event"] for entry in written.entries] == ["run.created", "run.completed"]
    assert CANARY not in written.getvalue()


def test_an_exception_is_logged_by_type_and_place_without_its_message(written):
    def fail_with_content():
        raise ValueError(CANARY)

    try:
        fail_with_content()
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
    (entry,) = written.entries
    assert (entry["message"], entry["error"]) == ("Exception in ASGI application", "ValueError")
    assert "fail_with_content" in entry["stack"][0]
    assert CANARY not in written.getvalue()


def test_only_the_first_line_of_what_a_library_says_is_kept(written):
    message = "Task exception was never retrieved\nfuture: <Task exception=ValueError('%s')>"
    logging.getLogger("asyncio").error(message, CANARY)
    assert written.entries[0]["message"] == "Task exception was never retrieved"
    assert CANARY not in written.getvalue()


def test_the_server_speaks_through_the_same_log_and_its_access_log_is_silent(written):
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 7)
    logging.getLogger("uvicorn.access").info('GET /v1/runs?token=%s HTTP/1.1" 200', CANARY)
    (entry,) = written.entries
    assert entry["message"] == "Started server process [7]"
    assert entry["logger"] == "uvicorn.error"


def test_logging_is_as_it_was_after_the_block():
    root, access = logging.getLogger(), logging.getLogger("uvicorn.access")
    before = (list(root.handlers), root.level, access.disabled)
    with logging_to(Written()):
        assert list(root.handlers) != before[0]
    assert (list(root.handlers), root.level, access.disabled) == before


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"key {KEY} refused", "key [masked:credential] refused"),
        (f"key {TEST_KEY}, refused", "key [masked:credential], refused"),
        (f"Authorization: Bearer {KEY}", "[masked:credential]"),
        ("b'Authorization': b'opaque'", "b'[masked:credential]'"),
        ("{'authorization': 'Bearer opaque'}", "{'[masked:credential]'}"),
        ("bearer abc.def", "[masked:credential]"),
        ("https://user:pass@collector:4318/v1", "https://[masked:credential]@collector:4318/v1"),
        ("GET /v1/runs?limit=3 failed", "GET /v1/runs[masked:credential] failed"),
        ("api_key=abc", "[masked:credential]"),
        ("sk-canary-123456", "[masked:credential]"),
        ("Started server process [7]", "Started server process [7]"),
    ],
)
def test_what_is_shaped_like_a_credential_is_masked(text, kept):
    assert mask_log_text(text) == kept


@given(st.text(), st.text(), st.sampled_from([KEY, TEST_KEY]), st.booleans())
def test_a_key_is_never_logged_whatever_stands_around_it(before, after, key, terminal):
    stream = Written(terminal=terminal)
    with logging_to(stream):
        audit(f"{before} {key} {after}", "done", resource=f"{before}{key}", tenant=key)
        logging.getLogger("some.library").error("%s", f"{before} {key}{after}")
    assert "S3cret" not in stream.getvalue()


@given(st.text())
def test_a_line_is_one_line_whatever_it_is_told(text):
    for terminal in (False, True):
        stream = Written(terminal=terminal)
        with logging_to(stream):
            audit(text, "done", resource=text)
        assert stream.getvalue().count("\n") == 1
        assert stream.getvalue().endswith("\n")


def test_on_a_terminal_a_line_is_made_for_people():
    stream = Written(terminal=True)
    with logging_to(stream):
        Telemetry(FixedClock()).on_request(
            method="GET", route="/v1/runs", status=200, seconds=0.002, correlation_id="c"
        )
    line = stream.getvalue()
    assert not line.startswith("{")
    assert "INFO     request method=GET route=/v1/runs status=200 latencyMs=2.0" in line
