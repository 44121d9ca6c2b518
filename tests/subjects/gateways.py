"""A tool gateway with one invocation open, and what that invocation recorded."""

import io
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from builders import AGENT_ID, RUN_ID, a_task
from evalwright.agents.gateway import Gateway, GatewaySession
from evalwright.agents.protocol import Invocation, Surroundings
from evalwright.contracts.events import Payload

TWO_TOOLS = {"shop:orders.get": {"status": "shipped"}, "policy": "be kind"}


class Answer(msgspec.Struct):
    """What came back over HTTP."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def error(self) -> int:
        """The code of the JSON-RPC error; there must be one."""
        message = msgspec.json.decode(self.text)
        assert message.keys() == {"jsonrpc", "id", "error"}, message
        return int(message["error"]["code"])

    @property
    def result(self) -> Any:
        """The result; there must be one."""
        message = msgspec.json.decode(self.text)
        assert message.keys() == {"jsonrpc", "id", "result"}, message
        return message["result"]


class TraceView:
    """A gateway, an invocation at it, and a plain HTTP client."""

    def __init__(
        self, gateway: Gateway, invocation: Invocation, opened: GatewaySession, events: list[Any]
    ) -> None:
        self.gateway = gateway
        self.invocation = invocation
        self.url = opened.url
        self.events = events
        self.http: aiohttp.ClientSession

    @property
    def origin(self) -> str:
        """The address of the gateway without a path."""
        return self.url.partition("/mcp/")[0]

    @property
    def called(self) -> list[tuple[str, Any]]:
        """The calls that were recorded: tool and inputs."""
        return [
            (event["toolName"], event.get("inputs"))
            for event in self.events
            if event["type"] == "agent.toolCalled"
        ]

    async def send(
        self,
        body: Any = b"",
        method: str = "POST",
        url: str | None = None,
        **headers: str,
    ) -> Answer:
        """Send something; what is not bytes goes as JSON. `mcp_name` is the header `mcp-name`."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        sent = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        stream = io.BytesIO(data)
        async with self.http.request(
            method, url or self.url, data=stream, headers=sent
        ) as response:
            return Answer(response.status, response.headers, await response.text())

    async def ask(self, method: str, params: Any = None, **headers: str) -> Answer:
        """Send a request."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method}
        return await self.send(message | ({"params": params} if params else {}), **headers)


@asynccontextmanager
async def an_open_gateway(
    answers: Mapping[str, Any] | None = None, surroundings: Surroundings | None = None
) -> AsyncIterator[TraceView]:
    """A gateway at which an invocation with these tools is open."""
    events: list[Any] = []

    def record(payload: Payload) -> None:
        events.append({"type": payload.TYPE, **msgspec.json.decode(msgspec.json.encode(payload))})

    async def keep_pace() -> None:
        pass

    given = TWO_TOOLS if answers is None else answers
    responses = [{"tool": tool, "response": response} for tool, response in given.items()]
    invocation = Invocation(
        run_id=RUN_ID,
        invocation_id="inv-0001",
        agent_id=AGENT_ID,
        task=a_task(fixtures={"toolResponses": responses}),
        record=record,
        keep_pace=keep_pace,
        surroundings=surroundings,
    )
    gateway = Gateway()
    try:
        async with gateway.open(invocation) as opened, aiohttp.ClientSession() as http:
            scene = TraceView(gateway, invocation, opened, events)
            scene.http = http
            yield scene
    finally:
        await gateway.close()
