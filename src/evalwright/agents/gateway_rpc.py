"""MCP as the tool gateway speaks it: one JSON-RPC message in, one reply out, nothing kept.

Clients of two eras are served: those that begin with `initialize`, and those that send what a
server has to know with every request.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from evalwright import __version__
from evalwright.agents.protocol import InvocationEnded
from evalwright.agents.toolbox import ToolDescription, ToolError

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSIONS = ("2026-07-28",)

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

_VERSION_HEADER = "mcp-protocol-version"
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_BASE64 = ("=?base64?", "?=")  # around a header value that HTTP could not carry

_SERVER = {"name": "evalwright-tool-gateway", "version": __version__}
_CAPABILITIES = {"tools": {"listChanged": False}}
_STATUS = {METHOD_NOT_FOUND: 404, INTERNAL_ERROR: 200}  # in the stateless era; 400 for the others


class Tools(Protocol):
    """What the gateway offers in one invocation."""

    def listed(self) -> Sequence[ToolDescription]: ...

    async def call(self, name: str, arguments: dict[str, Any]) -> Any: ...


class RpcReply(NamedTuple):
    """An HTTP status and, unless there is nothing to say, a JSON-RPC message."""

    status: int
    body: bytes = b""


class RpcError(Exception):
    """A request that has no result."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"{code}: {message}")


class _RpcMessage(msgspec.Struct, frozen=True):
    jsonrpc: Literal["2.0"]
    method: str
    id: int | str | UnsetType = UNSET
    params: dict[str, Any] | None = None


async def reply_to(body: bytes, headers: Mapping[str, str], tools: Tools) -> RpcReply:
    """Answer one message; `headers` has to find a header whatever its case."""
    try:
        message = _parsed(body)
    except RpcError as error:
        return refusal(400, error)
    if message.id is UNSET:
        return RpcReply(202)
    version = headers.get(_VERSION_HEADER)
    stateless = version not in (None, *HANDSHAKE_VERSIONS) and message.method != "initialize"
    try:
        if stateless:
            # Refuse a request whose version is not served, or whose headers tell of another one.
            if version not in STATELESS_VERSIONS:
                data = {
                    "supported": [*HANDSHAKE_VERSIONS, *STATELESS_VERSIONS],
                    "requested": version,
                }
                raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
            params = message.params or {}
            meta = params.get("_meta")
            if not isinstance(meta, dict) or not {_VERSION_KEY, _CAPABILITIES_KEY} <= meta.keys():
                raise RpcError(
                    INVALID_PARAMS, f"_meta must have {_VERSION_KEY} and {_CAPABILITIES_KEY}"
                )
            pairs = {
                _VERSION_HEADER: (version, meta[_VERSION_KEY]),
                "mcp-method": (headers.get("mcp-method"), message.method),
            }
            if message.method == "tools/call":
                pairs["mcp-name"] = (_decoded(headers.get("mcp-name")), params.get("name"))
            for header, (outside, inside) in pairs.items():
                if outside != inside:
                    raise RpcError(HEADER_MISMATCH, f"the header {header} does not match the body")
        methods = _STATELESS_METHODS if stateless else _HANDSHAKE_METHODS
        if message.method not in methods:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {message.method!r} here")
        result = await methods[message.method](message.params or {}, tools)
    except RpcError as error:
        return refusal(_STATUS.get(error.code, 400) if stateless else 200, error, message.id)
    except InvocationEnded as ended:
        return refusal(404, RpcError(INVALID_REQUEST, str(ended)), message.id)
    if stateless:
        result = {"resultType": "complete"} | result
    return RpcReply(200, _encoded(message.id, result=result))


def refusal(status: int, error: RpcError, message_id: int | str | None = None) -> RpcReply:
    """The reply to a message that has no result."""
    body = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return RpcReply(status, _encoded(message_id, error=body))


def _encoded(message_id: int | str | None, **content: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": message_id, **content})


def _parsed(body: bytes) -> _RpcMessage:
    try:
        return msgspec.json.decode(body, type=_RpcMessage)
    except msgspec.ValidationError as error:
        message = f"one JSON-RPC request or notification was expected: {error}"
        raise RpcError(INVALID_REQUEST, message) from None
    except (ValueError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, f"the body is not JSON: {error}") from None


# Eras.


def _decoded(value: str | None) -> str | None:
    begin, end = _BASE64
    if value is None or not (value.startswith(begin) and value.endswith(end)):
        return value
    try:
        return base64.b64decode(value[len(begin) : -len(end)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


# Methods.


async def _initialize(params: dict[str, Any], _: Tools) -> dict[str, Any]:
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise RpcError(INVALID_PARAMS, "protocolVersion must be a string")
    return {
        "protocolVersion": wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
        "capabilities": _CAPABILITIES,
        "serverInfo": _SERVER,
    }


async def _discover(_params: dict[str, Any], _: Tools) -> dict[str, Any]:
    return {
        "supportedVersions": STATELESS_VERSIONS,
        "capabilities": _CAPABILITIES,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {_SERVER_KEY: _SERVER},
    }


async def _ping(_params: dict[str, Any], _: Tools) -> dict[str, Any]:
    return {}


async def _list_tools(params: dict[str, Any], tools: Tools) -> dict[str, Any]:
    if params.get("cursor"):
        raise RpcError(INVALID_PARAMS, "there is one page of tools, and no cursor leads to another")
    return {"tools": [_listed(tool) for tool in tools.listed()]}


async def _list_tools_uncached(params: dict[str, Any], tools: Tools) -> dict[str, Any]:
    return await _list_tools(params, tools) | {"ttlMs": 0, "cacheScope": "private"}


def _listed(tool: ToolDescription) -> dict[str, Any]:
    shown = {"name": tool.name, "inputSchema": tool.parameters | {"type": "object"}}
    if tool.description:
        shown["description"] = tool.description
    if not tool.writes:
        shown["annotations"] = {"readOnlyHint": True}
    return shown


async def _call_tool(params: dict[str, Any], tools: Tools) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str):
        raise RpcError(INVALID_PARAMS, "name must be a string")
    if arguments is not None and not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "arguments must be an object")
    try:
        answer = await tools.call(name, arguments or {})
    except ToolError as error:
        return {"content": [_text(error.for_model)], "isError": True}
    if isinstance(answer, str):
        return {"content": [_text(answer)], "isError": False}
    content = {"content": [_text(msgspec.json.encode(answer).decode())], "isError": False}
    return content | ({"structuredContent": answer} if isinstance(answer, dict) else {})


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


_Method = Callable[[dict[str, Any], Tools], Awaitable[dict[str, Any]]]

_HANDSHAKE_METHODS: dict[str, _Method] = {
    "initialize": _initialize,
    "ping": _ping,
    "tools/list": _list_tools,
    "tools/call": _call_tool,
}
_STATELESS_METHODS: dict[str, _Method] = {
    "server/discover": _discover,
    "tools/list": _list_tools_uncached,
    "tools/call": _call_tool,
}
