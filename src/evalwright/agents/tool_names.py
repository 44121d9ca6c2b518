"""Names of tools as providers accept them: `mcp:orders.lookup` becomes `mcp_orders_lookup`."""

import hashlib
import re
from collections.abc import Iterable

LONGEST = 64
TAIL = 8  # hexadecimal digits of a hash, where the name alone is too long or taken

_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")


class ToolNames:
    """Tools and the names under which a model sees them, one to one.

    A tool's name depends on those before it only: more tools at the end change nothing.
    """

    def __init__(self, tools: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        self._tools: dict[str, str] = {}
        for tool in tools:
            if tool not in self._names:
                name = _UNFIT.sub("_", tool)
                if not name or len(name) > LONGEST or name in self._tools:
                    digest = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()
                    tails = (digest[:length] for length in range(TAIL, LONGEST))
                    names = (f"{name[: LONGEST - len(tail) - 1]}_{tail}" for tail in tails)
                    name = next(free for free in names if free not in self._tools)
                self._names[tool] = name
                self._tools[name] = tool

    def name(self, tool: str) -> str:
        return self._names[tool]

    def tool(self, name: str) -> str | None:
        return self._tools.get(name)
