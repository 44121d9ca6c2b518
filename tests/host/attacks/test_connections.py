"""Connections that clients hold without need, and without a key."""

import pytest

from evalwright.host.http import guarded_connection as connection
from host.attacks.raw_client import all_of, connected, request
from host.caller import Caller
from host.server import ServedHost
from subjects.waiting import eventually

HEALTH = "/v1/host/healthz"
SOON = 0.2  # for clients that are to be too late
IN_TIME = 3  # by which a client of this process has sent its head, however busy the machine
LONG = 4_150_000  # just below the longest body: the system's own buffers may take 3 MB


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads have to come at once, and answers have to be read at once."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", SOON)
    monkeypatch.setattr(connection, "STALL_SECONDS", SOON)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "sent",
    [b"", b"\r\n", b"GET", b"GET /v1/host/healthz HTTP/1.1\r\nHost: h\r\nX-Slow: "],
    ids=["nothing", "a blank line", "a word", "half of the headers"],
)
def test_a_connection_on_which_no_request_comes_is_ended(caller: Caller, sent: bytes) -> None:
    with connected(caller, sent) as client:
        assert all_of(client) == b""


def test_after_an_answer_the_next_head_has_to_come_soon_too(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", IN_TIME)
    with connected(caller, request(caller, HEALTH)) as client:
        assert client.recv(4096).startswith(b"HTTP/1.1 200 OK")
        client.sendall(b"GET /v1/ho")
        assert b"HTTP" not in all_of(client)


def test_a_stream_outlasts_the_time_that_a_head_may_take(
    served: ServedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = served.caller()
    run_id = caller.start(agent_id="acme.gated", suite=_waiting(caller))
    monkeypatch.setattr(connection, "HEAD_SECONDS", IN_TIME)
    with caller.stream(f"/v1/runs/{run_id}/events") as stream:
        frames = iter(stream)
        next(frames)
        with connected(caller) as idle:
            all_of(idle)  # ended for its lateness, which the stream has outlasted
        caller.post(f"/v1/runs/{run_id}/cancel", {})
        assert [frame.name for frame in frames][-1] == "run.cancelled"


def test_several_requests_may_come_at_once(caller: Caller) -> None:
    twice = request(caller, HEALTH) + request(caller, HEALTH).replace(
        b"Host: h", b"Connection: close\r\nHost: h"
    )
    with connected(caller, twice) as client:
        assert all_of(client).count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /v1/", b"a" * 1000),
        (b"GET /v1/host/healthz HTTP/1.1\r\nX-Long: ", b"a" * 1000),
        (b"GET /v1/host/healthz HTTP/1.1\r\n", b"X-Many: headers\r\n" * 60),
    ],
    ids=["a long path", "a long header", "many headers"],
)
def test_a_head_that_does_not_end_is_refused(caller: Caller, begin: bytes, more: bytes) -> None:
    with connected(caller, begin) as client:
        try:
            for _ in range(100_000):
                client.sendall(more)
        except OSError:  # the host has ended the connection
            return
    raise AssertionError("the host took a head of 100 MB")


def test_who_does_not_read_loses_the_connection(
    served: ServedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "STALL_SECONDS", 1)  # for it to be seen meanwhile
    caller = served.caller()
    path = _long_suite(caller)
    with connected(caller, request(caller, path)) as client:
        eventually(lambda: served.host.response_budget.held, "an answer on its way")
        eventually(lambda: not served.host.response_budget.held, "the end of the connection")
        assert len(all_of(client)) < LONG


def _waiting(caller: Caller) -> str:
    task = {
        "taskId": "waits",
        "input": "wait",
        "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "yes"}},
    }
    return caller.publish(_suite("waiting", task))


def _long_suite(caller: Caller) -> str:
    task = {
        "taskId": "long",
        "input": "x" * LONG,
        "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "yes"}},
    }
    return f"/v1/suites/{caller.publish(_suite('long', task))}"


def _suite(name: str, task: dict[str, object]) -> dict[str, object]:
    return {
        "suiteId": f"acme.evals.{name}",
        "version": "1.0.0",
        "modes": ["golden"],
        "tasks": [task],
    }
