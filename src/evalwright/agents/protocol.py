"""What the engine asks of an agent, and what an agent may do while it is invoked."""

import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from evalwright.agents.fixtures import Memory, NoFixture, ToolFixtures
from evalwright.contracts.events import (
    ErrorDetail,
    Payload,
    ProviderUsage,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.jsonvalue import NotJson, canonical, plain
from evalwright.contracts.suite import Task

Record = Callable[[Payload], None]
KeepPace = Callable[[], Awaitable[None]]  # waits while too much is queued for the disk


class AgentFailure(Exception):
    """The agent gave no usable answer; the code says in which way."""

    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        self.error = ErrorDetail(code, message or code, details)
        super().__init__(f"{code}: {message}")


class ToolError(Exception):
    """A tool call that has no result; the agent may catch it and go on."""


class InvocationEnded(RuntimeError):
    """Raised in an agent that goes on after its invocation has ended, for one by timeout."""

    def __init__(self) -> None:
        super().__init__("this invocation has ended; nothing more is recorded for it")


class Agent(Protocol):
    """A subject under evaluation."""

    agent_id: str  # the id that events carry
    ref: str  # how the agent is reached, as it may be written down
    model_class: str | None  # the class of model behind it, where it is known

    async def invoke(self, invocation: "Invocation") -> Any:
        """Work on one task and return the output; raises `AgentFailure`."""

    async def close(self) -> None:
        """Let go of connections and the like."""


class Invocation:
    """One task given to an agent once: everything it does is recorded through this."""

    def __init__(
        self,
        *,
        run_id: str,
        invocation_id: str,
        agent_id: str,
        task: Task,
        record: Record,
        keep_pace: KeepPace,
    ) -> None:
        self.run_id = run_id
        self.invocation_id = invocation_id
        self.agent_id = agent_id
        self.task = task
        self.keep_pace = keep_pace
        self.usages: list[ProviderUsage] = []
        self._record = record
        self._fixtures = ToolFixtures(task.fixtures)
        self._calls = 0
        self._ended = False
        self._lock = threading.Lock()

    def memory(self) -> Memory:
        """The agent's memory as it is before it starts."""
        return Memory.seeded(self.task.fixtures)

    def call_tool(self, name: str, args: Mapping[str, Any] | None = None) -> Any:
        """Answer a tool call from the task's fixtures; both call and answer are recorded."""
        name = _checked_name(name)
        call_id = self.next_call_id()
        try:
            inputs = _json_copy(dict(args or {}))
        except (NotJson, TypeError, ValueError) as error:
            self.record(ToolCalled(self.agent_id, name, call_id))
            raise self._refused(name, call_id, "invalid_arguments", str(error)) from None
        self.record(ToolCalled(self.agent_id, name, call_id, inputs))
        try:
            with self._lock:
                response = self._fixtures.take(name)
        except NoFixture as error:
            raise self._refused(name, call_id, "no_fixture", str(error)) from None
        self.record(
            ToolReturned(self.agent_id, name, call_id, outcome=response, status="ok", duration_ms=0)
        )
        return msgspec.json.decode(response)

    def record(self, payload: Payload) -> None:
        """Record something that the agent did."""
        with self._lock:
            self._raise_if_ended()
            self._record(payload)

    def report_usage(self, usage: ProviderUsage) -> None:
        """Take the usage of one model call; it is recorded before the agent's decision."""
        with self._lock:
            self._raise_if_ended()
            self.usages.append(usage)

    def end(self) -> None:
        """From here on nothing is recorded: the score is next."""
        with self._lock:
            self._ended = True

    def next_call_id(self) -> str:
        """An id for the next tool call: the same in every run."""
        with self._lock:
            self._calls += 1
            return f"{self.invocation_id}:c{self._calls}"

    def _refused(self, name: str, call_id: str, code: str, message: str) -> ToolError:
        error = ErrorDetail(code, message)
        self.record(
            ToolReturned(self.agent_id, name, call_id, error=error, status="error", duration_ms=0)
        )
        return ToolError(message)

    def _raise_if_ended(self) -> None:
        if self._ended:
            raise InvocationEnded


def checked_output(output: Any) -> Any:
    """The output as plain JSON values; raises `AgentFailure` where it is none."""
    try:
        return plain(output)
    except NotJson as error:
        raise AgentFailure("invalid_answer", f"the output is not a JSON value: {error}") from None


def _checked_name(name: Any) -> str:
    """The name as a plain string: an agent is free to ignore the annotation."""
    try:
        text = plain(name)
    except NotJson:
        text = None
    if not isinstance(text, str) or not text:
        raise ToolError(f"a tool is called by its name, not by {name!r}")
    return text


def _json_copy(value: Any) -> msgspec.Raw:
    return msgspec.Raw(canonical(value).encode())
