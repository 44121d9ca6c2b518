"""What answers an agent's tool calls: live tools or a task's fixtures; and its seeded memory."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import phrase
from evalwright.contracts.redaction import NOTHING_SECRET, Redactor
from evalwright.contracts.suite import Fixtures

CallTool = Callable[[dict[str, Any]], Awaitable[Any]]
Close = Callable[[], Awaitable[None]]


class ToolDescription(msgspec.Struct, frozen=True):
    """What a model is told about a tool, live or answered from fixtures."""

    name: str  # as in a manifest's toolAllowlist: `<scope>:<tool-id>`
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})
    writes: bool = True  # unless the tool is declared to read only


class LiveTool(msgspec.Struct, frozen=True):
    """A tool of a run; without `call` it is only described, and answered from fixtures."""

    description: ToolDescription
    call: CallTool | None = None


class ToolError(Exception):
    """A tool call that has no result; the agent may catch it and go on.

    `code` says why, as `tool_timeout` or `rate_limited`. `for_model` is the message for a model,
    which must not learn that it is being evaluated.
    """

    def __init__(
        self, message: str, for_model: str | None = None, code: str = "tool_error"
    ) -> None:
        self.for_model = for_model or message
        self.code = code
        super().__init__(message)


class ToolFailed(Exception):
    """A tool that gave no result."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code}: {message}")


class Toolbox:
    """The tools of a run; `secrets` are the variables they were given, which no log may hold."""

    def __init__(
        self,
        tools: Iterable[LiveTool] = (),
        close: Sequence[Close] = (),
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self.secrets = dict(secrets or {})
        self._tools: dict[str, LiveTool] = {}
        self._close = close
        for tool in tools:
            name = tool.description.name
            if name in self._tools:
                message = "{@tools}: two tools are called {name!r}; give each its own name"
                raise BadInput(phrase(message, name=name))
            self._tools[name] = tool

    def names(self) -> list[str]:
        return list(self._tools)

    def describe(self, name: str) -> ToolDescription:
        tool = self._tools.get(name)
        return tool.description if tool else ToolDescription(name)

    def find(self, name: str) -> LiveTool | None:
        return self._tools.get(name)

    async def close(self) -> None:
        """End the programs and connections behind the tools, all even if one fails to end."""
        async with AsyncExitStack() as rest:
            for close in self._close:
                rest.push_async_callback(close)


class Memory(list[dict[str, Any]]):
    """The memory entries an agent starts with: those of its own task only."""

    @classmethod
    def seeded(
        cls,
        fixtures: Fixtures | None,
        redactor: Redactor = NOTHING_SECRET,
        now: datetime | None = None,
    ) -> "Memory":
        """A copy of the task's seed without known secrets; the agent may change it freely.

        An entry whose `expiresAt` is not after `now` is left out.
        """
        if fixtures is None or not fixtures.memory_seed:
            return cls()
        seed = msgspec.json.decode(redactor.redact(msgspec.json.encode(fixtures.memory_seed)))
        now = now or datetime.now(UTC)
        return cls(entry for entry in seed if not _has_expired(entry, now))

    def get(self, entry_id: str) -> dict[str, Any] | None:
        return next((entry for entry in self if entry.get("id") == entry_id), None)


def _has_expired(entry: dict[str, Any], now: datetime) -> bool:
    try:
        end = datetime.fromisoformat(entry["expiresAt"].upper())
    except (KeyError, AttributeError, TypeError, ValueError):
        return False
    return (end if end.tzinfo else end.replace(tzinfo=UTC)) <= now


NO_TOOLS = Toolbox()


async def within(seconds: float, call: Awaitable[Any]) -> Any:
    """What a call returns, if it does so in time; a call that does not stop is abandoned."""
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
    if isinstance(task.exception(), GeneratorExit):  # only Python may raise it
        raise ToolFailed("tool_error", "GeneratorExit: the tool closed itself")
    return task.result()


def abandon(task: "asyncio.Future[Any]") -> None:
    """Tell a task to stop, and do not wait for it."""
    task.add_done_callback(_retrieve_exception)
    task.cancel()


def _retrieve_exception(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()  # else asyncio warns that nobody looked
