"""Tools files for tests, and calls of the tools in them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from evalwright.agents.tool_files import load_tools
from evalwright.agents.toolbox import Toolbox, ToolFailed
from evalwright.contracts.errors import EvalwrightError

LIMIT_SECONDS = 240  # nothing here takes as long, unless it hangs


def write_tools(folder: Path, *tools: dict[str, Any], mcp: Any = None) -> Path:
    path = folder / "tools.json"
    document: dict[str, Any] = {"tools": list(tools)} | ({} if mcp is None else {"mcp": mcp})
    path.write_text(json.dumps(document), "utf-8")
    return path


def with_tools(path: Path, use: Callable[[Toolbox], Awaitable[Any]]) -> Any:
    """Load the tools, use them, close them: all in one event loop."""

    async def main() -> Any:
        toolbox = await load_tools(path)
        try:
            return await use(toolbox)
        finally:
            await toolbox.close()

    async def bounded() -> Any:
        return await asyncio.wait_for(main(), LIMIT_SECONDS)

    return asyncio.run(bounded())


async def call(toolbox: Toolbox, tool_name: str, /, **arguments: Any) -> Any:
    tool = toolbox.find(tool_name)
    assert tool is not None
    assert tool.call is not None
    return await tool.call(arguments)


async def failure(toolbox: Toolbox, tool_name: str, /, **arguments: Any) -> ToolFailed:
    with pytest.raises(ToolFailed) as raised:
        await call(toolbox, tool_name, **arguments)
    return raised.value


def answer(path: Path, tool_name: str, /, **arguments: Any) -> Any:
    return with_tools(path, lambda toolbox: call(toolbox, tool_name, **arguments))


def failed(path: Path, tool_name: str, /, **arguments: Any) -> ToolFailed:
    raised: ToolFailed = with_tools(path, lambda toolbox: failure(toolbox, tool_name, **arguments))
    return raised


def refused(path: Path) -> EvalwrightError:
    """Why the tools cannot be loaded."""

    async def nothing(toolbox: Toolbox) -> None:
        pass

    with pytest.raises(EvalwrightError) as raised:
        with_tools(path, nothing)
    return raised.value
