"""The gateway under attack: strangers, web pages, garbage, floods. It answers, and it goes on."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalwright.agents.gateway import MAX_REQUEST_BYTES, Gateway
from evalwright.agents.gateway_rpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    reply_to,
)
from evalwright.contracts.errors import CannotEvaluate
from strategies import json_values
from subjects.gateways import TraceView, an_open_gateway

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "policy"}}

DEEP = b'{"params":' * 100_000
GREAT = b'{"params":{"n":%s}}' % (b"9" * 9_999)


def besieged(act: Callable[[TraceView], Awaitable[Any]]) -> Any:
    """Do something at a gateway; nothing is recorded, and a proper client is served after it."""

    async def main() -> Any:
        async with an_open_gateway() as scene:
            result = await act(scene)
            assert scene.events == []
            assert (await scene.send(PING)).result == {}
            return result

    return asyncio.run(main())


def send(body: Any = PING, method: str = "POST", **headers: str) -> Any:
    return besieged(lambda scene: scene.send(body, method, **headers))


# Strangers.


@pytest.mark.parametrize("path", ["", "/", "/mcp", "/mcp/", "/mcp/guess", "/mcp/%2e%2e/x", "/x"])
def test_whoever_does_not_know_the_address_finds_nothing(path: str) -> None:
    answer = besieged(lambda scene: scene.send(CALL, url=scene.origin + path))
    assert (answer.status, answer.error) == (404, INVALID_REQUEST)


def test_no_part_of_an_address_is_enough() -> None:
    async def act(scene: TraceView) -> None:
        for url in (scene.url[:-1], scene.url + "x", scene.url.swapcase().replace("HTTP", "http")):
            assert (await scene.send(CALL, url=url.replace("/MCP/", "/mcp/"))).status == 404

    besieged(act)


def test_addresses_are_long_and_never_the_same() -> None:
    async def act(scene: TraceView) -> None:
        async with scene.gateway.open(scene.invocation) as other:
            tokens = {url.rpartition("/")[2] for url in (scene.url, other.url)}
        assert len(tokens) == 2
        assert all(len(token) >= 40 for token in tokens)

    besieged(act)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1", ""])
def test_a_web_page_is_refused(origin: str) -> None:
    assert send(CALL, Origin=origin).status == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "evil.example:80", ""])
def test_a_name_that_was_bound_to_this_machine_is_refused(host: str) -> None:
    assert send(CALL, Host=host).status == 421


def test_localhost_is_another_name_of_the_gateway() -> None:
    async def act(scene: TraceView) -> Any:
        host = scene.origin.removeprefix("http://").replace("127.0.0.1", "localhost")
        return await scene.send(PING, Host=host, Origin=f"http://{host}")

    assert besieged(act).result == {}


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_what_a_form_can_send_is_refused(kind: str) -> None:
    assert send(CALL, Content_Type=kind).status == 415


# HTTP.


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "OPTIONS"])
def test_messages_are_posted_and_nothing_else(method: str) -> None:
    answer = send(b"", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "POST, DELETE")


def test_the_end_of_a_session_is_taken_note_of() -> None:
    assert send(b"", "DELETE").status == 204


def test_a_body_that_says_it_is_too_long_is_refused() -> None:
    body = msgspec.json.encode(CALL | {"padding": "x" * MAX_REQUEST_BYTES})
    assert send(body).status == 413


def test_a_body_that_does_not_say_how_long_it_is_is_bounded_too() -> None:
    async def chunks() -> Any:
        for _ in range(MAX_REQUEST_BYTES // 65536 + 2):
            yield b" " * 65536

    async def act(scene: TraceView) -> int:
        kind = {"Content-Type": "application/json"}
        async with scene.http.post(scene.url, data=chunks(), headers=kind) as response:
            return response.status

    assert besieged(act) == 413


def test_a_body_of_just_the_greatest_length_is_read() -> None:
    message = msgspec.json.encode(PING)
    assert send(message + b" " * (MAX_REQUEST_BYTES - len(message))).result == {}


def test_a_compressed_body_is_not_unpacked() -> None:
    bomb = gzip.compress(msgspec.json.encode(CALL | {"padding": "x" * MAX_REQUEST_BYTES}))
    answer = send(bomb, Content_Encoding="gzip")
    assert (answer.status, answer.error) == (400, PARSE_ERROR)


def test_a_client_that_goes_away_in_the_middle_of_its_message_disturbs_nobody() -> None:
    async def act(scene: TraceView) -> None:
        whole = a_beginning(scene)
        for beginning in (whole, whole[:40], b""):
            writer = await begin(scene, beginning)
            writer.transport.abort()

    besieged(act)


def test_a_client_that_never_ends_its_message_does_not_keep_the_gateway_open() -> None:
    async def main() -> None:
        async with an_open_gateway() as scene:
            writer = await begin(scene, a_beginning(scene))
            await scene.send(PING)  # by now the other message is being read
            await asyncio.wait_for(scene.gateway.close(), 120)
            writer.transport.abort()

    asyncio.run(main())


def a_beginning(scene: TraceView) -> bytes:
    """The beginning of a request that is never finished."""
    host = scene.origin.removeprefix("http://")
    head = f"POST {scene.url.removeprefix(scene.origin)} HTTP/1.1\r\nHost: {host}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{".encode()


async def begin(scene: TraceView, beginning: bytes) -> asyncio.StreamWriter:
    """Send some bytes and leave the connection open."""
    host, port = scene.origin.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(beginning)
    await writer.drain()
    return writer


@given(st.binary(max_size=200))
@example(b"GET / HTTP/1.1\r\n\r\n")
@example(b"\x16\x03\x01\x02\x00\x01\x00")
def test_what_is_not_even_http_disturbs_nobody(garbage: bytes) -> None:
    async def act(scene: TraceView) -> None:
        (await begin(scene, garbage)).close()

    besieged(act)


def test_garbage_is_not_written_to_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    test_what_is_not_even_http_disturbs_nobody()
    send(b"\xff")
    assert capfd.readouterr() == ("", "")


# JSON-RPC.


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nonsense", b"\xff", b'{"a":"\\ud800"}', DEEP],
    ids=["nothing", "cut off", "words", "no text", "a lone surrogate", "deep"],
)
def test_what_is_no_json_is_a_parse_error(body: bytes) -> None:
    answer = send(body)
    assert (answer.status, answer.error) == (400, PARSE_ERROR)
    assert msgspec.json.decode(answer.text)["id"] is None


@pytest.mark.parametrize(
    "message",
    [
        [CALL, CALL],
        [],
        None,
        "ping",
        CALL | {"jsonrpc": "1.0"},
        CALL | {"id": None},
        CALL | {"id": True},
        CALL | {"id": 1.5},
        CALL | {"params": ["policy"]},
        CALL | {"method": 5},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}},
        {},
        GREAT,
    ],
    ids=lambda message: str(message)[:50],
)
def test_what_is_no_single_request_is_refused(message: Any) -> None:
    answer = send(message)
    assert (answer.status, answer.error) == (400, INVALID_REQUEST)


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/x", "tools/call"])
def test_a_notification_is_accepted_and_does_nothing(method: str) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": {"name": "policy"}}
    answer = send(message)
    assert (answer.status, answer.text) == (202, "")


@pytest.mark.parametrize("message_id", [0, -1, 2**70, "", "é\n", "1"])
def test_an_answer_bears_the_id_of_its_request(message_id: Any) -> None:
    answer = send(PING | {"id": message_id})
    assert msgspec.json.decode(answer.text)["id"] == message_id


class NoTools:
    """Nothing is offered; nothing may be called."""

    def listed(self) -> list[Any]:
        return []

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return [name, arguments]


fields = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | json_values,
        "id": st.integers() | json_values,
        "method": st.sampled_from(["initialize", "ping", "tools/list", "tools/call"]) | json_values,
        "params": json_values
        | st.dictionaries(
            st.sampled_from(["name", "arguments", "cursor", "protocolVersion", "_meta"]),
            json_values,
        ),
    },
)
headers = st.dictionaries(
    st.sampled_from(["mcp-protocol-version", "mcp-method", "mcp-name"]),
    st.sampled_from(["2026-07-28", "2025-06-18", "tools/call", "=?base64?w6Q=?="]) | st.text(),
)


@given(st.binary() | (fields | json_values).map(msgspec.json.encode), headers)
def test_whatever_is_sent_one_proper_answer_comes_back(body: bytes, sent: dict[str, str]) -> None:
    reply = asyncio.run(reply_to(body, sent, NoTools()))
    if reply.status == 202:
        assert reply.body == b""
        return
    message = msgspec.json.decode(reply.body)
    assert message["jsonrpc"] == "2.0"
    assert ("result" in message) != ("error" in message)
    assert (reply.status == 200) or "error" in message
    assert reply.status in (200, 400, 404)


@given(st.text())
def test_no_method_is_found_by_chance(method: str) -> None:
    body = msgspec.json.encode(PING | {"method": f"x{method}"})
    reply = asyncio.run(reply_to(body, {}, NoTools()))
    assert msgspec.json.decode(reply.body)["error"]["code"] == METHOD_NOT_FOUND


# The gateway itself.


def test_the_gateway_is_reached_from_this_machine_only() -> None:
    async def act(scene: TraceView) -> None:
        assert scene.origin.startswith("http://127.0.0.1:")
        port = int(scene.origin.rpartition(":")[2])
        with pytest.raises(aiohttp.ClientConnectorError):  # every address of 127/8 is loopback
            await scene.send(PING, url=f"http://127.0.0.2:{port}/")

    besieged(act)


def test_a_gateway_that_starts_twice_at_once_listens_once() -> None:
    async def act(scene: TraceView) -> None:
        gateway = Gateway()
        opened = [gateway.open(scene.invocation) for _ in range(3)]
        entered = await asyncio.gather(*(each.__aenter__() for each in opened))
        assert len({each.url.partition("/mcp/")[0] for each in entered}) == 1
        for each in opened:
            await each.__aexit__(None, None, None)
        await gateway.close()
        await gateway.close()

    besieged(act)


def test_a_gateway_that_cannot_listen_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalwright.agents.loopback.ADDRESS", "192.0.2.1")  # nobody's address
    with pytest.raises(CannotEvaluate, match=r"the tool gateway cannot listen on 192\.0\.2\.1"):
        asyncio.run(Gateway().start())
