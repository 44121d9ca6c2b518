"""An agent that knows nothing but MCP: it makes the calls of its task through the official client.

As a program it reads its request from stdin; `ask` does the same for an agent behind an address.
"""

import asyncio
import json
import os
import sys
from typing import Any

from mcp import Client


async def make_calls(url: str, calls: list[list[Any]], mode: str = "auto") -> list[Any]:
    """Call tools one after the other; of every result, whether it is an error and what it says."""
    results = []
    async with Client(url, mode=mode) as client:
        await client.list_tools()
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            said = result.structured_content or result.content[0].text
            results.append({"error": said} if result.is_error else said)
    return results


def ask(request: dict[str, Any], mode: str = "auto") -> list[Any]:
    """Make the calls that a request's input lists."""
    return asyncio.run(make_calls(request["toolGateway"]["url"], request["input"], mode))


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    assert request["toolGateway"]["url"] == os.environ["EVALWRIGHT_TOOL_GATEWAY"]
    json.dump({"output": ask(request)}, sys.stdout)


if __name__ == "__main__":
    main()
