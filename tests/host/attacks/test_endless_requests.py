"""Requests that do not end: everything that arrives is counted and timed until it is answered."""

import asyncio
import gc
import socket
from contextlib import suppress

import pytest
import uvicorn
from uvicorn.server import ServerState

from evalwright.host.http import guarded_connection as connection
from evalwright.host.http.app import App
from host.attacks.raw_client import all_of, connected, request
from host.caller import Caller
from host.server import ServedHost
from subjects.waiting import DEADLINE_SECONDS, eventually

HEALTH = "/v1/host/healthz"
POST = b"POST /v1/runs HTTP/1.1\r\nHost: h\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
GET = b"GET /v1/host/healthz HTTP/1.1\r\nHost: h\r\n"
ENOUGH = 32 * 1024 * 1024  # more than a host takes of anything


def flood(client: socket.socket, more: bytes) -> int:
    """Send the same until the host ends the connection; returns how much it took."""
    sent, part = 0, more * max(1, 65536 // len(more))
    try:
        while sent < 4 * ENOUGH:
            client.sendall(part)
            sent += len(part)
    except OSError:
        pass
    return sent


@pytest.mark.parametrize("is_known", [True, False], ids=["with a key", "without a key"])
@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (CHUNKED + b"0\r\n", b"X-Trailer: more\r\n"),
        (CHUNKED + b"0\r\nX-Long: ", b"more"),
        (CHUNKED + b"1;ext=", b"more"),
        (CHUNKED, b"1;a=b\r\n \r\n"),
        (CHUNKED, b"10000\r\n" + b" " * 65536 + b"\r\n"),
        (POST + b"Content-Length: 900000000000\r\n\r\n", b" " * 65536),
        (GET + b"Content-Length: 900000000000\r\n\r\n", b" " * 65536),
        (GET + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"),
        (b"", b"\r\n"),
    ],
    ids=[
        "trailers",
        "a trailer",
        "an extension",
        "tiny chunks",
        "chunks",
        "a body",
        "a body of a GET",
        "chunks of a GET",
        "blank lines",
    ],
)
def test_what_does_not_end_is_cut_off(
    lasting: ServedHost, begin: bytes, more: bytes, *, is_known: bool
) -> None:
    if is_known:
        key = f"Host: h\r\nAuthorization: Bearer {lasting.key()}".encode()
        begin = begin.replace(b"Host: h", key)
    with connected(lasting.nobody(), begin) as client:
        assert flood(client, more) < ENOUGH


def test_trailers_are_not_kept(lasting: ServedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    monkeypatch.setattr(
        connection.HttpToolsProtocol, "on_header", lambda _, *header: kept.append(header)
    )
    with connected(lasting.nobody(), CHUNKED + b"0\r\n" + b"X-Trailer: more\r\n" * 100) as client:
        all_of(client)
    assert len(kept) == 2


@pytest.mark.parametrize(
    ("length", "status"), [(65_000, b"200"), (66_000, b"400"), (70_000, b"400")]
)
@pytest.mark.parametrize("is_second", [False, True], ids=["first", "second"])
def test_a_head_of_more_than_64_kib_is_refused_also_if_it_comes_at_once(
    lasting: ServedHost, length: int, status: bytes, *, is_second: bool
) -> None:
    with connected(lasting.nobody()) as client:
        if is_second:
            client.sendall(GET + b"\r\n")
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        client.sendall(GET + b"X-Long: " + b"a" * (length - len(GET) - 12) + b"\r\n\r\n")
        assert client.recv(4096).split()[1] == status


@pytest.mark.parametrize(("count", "status"), [(200, b"200"), (300, b"400")])
def test_a_head_has_only_so_many_headers(lasting: ServedHost, count: int, status: bytes) -> None:
    with connected(lasting.nobody(), GET + b"A: b\r\n" * count + b"\r\n") as client:
        assert client.recv(4096).split()[1] == status


def test_only_so_many_requests_wait_for_those_before_them(
    lasting: ServedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[connection.GuardedConnection] = []
    monkeypatch.setattr(
        connection.HttpToolsProtocol, "connection_lost", lambda *on: lost.append(on[0])
    )
    with connected(lasting.nobody()) as client, suppress(OSError):
        client.sendall((GET + b"\r\n") * 5_000)
        assert all_of(client).count(b"HTTP/1.1 200") < 5_000
    eventually(
        lambda: lost and not lost[0].pipeline, "the end of what waited, without a collection"
    )


def test_a_garbage_collection_does_not_look_at_all_that_the_host_has_loaded(
    served: ServedHost,
) -> None:
    assert served.nobody().get(HEALTH).status == 200
    assert gc.get_freeze_count() > len(gc.get_objects()) / 2


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request, b"401"),
        (lambda _: CHUNKED, b"401"),
        (lambda caller: POST + b"Content-Length: 99999999\r\n" + _key(caller), b"413"),
        (lambda caller: POST + b"Content-Length: 99999999\r\n\r\n", b"401"),
    ],
    ids=["without a key", "chunks without a key", "too long", "too long without a key"],
)
def test_a_refused_connection_is_closed(lasting: ServedHost, sent: object, status: bytes) -> None:
    caller = lasting.caller()
    text = sent(lasting.nobody(), "/v1/runs") if sent is request else sent(caller)
    with connected(caller, text) as client:
        answer = all_of(client)
    assert answer.split()[1] == status
    assert b"connection: close" in answer.lower()


def test_who_sends_too_long_a_body_to_its_end_gets_the_answer(newcomer: Caller) -> None:
    assert newcomer.post("/v1/runs", b" " * 6_000_000).refusal == (413, "request_too_large")


def test_the_rest_of_a_short_body_may_come_after_the_answer(lasting: ServedHost) -> None:
    nowhere = POST.replace(b"runs", b"nowhere") + b"Content-Length: 5\r\n\r\n"
    with connected(lasting.nobody(), nowhere) as client:
        assert client.recv(4096).split()[1] == b"404"
        client.sendall(b"12345" + GET + b"\r\n")
        assert client.recv(4096).split()[1] == b"200"


@pytest.mark.parametrize(
    "sent",
    [
        GET + b"Content-Length: 9\r\n\r\n",
        GET + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Slow: ",
        POST.replace(b"runs", b"nowhere") + b"Content-Length: 9\r\n\r\n1",
    ],
    ids=["body", "trailer", "rest of a refused body"],
)
def test_what_follows_a_head_has_to_come_soon(
    lasting: ServedHost, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connection, "REST_SECONDS", 0.2)
    monkeypatch.setattr(connection, "PARTING_SECONDS", 0.2)
    with connected(lasting.nobody(), sent) as client:
        assert all_of(client).count(b"HTTP/1.1") == 1  # the answer, and then the end


def test_a_stream_ends_if_its_request_does_not(
    served: ServedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REST_SECONDS", 0.2)
    caller = served.caller()
    run_id = caller.evaluate()
    stream = request(caller, f"/v1/runs/{run_id}/events")
    with connected(caller, stream.replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\n")) as client:
        all_of(client)
    assert caller.get(HEALTH).status == 200


def test_a_body_that_the_host_does_not_read_yet_is_not_late(
    served: ServedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request may wait for its turn longer than a client may take to send it."""
    monkeypatch.setattr(connection, "REST_SECONDS", 0.05)
    let_in, waited = served.host.arrivals.enter, []

    async def enter_late(tenant: str) -> None:
        await asyncio.sleep(4 * connection.REST_SECONDS)
        waited.append(tenant)
        await let_in(tenant)

    monkeypatch.setattr(served.host.arrivals, "enter", enter_late)
    reply = served.caller().post("/v1/suites", b" " * 3_000_000)
    assert waited
    assert reply.refusal == (400, "validation_error")


class Unread(asyncio.Transport):
    """A transport whose client does not read: to close it never ends."""

    def __init__(self) -> None:
        super().__init__()
        self.ending = ""
        self.aborted = asyncio.Event()

    def write(self, data: object) -> None:
        pass

    def is_closing(self) -> bool:
        return bool(self.ending)

    def close(self) -> None:
        self.ending = "closing"

    def abort(self) -> None:
        self.ending = "aborted"
        self.aborted.set()


@pytest.mark.parametrize("end", ["timeout_keep_alive_handler", "send_400_response"])
def test_an_ended_connection_does_not_wait_for_a_reader(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Answers that are too short to be watched would otherwise keep it open for ever."""
    monkeypatch.setattr(connection, "STALL_SECONDS", 0.01)

    async def close_unread() -> None:
        config = uvicorn.Config(App, ws="none", log_config=None)
        ended = connection.GuardedConnection(config, ServerState(), {})
        transport = Unread()
        ended.connection_made(transport)
        getattr(ended, end)(*["no"] * (end == "send_400_response"))
        assert transport.ending == "closing"
        await asyncio.wait_for(transport.aborted.wait(), DEADLINE_SECONDS)

    asyncio.run(close_unread())


def _key(caller: Caller) -> bytes:
    return f"Authorization: Bearer {caller.key}\r\n\r\n".encode()
