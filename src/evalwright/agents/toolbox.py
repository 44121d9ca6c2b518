"""Live tools by name: what they are called, what they take, and what they do."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from evalwright.contracts.errors import BadInput

CallTool = Callable[[dict[str, Any]], Awaitable[Any]]
Close = Callable[[], Awaitable[None]]


class ToolDescription(msgspec.Struct, frozen=True):
    """What is told of a tool, whether it is live or answered from fixtures."""

    name: str  # as in a manifest's toolAllowlist: `<scope>:<tool-id>`
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})
    writes: bool = True  # unless it is said that the tool only reads


class Tool(msgspec.Struct, frozen=True):
    """A live tool; without `call` it is only described, and answered from fixtures."""

    description: ToolDescription
    call: CallTool | None = None


class ToolFailed(Exception):
    """A live tool that gave no result."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code}: {message}")


class Toolbox:
    """The tools of a run; `secrets` are the variables they were given, which no log may hold."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        close: Sequence[Close] = (),
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self.secrets = dict(secrets or {})
        self._tools: dict[str, Tool] = {}
        self._close = close
        for tool in tools:
            name = tool.description.name
            if name in self._tools:
                raise BadInput(f"--tools: two tools are called {name!r}; give each its own name")
            self._tools[name] = tool

    def names(self) -> list[str]:
        """The names of all tools, in the order in which they were given."""
        return list(self._tools)

    def describe(self, name: str) -> ToolDescription:
        """What is known of a tool; of one that nobody described, its name alone."""
        tool = self._tools.get(name)
        return tool.description if tool else ToolDescription(name)

    def find(self, name: str) -> Tool | None:
        """The tool with this name."""
        return self._tools.get(name)

    async def close(self) -> None:
        """End the programs and connections behind the tools."""
        for close in reversed(self._close):
            await close()


async def within(seconds: float, call: Awaitable[Any]) -> Any:
    """What a call returns, if it does so in time; one that does not want to stop is left behind."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        abandon(task)
        raise
    if not task.done():
        abandon(task)
        raise ToolFailed("tool_timeout", f"no answer within {seconds:g} s")
    if task.cancelled():
        raise ToolFailed("tool_error", "the tool cancelled itself")
    if isinstance(task.exception(), GeneratorExit):  # no one may raise it but Python
        raise ToolFailed("tool_error", "GeneratorExit: the tool closed itself")
    return task.result()


def abandon(task: "asyncio.Future[Any]") -> None:
    """Tell a task to stop, and do not wait for it."""
    task.add_done_callback(_look_at_result)
    task.cancel()


def _look_at_result(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()  # so that asyncio does not complain that nobody looked
