"""HTTP agents: one POST per task to an address."""

import ipaddress
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import aiohttp

from evalwright.agents.http_tools import without_query
from evalwright.agents.load import TOKEN_VARIABLE
from evalwright.agents.protocol import AgentFailure, Invocation
from evalwright.agents.wire import (
    TRUSTED,
    AnswerLimits,
    encode_request,
    opened,
    quoted,
    read_response,
    received,
)
from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import phrase

if TYPE_CHECKING:
    from evalwright.agents.gateway import Gateway
    from evalwright.agents.span_receiver import SpanReceiver

HIDDEN_QUERY = "?…"
LONG_ANSWER = 64 * 1024  # bytes

OpenSession = Callable[[dict[str, str]], aiohttp.ClientSession]  # with these headers
Room = AbstractAsyncContextManager[object]  # that a long answer takes, and may have to wait for

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


class HttpAgent:
    """An agent behind an address."""

    def __init__(
        self,
        url: str,
        *,
        ref: str,
        agent_id: str,
        model_class: str | None,
        gateway: "Gateway | None" = None,
        receiver: "SpanReceiver | None" = None,
        open_session: OpenSession | None = None,
        limits: AnswerLimits = TRUSTED,
        room: Room | None = None,
    ) -> None:
        self.ref = ref
        self.agent_id = agent_id
        self.model_class = model_class
        self.allowed_tools: frozenset[str] | None = None
        self.is_outside = True
        self.reads_memory = True
        self.converses = True
        self.holds_state = False
        self._url = url
        self._gateway = gateway
        self._receiver = receiver
        self._new_session = open_session or _own_session
        self._open_session: aiohttp.ClientSession | None = None
        self._limits = limits
        self._room: Room = room or nullcontext()

    async def invoke(self, invocation: Invocation) -> Any:
        async with received(self._receiver, invocation) as spans:
            async with AsyncExitStack() as held:
                async with opened(self._gateway, invocation) as tools:
                    headers = None if spans is None else {"traceparent": spans.traceparent}
                    request = encode_request(invocation, tools, spans)
                    try:
                        async with self._session().post(
                            self._url, data=request, headers=headers, allow_redirects=False
                        ) as response:
                            body = await self._read(response, held)
                    except (aiohttp.ClientError, OSError, ValueError) as error:
                        raise AgentFailure(
                            "agent_unreachable", without_query(error, self._url)
                        ) from None
                    if response.status != 200:
                        message = (
                            f"the agent answered {response.status}, not 200: {quoted(body, 300)}"
                        )
                        raise AgentFailure("agent_error", message)
                output = await read_response(body, invocation, tools, self._limits)
            if spans is not None:
                await invocation.after_answer(spans.settle())
        return output

    async def _read(self, response: aiohttp.ClientResponse, held: AsyncExitStack) -> bytes:
        chunks, size = [], 0
        async for chunk in response.content.iter_any():
            if size <= LONG_ANSWER < size + len(chunk):
                await held.enter_async_context(self._room)
            size += len(chunk)
            if size > self._limits.most_bytes:
                message = f"the answer is longer than {self._limits.most_bytes} bytes"
                raise AgentFailure("invalid_answer", message)
            chunks.append(chunk)
        return b"".join(chunks)

    async def close(self) -> None:
        if self._open_session is not None:
            await self._open_session.close()
        if self._gateway is not None:
            await self._gateway.close()
        if self._receiver is not None:
            await self._receiver.close()

    def _session(self) -> aiohttp.ClientSession:
        if self._open_session is None:
            self._open_session = self._new_session(dict(_HEADERS))
        return self._open_session


def _own_session(headers: dict[str, str]) -> aiohttp.ClientSession:
    token = os.environ.get(TOKEN_VARIABLE)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return aiohttp.ClientSession(
        headers=headers,
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
    )


def load_http(
    url: str,
    agent_id: str | None = None,
    model_class: str | None = None,
    gateway: "Gateway | None" = None,
    receiver: "SpanReceiver | None" = None,
) -> HttpAgent:
    """An agent at an address; the address is written down without its query."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadInput(
            phrase("{@agent:{url}}: not an address: {why}", url=url, why=str(error))
        ) from None
    if not host:
        raise BadInput(phrase("{@agent:{url}}: the address names no host", url=url))
    if parts.username or parts.password:
        raise BadInput(
            phrase(
                "{@agent}: an address with a user name or password would be written into the log; "
                "put the token into {variable} instead",
                variable=TOKEN_VARIABLE,
            )
        )
    if url.endswith(HIDDEN_QUERY):
        raise BadInput(
            phrase("{@agent}: the log does not keep the address's query; give {@agent} again")
        )
    _refuse_open_token(parts)
    address = url.partition("#")[0].partition("?")[0]
    return HttpAgent(
        url,
        ref=address + HIDDEN_QUERY if parts.query else address,
        agent_id=agent_id or f"local.http.{host}" + (f".{port}" if port else ""),
        model_class=model_class,
        gateway=gateway,
        receiver=receiver,
    )


def _refuse_open_token(parts: SplitResult) -> None:
    if parts.scheme == "https" or not os.environ.get(TOKEN_VARIABLE):
        return
    host = parts.hostname or ""
    try:
        is_local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    if not is_local:
        raise BadInput(
            phrase(
                "{@agent}: {variable} is not sent over http:// to {host}; use https://",
                variable=TOKEN_VARIABLE,
                host=host,
            )
        )
