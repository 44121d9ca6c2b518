"""The gateway's MCP: what the official client and plain HTTP clients get to see."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError

from evalwright.agents.gateway_rpc import (
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    STATELESS_VERSIONS,
    UNSUPPORTED_VERSION,
)
from evalwright.agents.protocol import AgentFailure, Surroundings
from evalwright.agents.toolbox import LiveTool, Toolbox, ToolDescription, ToolFailed
from evalwright.contracts.errors import StoreError
from evalwright.contracts.jsonvalue import canonical
from strategies import json_values
from subjects.gateways import TraceView, an_open_gateway

LATEST = STATELESS_VERSIONS[-1]
MODES = ["auto", "legacy", LATEST]
ENVELOPE = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": LATEST,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}
Act = Callable[[TraceView], Awaitable[Any]]


def at_a_gateway(act: Act, answers: Any = None, surroundings: Surroundings | None = None) -> Any:
    """Do something at a gateway with one open invocation."""

    async def main() -> Any:
        async with an_open_gateway(answers, surroundings) as scene:
            return await act(scene)

    return asyncio.run(main())


def ask(method: str, params: Any = None, **headers: str) -> Any:
    return at_a_gateway(lambda scene: scene.ask(method, params, **headers))


def ask_stateless(method: str, params: Any, **headers: str) -> Any:
    sent = {"mcp_protocol_version": LATEST, "mcp_method": method} | headers
    return ask(method, params, **sent)


# The official client.


@pytest.mark.parametrize("mode", MODES)
def test_the_client_lists_and_calls_tools_in_every_era(mode: str) -> None:
    async def act(scene: TraceView) -> None:
        async with Client(scene.url, mode=mode) as client:
            tools = (await client.list_tools()).tools
            result = await client.call_tool("shop_orders_get", {"id": "A-17"})
            text = await client.call_tool("policy")
        assert [tool.name for tool in tools] == ["shop_orders_get", "policy"]
        assert result.structured_content == {"status": "shipped"}
        assert result.content[0].text == '{"status":"shipped"}'
        assert not result.is_error
        assert (text.structured_content, text.content[0].text) == (None, "be kind")
        assert scene.called == [("shop:orders.get", {"id": "A-17"}), ("policy", {})]

    at_a_gateway(act)


def test_the_client_takes_the_newest_version_that_it_knows() -> None:
    async def versions(scene: TraceView) -> list[str]:
        taken = []
        for mode in ("auto", "legacy"):
            async with Client(scene.url, mode=mode) as client:
                taken.append(client.protocol_version)
        return taken

    assert at_a_gateway(versions) == [LATEST, HANDSHAKE_VERSIONS[-1]]


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_that_fails_is_a_result_the_model_can_read(mode: str) -> None:
    async def act(scene: TraceView) -> Any:
        async with Client(scene.url, mode=mode) as client:
            return await client.call_tool("shop:refund", {})

    result = at_a_gateway(act)
    assert result.is_error
    assert "the tool has no result for this call" in result.content[0].text


@pytest.mark.parametrize("mode", MODES)
def test_calls_after_the_invocation_has_ended_are_refused(mode: str) -> None:
    async def act(scene: TraceView) -> None:
        async with Client(scene.url, mode=mode) as client:
            scene.invocation.end()
            with pytest.raises(MCPError, match="this invocation has ended"):
                await client.call_tool("policy")
        assert scene.events == []

    at_a_gateway(act)


def test_an_address_leads_nowhere_once_its_block_is_left() -> None:
    async def act(scene: TraceView) -> None:
        async with scene.gateway.open(scene.invocation) as other:
            pass
        answer = await scene.send({"jsonrpc": "2.0", "id": 1, "method": "ping"}, url=other.url)
        assert (answer.status, answer.error) == (404, INVALID_REQUEST)
        with pytest.raises(BaseExceptionGroup) as failed:
            async with Client(other.url):
                pass
        assert failed.group_contains(MCPError, match="no invocation is at this address")

    at_a_gateway(act)


def test_calls_at_the_same_time_are_all_answered_and_recorded() -> None:
    async def act(scene: TraceView) -> None:
        async with Client(scene.url) as client:
            calls = (client.call_tool("policy", {"n": n}) for n in range(50))
            results = await asyncio.gather(*calls)
        assert {result.content[0].text for result in results} == {"be kind"}
        assert sorted(inputs["n"] for _, inputs in scene.called) == list(range(50))

    at_a_gateway(act)


@given(st.dictionaries(st.text(max_size=9), json_values, max_size=3), json_values)
def test_any_arguments_and_any_answer_go_through_unchanged(arguments: Any, answer: Any) -> None:
    async def act(scene: TraceView) -> None:
        result = (await scene.ask("tools/call", {"name": "t", "arguments": arguments})).result
        ((tool, inputs),) = scene.called
        assert (tool, canonical(inputs)) == ("t", canonical(arguments))
        (content,) = result["content"]
        text = content["text"]
        assert (text if isinstance(answer, str) else msgspec.json.decode(text)) == answer
        assert result.get("structuredContent", answer) == answer

    at_a_gateway(act, {"t": answer})


# What is told of tools.


def a_tool(call: Any = None, **described: Any) -> LiveTool:
    return LiveTool(ToolDescription("shop:orders.get", **described), call)


def test_tools_are_described_as_the_toolbox_does() -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    tool = a_tool(description="Finds an order", parameters=schema, writes=False)

    async def act(scene: TraceView) -> Any:
        return (await scene.ask("tools/list")).result["tools"]

    described, plain = at_a_gateway(act, None, Surroundings(Toolbox([tool])))
    assert described == {
        "name": "shop_orders_get",
        "description": "Finds an order",
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True},
    }
    assert plain == {"name": "policy", "inputSchema": {"type": "object"}}


def test_only_allowed_tools_are_listed_and_another_is_refused_and_recorded() -> None:
    async def act(scene: TraceView) -> None:
        scene.invocation.allowed_tools = frozenset(["policy"])
        listed = (await scene.ask("tools/list")).result["tools"]
        assert [tool["name"] for tool in listed] == ["policy"]
        result = (await scene.ask("tools/call", {"name": "shop:orders.get"})).result
        assert result["isError"]
        assert scene.events[-1]["status"] == "forbidden"

    at_a_gateway(act)


def test_tools_whose_names_look_alike_stay_apart() -> None:
    async def act(scene: TraceView) -> None:
        for tool in (await scene.ask("tools/list")).result["tools"]:
            await scene.ask("tools/call", {"name": tool["name"]})
        assert [name for name, _ in scene.called] == ["a:b", "a.b", "a_b", "ä_b"]

    at_a_gateway(act, {"a:b": 1, "a.b": 2, "a_b": 3, "ä_b": 4})


# Live tools.


def live(call: Any, **more: Any) -> Surroundings:
    return Surroundings(Toolbox([a_tool(call)]), live=True, **more)


def test_live_tools_answer_in_place_of_fixtures() -> None:
    async def call(arguments: dict[str, Any]) -> Any:
        return {"found": arguments["id"]}

    async def act(scene: TraceView) -> Any:
        arguments = {"name": "shop_orders_get", "arguments": {"id": 7}}
        return (await scene.ask("tools/call", arguments)).result["structuredContent"]

    assert at_a_gateway(act, None, live(call)) == {"found": 7}


def test_a_live_tool_that_fails_tells_why() -> None:
    async def call(_: dict[str, Any]) -> Any:
        raise ToolFailed("timeout", "no answer within 5 s")

    async def act(scene: TraceView) -> Any:
        return (await scene.ask("tools/call", {"name": "shop_orders_get"})).result

    result = at_a_gateway(act, None, live(call))
    assert (result["isError"], result["content"][0]["text"]) == (True, "no answer within 5 s")


def test_a_read_only_run_refuses_tools_that_write() -> None:
    async def act(scene: TraceView) -> Any:
        return (await scene.ask("tools/call", {"name": "shop_orders_get"})).result

    async def never(_: dict[str, Any]) -> Any:
        pytest.fail("a tool that writes was called")

    assert at_a_gateway(act, None, live(never, read_only=True))["isError"]


def test_a_live_call_is_stopped_when_its_invocation_ends() -> None:
    began, stopped = asyncio.Event(), asyncio.Event()

    async def call(_: dict[str, Any]) -> Any:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def act(scene: TraceView) -> None:
        async with scene.gateway.open(scene.invocation) as opened:
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            message |= {"params": {"name": "shop_orders_get"}}
            asked = asyncio.create_task(scene.send(message, url=opened.url))
            await began.wait()
        answer = await asked
        assert (answer.status, answer.error) == (404, INVALID_REQUEST)
        assert stopped.is_set()

    at_a_gateway(act, None, live(call))


def test_a_client_that_goes_away_leaves_its_call_to_be_answered_and_recorded() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    done = asyncio.Event()

    async def call(_: dict[str, Any]) -> Any:
        began.set()
        await go_on.wait()
        asyncio.get_running_loop().call_soon(done.set)
        return 1

    async def act(scene: TraceView) -> None:
        asked = asyncio.create_task(scene.ask("tools/call", {"name": "shop_orders_get"}))
        await began.wait()
        asked.cancel()
        await asyncio.wait((asked,))
        go_on.set()
        await done.wait()
        assert scene.events[-1]["outcome"] == 1
        assert (await scene.ask("tools/list")).status == 200

    at_a_gateway(act, None, live(call))


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ZeroDivisionError("the disk is full"), AgentFailure),
        (StoreError("the disk is full"), StoreError),
    ],
    ids=["a tool that breaks", "a log that cannot be written"],
)
def test_what_breaks_a_call_is_raised_where_the_invocation_ends(
    error: Exception, raised: type[Exception]
) -> None:
    async def call(_: dict[str, Any]) -> Any:
        raise error

    async def use(scene: TraceView) -> None:
        async with scene.gateway.open(scene.invocation) as opened, Client(opened.url) as client:
            with pytest.raises(MCPError, match="the gateway failed"):
                await client.call_tool("shop_orders_get")

    async def act(scene: TraceView) -> None:
        with pytest.raises(raised, match="the disk is full"):
            await use(scene)

    at_a_gateway(act, None, live(call))


# Methods and versions, message by message.


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_a_client_may_begin_with_any_version_of_the_handshake(version: str) -> None:
    result = ask("initialize", {"protocolVersion": version}).result
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {"listChanged": False}}


def test_a_client_that_offers_an_unknown_version_is_offered_the_latest() -> None:
    result = ask("initialize", {"protocolVersion": "1999-12-31"}).result
    assert result["protocolVersion"] == HANDSHAKE_VERSIONS[-1]


def test_initialize_needs_a_version() -> None:
    assert ask("initialize", {"protocolVersion": 3}).error == INVALID_PARAMS


def test_ping_is_answered() -> None:
    assert ask("ping").result == {}


def test_an_unknown_method_is_an_error() -> None:
    answer = ask("resources/list")
    assert (answer.status, answer.error) == (200, METHOD_NOT_FOUND)


def test_a_request_after_a_handshake_needs_no_session() -> None:
    answer = ask("tools/list", {"cursor": None}, mcp_protocol_version="2025-06-18")
    assert len(answer.result["tools"]) == 2
    assert "mcp-session-id" not in answer.headers


def test_a_cursor_that_was_never_given_out_is_refused() -> None:
    assert ask("tools/list", {"cursor": "page-2"}).error == INVALID_PARAMS


@pytest.mark.parametrize("params", [{}, {"name": 7}, {"name": "policy", "arguments": [1]}], ids=str)
def test_a_call_out_of_shape_is_refused(params: dict[str, Any]) -> None:
    assert ask("tools/call", params).error == INVALID_PARAMS


def test_a_version_that_nobody_knows_is_refused_with_those_that_are_served() -> None:
    answer = ask("tools/list", mcp_protocol_version="2099-01-01")
    assert (answer.status, answer.error) == (400, UNSUPPORTED_VERSION)
    data = msgspec.json.decode(answer.text)["error"]["data"]
    assert data["supported"] == [*HANDSHAKE_VERSIONS, *STATELESS_VERSIONS]
    assert data["requested"] == "2099-01-01"


def test_the_stateless_era_marks_its_results_complete() -> None:
    assert ask_stateless("tools/list", ENVELOPE).result["resultType"] == "complete"
    assert ask_stateless("server/discover", ENVELOPE).result["supportedVersions"] == [LATEST]
    assert "resultType" not in ask("tools/list").result


def test_a_stateless_request_without_its_envelope_is_refused() -> None:
    answer = ask_stateless("tools/list", {"_meta": {}})
    assert (answer.status, answer.error) == (400, INVALID_PARAMS)


def test_an_unknown_method_of_the_stateless_era_is_not_found() -> None:
    answer = ask_stateless("ping", ENVELOPE)
    assert (answer.status, answer.error) == (404, METHOD_NOT_FOUND)


@pytest.mark.parametrize(
    "headers",
    [{"mcp_method": "tools/list"}, {"mcp_name": "other"}, {"mcp_name": "=?base64?!?="}],
    ids=["another method", "another tool", "no base64"],
)
def test_headers_that_contradict_the_body_are_refused(headers: dict[str, str]) -> None:
    answer = ask_stateless("tools/call", ENVELOPE | {"name": "policy"}, **headers)
    assert (answer.status, answer.error) == (400, HEADER_MISMATCH)


def test_a_name_that_a_header_cannot_hold_comes_in_base64() -> None:
    async def act(scene: TraceView) -> None:
        async with Client(scene.url, mode=LATEST) as client:
            await client.call_tool("größe", {})
        assert scene.called == [("größe", {})]

    at_a_gateway(act, {"größe": 1})
