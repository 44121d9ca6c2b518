"""A real MCP server with well and badly behaved tools: `mcp_server.py [http]`.

With `http` it serves streamable HTTP on a free port of loopback, and prints the port.
"""

import asyncio
import os
import socket
import sys
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("orders")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def lookup(order_id: str) -> dict[str, Any]:
    """Find an order."""
    return {"id": order_id, "status": "shipped"}


@server.tool(structured_output=False)
def greet(name: str) -> str:
    return f"Hello {name}"


@server.tool(structured_output=False)
def pieces() -> list[str]:
    return ["one", "two"]


@server.tool(structured_output=False)
def flood() -> str:
    return "x" * 5_000_000


@server.tool(structured_output=False)
def variable(name: str) -> str:
    return os.environ.get(name, "unset")


@server.tool()
def fail() -> str:
    raise ValueError("no such order")


@server.tool()
async def hang() -> None:
    await asyncio.Event().wait()


@server.tool()
def die() -> None:
    os._exit(3)


def serve_http() -> None:
    import uvicorn  # which takes its time, and programs do without

    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    if "http" in sys.argv:
        serve_http()
    else:
        server.run()
