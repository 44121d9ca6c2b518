"""The tool gateway: an MCP server on loopback through which an outside agent reaches its tools.

Each invocation has its own address there while it lasts. Calls are answered and recorded like those
of any agent.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from evalwright.agents.gateway_rpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    RpcError,
    RpcReply,
    refusal,
    reply_to,
)
from evalwright.agents.loopback import LoopbackServer, plain_answer, read_body
from evalwright.agents.protocol import AgentFailure, Invocation, InvocationEnded
from evalwright.agents.tool_names import ToolNames
from evalwright.agents.toolbox import ToolDescription
from evalwright.contracts.errors import EvalwrightError

PATH = "/mcp/"
MAX_REQUEST_BYTES = 4 * 1024 * 1024


class Gateway:
    """Serves the tools of all invocations of a run; it starts with the first of them."""

    def __init__(self) -> None:
        self._open: dict[str, GatewaySession] = {}
        self._server = LoopbackServer("tool gateway", self._answer)
        self.start = self._server.start
        self.close = self._server.close

    @asynccontextmanager
    async def open(self, invocation: Invocation) -> AsyncIterator["GatewaySession"]:
        await self.start()
        token = secrets.token_urlsafe(32)
        opened = GatewaySession(f"{self._server.url}{PATH}{token}", invocation)
        self._open[token] = opened
        try:
            yield opened
        finally:
            del self._open[token]
            opened.end()
        if opened.failure is not None:
            raise opened.failure

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        opened = self._open.get(request.path.removeprefix(PATH))
        if opened is None:
            message = "no invocation is at this address; it has ended, or there was none"
            return _response(refusal(404, RpcError(INVALID_REQUEST, message)))
        if request.method == "DELETE":  # the end of a session, of which nothing is kept
            return web.Response(status=204)
        if request.method != "POST":
            return plain_answer(405, "messages are posted", Allow="POST, DELETE")
        if request.content_type != "application/json":
            return plain_answer(415, "a message is application/json")
        body = await read_body(request, MAX_REQUEST_BYTES)
        if body is None:
            return plain_answer(413, f"a message has at most {MAX_REQUEST_BYTES} bytes")
        return _response(await opened.reply_to(body, request.headers))


class GatewaySession:
    """The tools of one invocation, as its address offers them."""

    def __init__(self, url: str, invocation: Invocation) -> None:
        self.url = url
        self.failure: Exception | None = None
        self._invocation = invocation
        self._names = ToolNames(invocation.tool_names())
        self._ended = False
        self._running: set[asyncio.Task[RpcReply]] = set()

    def listed(self) -> list[ToolDescription]:
        described = self._invocation.describe
        return [
            msgspec.structs.replace(each, name=self._names.name(each.name))
            for each in map(described, self._invocation.tool_names())
        ]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        if self._ended:
            raise InvocationEnded
        tool = self.tool(name)
        self._invocation.observe("calls", "gateway")
        answer = await self._invocation.use_tool(tool, arguments)
        await self._invocation.keep_pace()
        return answer

    def tool(self, name: str) -> str:
        return self._names.tool(name) or name

    async def reply_to(self, body: bytes, headers: Mapping[str, str]) -> RpcReply:
        """Answer one message in a separate task, so that a client that disconnects ends no call."""
        running = asyncio.create_task(self._reply_to(body, headers))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        await asyncio.wait((running,))
        if running.cancelled():
            return refusal(404, RpcError(INVALID_REQUEST, str(InvocationEnded())))
        return running.result()

    async def _reply_to(self, body: bytes, headers: Mapping[str, str]) -> RpcReply:
        try:
            return await reply_to(body, headers, self)
        except Exception as error:  # noqa: BLE001 - it is raised where the invocation ends
            failure = error
            if not isinstance(error, EvalwrightError):
                words = f"the tool gateway: {type(error).__name__}: {error}"
                failure = AgentFailure("agent_error", words)
            self.failure = self.failure or failure
            return refusal(500, RpcError(INTERNAL_ERROR, "the gateway failed"))

    def end(self) -> None:
        """Answer no more calls, and stop those that are being answered."""
        self._ended = True
        for running in self._running:
            running.cancel()


def _response(reply: RpcReply) -> web.Response:
    kind = "application/json" if reply.body else None
    return web.Response(status=reply.status, body=reply.body or None, content_type=kind)
