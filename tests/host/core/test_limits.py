"""Limits: whoever asks too much, too often or nonsense is refused, and the host goes on."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.host.http import routing
from host.caller import Caller
from host.server import GATED, ServedHost, running_host
from subjects.waiting import Journal, eventually

WAITING = a_suite([a_task(input="wait")])


@contextmanager
def limited(tmp_path: Path, **settings: Any) -> Iterator[ServedHost]:
    with running_host(tmp_path / "host.db", settings=settings) as served:
        yield served


def raw(caller: Caller, *parts: bytes) -> bytes:
    """All that comes back for these bytes, until the host closes the connection."""
    with socket.create_connection(caller.address, timeout=60) as connection:
        try:
            for part in parts:
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # the host has heard enough
            pass
        return _read_all(connection)


def _read_all(connection: socket.socket) -> bytes:
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


# Bodies.


def test_a_body_that_is_too_long_is_refused_before_it_is_read(tmp_path: Path):
    with limited(tmp_path, max_body_bytes=1000) as served:
        caller = served.caller()
        reply = caller.post("/v1/suites", b" " * 1001)
        assert reply.refusal == (413, "request_too_large")
        assert reply.json()["details"]["maxRequestBodyBytes"] == 1000
        assert caller.post("/v1/suites", b" " * 1000).status == 400
        announced = served.nobody().get("/.well-known/openwop").json()["limits"]
        assert announced["maxRequestBodyBytes"] == 1000


def test_a_body_of_unknown_length_is_counted_as_it_comes(tmp_path: Path):
    with limited(tmp_path, max_body_bytes=1000) as served:
        caller = served.caller()
        head = _head(caller, "/v1/suites", "Transfer-Encoding: chunked")
        chunk = b"100\r\n" + b" " * 256 + b"\r\n"
        assert raw(caller, head, chunk * 8, b"0\r\n\r\n").startswith(b"HTTP/1.1 413 ")


def _head(caller: Caller, path: str, *headers: str) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: x",
        "Connection: close",
        "Content-Type: application/json",
        f"Authorization: Bearer {caller.key}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 65 + b"]" * 65,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"tags":' + b"[" * 64 + b"]" * 64 + b"}",
    ],
)
def test_a_body_that_is_nested_too_deeply_is_refused(newcomer: Caller, body: bytes):
    assert newcomer.post("/v1/runs", body).refusal == (400, "validation_error")


@pytest.mark.parametrize(
    "body", [b"9" * 5000, b"1e999999", b"NaN", b"-", b'"\\ud800"', b"\xff\xfe"]
)
def test_a_body_that_is_no_plain_json_is_refused(newcomer: Caller, body: bytes):
    assert newcomer.post("/v1/runs", body).refusal == (400, "validation_error")


def test_a_body_of_another_kind_is_refused(newcomer: Caller):
    headers = {"Content-Type": "text/plain"}
    refusal = newcomer.post("/v1/runs", b"{}", headers).refusal
    assert refusal == (415, "unsupported_media_type")


def test_a_body_that_does_not_come_is_not_waited_for(
    newcomer: Caller, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(routing, "BODY_SECONDS", 0.05)
    with socket.create_connection(newcomer.address, timeout=60) as connection:
        connection.sendall(_head(newcomer, "/v1/runs", "Content-Length: 100") + b'{"mode"')
        assert _read_all(connection).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_breaks_off_creates_nothing(newcomer: Caller):
    newcomer.publish(a_suite(1))
    raw(newcomer, _head(newcomer, "/v1/runs", "Content-Length: 1000"), b'{"mode":"eval"}')
    assert newcomer.run_ids() == []


# Bytes that are no request.

NONSENSE = {
    "zeros": b"\0" * 1000,
    "no protocol": b"hello\r\n\r\n",
    "a bad version": b"GET / HTTP/9.9\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c403") + b"\x01" * 200,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a line without end": b"GET /" + b"a" * 1_000_000,
    "a header without end": b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000,
    "100,000 headers": b"GET /v1/runs HTTP/1.1\r\n" + b"A: b\r\n" * 100_000 + b"\r\n",
    "a length that is no number": b"POST /v1/runs HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    "a negative length": b"POST /v1/runs HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST /v1/runs HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a bad chunk": b"POST /v1/runs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "a path with nothing in it": b"GET /v1/runs/\0%00 HTTP/1.1\r\n\r\n",
    "a path that is not UTF-8": b"GET /v1/runs/%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n",
    "an asterisk": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "an address": b"GET http://other/v1/runs HTTP/1.1\r\nHost: x\r\n\r\n",
    "a tunnel": b"CONNECT other:443 HTTP/1.1\r\nHost: other\r\n\r\n",
    "an upgrade": b"GET /v1/runs HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_refused_or_dropped_and_the_host_goes_on(newcomer: Caller, nonsense: bytes):
    answer = raw(newcomer, nonsense)
    assert not answer or answer.startswith(b"HTTP/1.1 4"), answer[:200]
    assert newcomer.get("/v1/runs").status == 200


PATHS = [
    "/v1/runs/%00",
    "/v1/runs/%2e%2e",
    "/v1/runs/a%2Fb",
    "/v1/runs/" + "x" * 10_000,
    "/v1/runs/%ff",
]


@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
@pytest.mark.parametrize("tail", ["", "/events", "/eval-summary", ":diff?against=x"])
def test_an_id_that_cannot_be_is_not_there(newcomer: Caller, path: str, tail: str):
    assert newcomer.get(path + tail).status in (400, 404)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "limit=1&limit=2", "limit=%00"]
)
def test_a_query_that_breaks_a_rule_is_refused(newcomer: Caller, query: str):
    assert newcomer.get(f"/v1/runs?{query}").refusal == (400, "validation_error")


def test_paths_outside_of_a_version_are_refused(newcomer: Caller):
    for path in ("/runs", "/healthz", "/v2/runs", "/metrics"):
        assert newcomer.get(path).refusal == (400, "validation_error")
    assert newcomer.get("/v1/nothing").refusal == (404, "not_found")


def test_a_method_that_a_path_does_not_take_is_refused_with_those_it_takes(newcomer: Caller):
    reply = newcomer.send("PATCH", "/v1/runs")
    assert reply.refusal == (405, "method_not_allowed")
    assert set(reply.headers["allow"].replace(" ", "").split(",")) >= {"GET", "POST"}


# Too often.


def test_a_key_that_asks_too_often_is_told_when_to_come_again(tmp_path: Path):
    rates = {"per_key": 0.001, "seconds_of_burst": 3000.0}
    with limited(tmp_path, rates=rates) as served:
        caller = served.caller()
        replies = [caller.get("/v1/runs") for _ in range(4)]
        assert [reply.status for reply in replies] == [200, 200, 200, 429]
        details = replies[3].json()["details"]
        assert (replies[3].error, details["scope"]) == ("rate_limited", "key")
        assert int(replies[3].headers["retry-after"]) >= details["retryAfterMs"] / 1000
        assert served.caller().get("/v1/runs").status == 200


def test_the_rate_is_looked_at_before_the_scope(tmp_path: Path):
    rates = {"per_key": 0.001, "seconds_of_burst": 1000.0}
    with limited(tmp_path, rates=rates) as served:
        caller = served.caller(scopes=["suites:read"])
        assert [caller.get("/v1/runs").status for _ in range(2)] == [403, 429]


def test_all_keys_of_a_tenant_share_its_rate(tmp_path: Path):
    rates = {"per_tenant": 0.001, "seconds_of_burst": 2000.0}
    with limited(tmp_path, rates=rates) as served:
        statuses = [served.caller().get("/v1/runs").status for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert served.caller("other").get("/v1/runs").status == 200


def test_who_tries_keys_is_slowed_down_and_nobody_else_is(tmp_path: Path):
    rates = {"per_address": 0.001, "seconds_of_burst": 2000.0}
    with limited(tmp_path, rates=rates) as served:
        statuses = [served.nobody().get("/v1/runs").status for _ in range(3)]
        assert statuses == [401, 401, 429]
        assert served.caller().get("/v1/runs").status == 200


# Too much at once.


def test_a_tenant_has_so_many_runs_at_once(tmp_path: Path, gate: Journal):
    with limited(tmp_path, max_runs_per_tenant=1) as served:
        caller = served.caller()
        first = caller.start(WAITING, GATED)
        reply = caller.create(WAITING, GATED)
        assert reply.refusal == (429, "rate_limited")
        assert int(reply.headers["retry-after"]) >= 1
        assert served.caller("other").create(WAITING, GATED).status == 201
        gate.open_gate()
        caller.finish(first)
        eventually(lambda: caller.create(WAITING, GATED).status == 201, "a free place")


def test_the_host_has_so_many_runs_at_once(tmp_path: Path, gate: Journal):
    with limited(tmp_path, max_runs=1) as served:
        served.caller("other").start(WAITING, GATED)
        reply = served.caller().create(WAITING, GATED)
        assert reply.refusal == (503, "service_unavailable")
        assert reply.headers["retry-after"] == str(reply.json()["details"]["retryAfter"])
        assert served.caller().run_ids() == []


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ("max_streams_per_tenant", (429, "rate_limited")),
        ("max_streams", (503, "service_unavailable")),
    ],
)
def test_there_are_so_many_streams_at_once(
    tmp_path: Path, gate: Journal, setting: str, refusal: tuple[int, str]
):
    with limited(tmp_path, **{setting: 1}) as served:
        caller = served.caller()
        run_id = caller.start(WAITING, GATED)
        path = f"/v1/runs/{run_id}/events"
        with caller.stream(path):
            assert caller.get(path).refusal == refusal
            assert caller.get(f"{path}/poll").refusal == refusal
            assert caller.get("/v1/runs").status == 200
        eventually(lambda: caller.get(f"{path}/poll").status == 200, "a free place")


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ("max_requests_per_tenant", (429, "rate_limited")),
        ("max_requests", (503, "service_unavailable")),
    ],
)
def test_there_are_so_many_requests_at_once(tmp_path: Path, setting: str, refusal: tuple[int, str]):
    with limited(tmp_path, **{setting: 1}) as served:
        caller = served.caller()
        with socket.create_connection(caller.address) as slow:
            slow.sendall(_head(caller, "/v1/runs", "Content-Length: 100"))
            eventually(lambda: served.host.requests.held == 1, "a request that waits")
            assert caller.get("/v1/runs").refusal == refusal
        eventually(lambda: served.host.requests.held == 0, "the end of the request")
        assert caller.get("/v1/runs").status == 200


def test_connections_that_say_nothing_keep_nobody_out(newcomer: Caller):
    silent = [socket.create_connection(newcomer.address) for _ in range(200)]
    try:
        assert newcomer.get("/v1/runs").status == 200
    finally:
        for connection in silent:
            connection.close()
