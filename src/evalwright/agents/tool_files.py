"""From the file of tools to the tools of a run."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from evalwright.agents.python_tools import PythonFiles, PythonTool
from evalwright.agents.toolbox import (
    CallTool,
    LiveTool,
    Toolbox,
    ToolDescription,
    ToolFailed,
    within,
)
from evalwright.agents.user_code import Threads
from evalwright.contracts.documents import open_input
from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import phrase
from evalwright.contracts.schema import ValueSchema
from evalwright.contracts.tools import HttpCall, ServerEntry, ToolEntry, parse_tools

ANY_ARGUMENTS = {"type": "object"}


async def load_tools(path: Path, *, live: bool = True) -> Toolbox:
    """Read a tools file, load its functions and, for live tools, start its MCP servers.

    With fixtures no server is needed to answer, so that a run does not depend on one. The toolbox
    is used and closed in the event loop in which it was loaded.
    """
    try:
        with open_input(path) as file:
            read = file.read()
    except OSError as error:
        message = "{@tools:{path}}: it cannot be read: {why}"
        raise BadInput(phrase(message, path=path, why=error.strerror)) from None
    described = parse_tools(read, str(path))
    resources = AsyncExitStack()
    loading = _Loading(path, resources)
    try:
        tools = [loading.tool(entry) for entry in described.tools]
        if live:
            tools += await loading.servers(described.mcp)
        return Toolbox(tools, [resources.aclose], loading.secrets)
    except BaseException:
        await resources.aclose()
        raise


class _Loading:
    def __init__(self, path: Path, resources: AsyncExitStack) -> None:
        self.secrets: dict[str, str] = {}
        self._place = str(path)
        self._folder = path.parent
        self._resources = resources
        self._files = PythonFiles(path.parent)
        self._threads = Threads()
        resources.callback(self._threads.close)

    def tool(self, entry: ToolEntry) -> LiveTool:
        place = f"{self._place}: {entry.name}"
        description, parameters = entry.description, entry.parameters
        call: CallTool | None = None
        if entry.python is not None:
            tool = PythonTool(self._files.function(entry.python, place), place, self._threads)
            description = description or tool.describe()
            parameters = parameters or tool.parameters()
            call = tool.call
        elif entry.http is not None:
            call = self._http_tool(entry.http, place)
        if call is not None:
            call = _guarded(call, entry)
        offered = ToolDescription(
            entry.name, description, parameters or ANY_ARGUMENTS, writes=entry.writes
        )
        return LiveTool(offered, call)

    async def servers(self, entries: list[ServerEntry]) -> list[LiveTool]:
        if not entries:
            return []
        try:
            from mcp import Client  # noqa: F401 - version 1 of the package has no such thing
        except ImportError:
            message = f"{self._place}: $.mcp needs the package mcp, version 2.3 or later"
            raise BadInput(f"{message}: pip install 'mcp>=2.3'") from None
        from evalwright.agents.mcp_tools import McpServer

        servers = [McpServer(entry, self._folder, self._place) for entry in entries]
        for server in servers:
            self.secrets |= server.secrets
            self._resources.push_async_callback(server.close)
        found = await asyncio.gather(*(server.start() for server in servers))
        return [tool for tools in found for tool in tools]

    def _http_tool(self, call: HttpCall, place: str) -> CallTool:
        from evalwright.agents.http_tools import HttpTool, resolve_headers

        headers, secrets = resolve_headers(call.headers, call.url, place)
        self.secrets |= secrets
        tool = HttpTool(call, headers)
        self._resources.push_async_callback(tool.close)
        return tool.call


def _guarded(call: CallTool, entry: ToolEntry) -> CallTool:
    schema = ValueSchema(entry.parameters, entry.name) if entry.parameters else None

    async def guarded(arguments: dict[str, Any]) -> Any:
        problems = schema.problems(arguments) if schema else []
        if problems:
            raise ToolFailed("invalid_arguments", "; ".join(map(str, problems)))
        return await within(entry.timeout_s, call(arguments))

    return guarded
