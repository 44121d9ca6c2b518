"""The file of tools: the tools of a run, their descriptions, and what answers them."""

import re
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from evalwright.contracts.documents import parse_document, unfit_for_json
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.schema import TOOLS, ValueSchema, check_schema

DEFAULT_TIMEOUT_S = 60.0

# `$NAME`, or a scheme and `$NAME`, as in `Bearer $ORDERS_TOKEN`.
VARIABLE = re.compile(r"(?P<scheme>[A-Za-z]+ )?\$(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
_SENSITIVE = re.compile(r"auth|token|secret|passw|cookie|credential|key(?![a-z])", re.IGNORECASE)


class ToolsFileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the shapes in the file."""


class HttpCall(ToolsFileEntry, frozen=True):
    """A service that answers a tool's calls."""

    url: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class ToolEntry(ToolsFileEntry, frozen=True):
    """One tool; without `python` or `http` it is described only, and fixtures answer it."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    writes: bool = True
    timeout_s: float = DEFAULT_TIMEOUT_S
    python: str | None = None
    http: HttpCall | None = None


class ServerEntry(ToolsFileEntry, frozen=True):
    """An MCP server: a program to start (`command`), or an address (`url`)."""

    name: str
    command: list[str] | None = None
    env: list[str] = msgspec.field(default_factory=list)
    url: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    allow: list[str] | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S


class ToolsFile(ToolsFileEntry, frozen=True):
    """Everything in the file."""

    tools: list[ToolEntry] = msgspec.field(default_factory=list)
    mcp: list[ServerEntry] = msgspec.field(default_factory=list)


def parse_tools(source: bytes, name: str) -> ToolsFile:
    """Read a tools file from the content of a JSON or YAML file; all its problems at once."""
    document = parse_document(source, name)
    problems = unfit_for_json(document) or check_schema(document, TOOLS)
    if not problems:
        tools, servers = document.get("tools", []), document.get("mcp", [])
        if not tools and not servers:
            problems = [Problem("$", "the file names no tool", "add tools or mcp")]
        else:
            problems = _check_names(tools, "$.tools") + _check_names(servers, "$.mcp")
            for index, tool in enumerate(tools):
                problems += _check_tool(tool, f"$.tools[{index}]")
            for index, server in enumerate(servers):
                problems += _check_server(server, f"$.mcp[{index}]")
    if problems:
        raise InvalidDocument(name, problems)
    return msgspec.convert(document, ToolsFile, strict=False)


def _check_names(entries: list[dict[str, Any]], path: str) -> list[Problem]:
    problems, seen = [], set()
    for index, entry in enumerate(entries):
        if entry["name"] in seen:
            message = f"duplicate name {entry['name']!r}"
            problems.append(Problem(f"{path}[{index}].name", message, "give each its own name"))
        seen.add(entry["name"])
    return problems


def _check_tool(tool: dict[str, Any], path: str) -> list[Problem]:
    problems = []
    if "python" in tool and "http" in tool:
        problems.append(Problem(path, "python and http both answer the tool", "keep one of them"))
    if "parameters" in tool:
        place = f"{path}.parameters"
        if tool["parameters"].get("type") == "object":
            try:
                ValueSchema(tool["parameters"], place)
            except InvalidDocument as error:
                problems += [problem.below(place) for problem in error.problems]
        else:
            message = "the schema must describe an object, since arguments are one"
            remedy = "write type: object, and the arguments below properties"
            problems.append(Problem(place, message, remedy))
    return problems + _check_address(tool.get("http", {}), f"{path}.http")


def _check_server(server: dict[str, Any], path: str) -> list[Problem]:
    problems = []
    if ("command" in server) == ("url" in server):
        message = "a server is started by command or reached by url"
        problems.append(Problem(path, message, "give one of them"))
    for field, needed in (("env", "command"), ("headers", "url")):
        if field in server and needed not in server:
            message = f"{field} belongs to a server with {needed}"
            problems.append(Problem(f"{path}.{field}", message, "take it out"))
    return problems + _check_address(server, path)


def _check_address(holder: dict[str, Any], path: str) -> list[Problem]:
    return _check_url(holder.get("url"), f"{path}.url") + _check_headers(holder, path)


def _check_url(url: str | None, path: str) -> list[Problem]:
    if url is None:
        return []
    try:
        parts = urlsplit(url)
        named = parts.hostname and (parts.port or True)
    except ValueError as error:
        return [Problem(path, f"not an address: {error}")]
    if not named:
        return [Problem(path, "the address names no host")]
    if parts.username or parts.password:
        message = "a user name or password does not belong into the address"
        return [Problem(path, message, "send it as a header, from an environment variable")]
    return []


def _check_headers(holder: dict[str, Any], path: str) -> list[Problem]:
    """A secret that stood here would be committed, copied and shown: it comes from a variable."""
    return [
        Problem(
            f"{path}.headers[{name!r}]",
            "a header that may carry a secret is not written out",
            "put the value into an environment variable and write $ITS_NAME or Bearer $ITS_NAME",
        )
        for name, value in holder.get("headers", {}).items()
        if _SENSITIVE.search(name) and not VARIABLE.fullmatch(value)
    ]
