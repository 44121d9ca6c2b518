"""The loop of a manifest agent: ask the model, answer its tool calls, until it is done."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from evalwright.agents.protocol import AgentFailure, Invocation
from evalwright.agents.tool_names import ToolNames
from evalwright.agents.toolbox import ToolError
from evalwright.contracts.attachments import text_and_attachments
from evalwright.contracts.coverage import PARTS
from evalwright.contracts.events import ErrorDetail, Reasoned, ToolCalled, ToolReturned
from evalwright.contracts.jsonvalue import NotJson, parse
from evalwright.models.protocol import (
    ChatMessage,
    Model,
    ModelError,
    OutputSchema,
    Request,
    ToolSpec,
    ToolUse,
)

MAX_TURNS = 20
MAX_QUOTED = 200  # characters of what a model wrote, in a message about it


class LoopSettings(msgspec.Struct, frozen=True):
    """How a model is asked, and how often at most."""

    max_turns: int = MAX_TURNS
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None


class ToolLoop:
    """A conversation with a model about one task."""

    def __init__(
        self,
        model: Model,
        invocation: Invocation,
        tools: Sequence[str],
        settings: LoopSettings,
        output: OutputSchema | None = None,
    ) -> None:
        self._model = model
        self._invocation = invocation
        self._tools = tools
        self._names = ToolNames(tools)
        self._specs = tuple(self._spec(tool) for tool in tools)
        self._settings = settings
        self._output = output
        self._messages: list[ChatMessage] = []

    async def run(self, system: str, user: Any) -> str:
        """Talk until the model gives its answer, and return that; raises `AgentFailure`.

        Asked again, it goes on with the same conversation.
        """
        if not self._messages:
            self._messages = [ChatMessage("system", system)]
        said, attachments = text_and_attachments(user)
        self._messages.append(ChatMessage("user", as_text(said), attachments=tuple(attachments)))
        for part in PARTS:
            self._invocation.observe(part, "tool loop")
        for turns_left in reversed(range(self._settings.max_turns)):
            await asyncio.sleep(0)  # a model that answers at once must not keep other tasks waiting
            await self._invocation.keep_pace()
            settings = self._settings
            try:
                reply = await self._model.ask(
                    Request(
                        messages=tuple(self._messages),
                        tools=self._specs,
                        output=self._output,
                        temperature=settings.temperature,
                        max_tokens=settings.max_tokens,
                        seed=settings.seed,
                    )
                )
            except ModelError as error:
                if error.usage is not None:
                    self._invocation.report_usage(error.usage)
                raise AgentFailure(error.code, error.message) from None
            self._invocation.report_usage(reply.usage)
            # Record the model's reasoning, and its text beside tool calls.
            said = reply.text if reply.tool_uses else ""
            for reasoning in (reply.reasoning, said):
                if reasoning.strip():
                    self._invocation.record(Reasoned(self._invocation.agent_id, reasoning))
            if reply.finish == "length":
                message = "the model's answer was cut off at its limit of tokens"
                raise AgentFailure("output_truncated", message, {"answer": reply.text})
            if reply.finish == "filtered":
                message = "the provider's content filter cut the model's answer off"
                raise AgentFailure("output_filtered", message, {"answer": reply.text})
            if reply.finish == "refusal":
                self._invocation.refused = True
                return reply.text
            if not reply.tool_uses:
                self._messages.append(ChatMessage("assistant", reply.text))
                return reply.text
            if turns_left:
                self._messages.append(ChatMessage("assistant", reply.text, reply.tool_uses))
                for use in reply.tool_uses:
                    content = await self._answer(use)
                    self._messages.append(ChatMessage("tool", content, call_id=use.call_id))
        message = f"the model still asked for tools after {self._settings.max_turns} turns"
        raise AgentFailure("turn_limit", message)

    async def _answer(self, use: ToolUse) -> str:
        # The tool that a model means, even one that it was not offered.
        tool = self._names.tool(use.name)
        tool = tool if tool is not None else self._unoffered(use.name)
        try:
            arguments = _arguments(use)
        except _BadArguments as error:
            if tool in self._tools:
                return self._refuse_arguments(tool, use, str(error))
            arguments = {}  # the tool itself is refused
        try:
            return as_text(await self._invocation.use_tool(tool, arguments))
        except ToolError as error:
            return as_text({"error": error.for_model})

    def _refuse_arguments(self, tool: str, use: ToolUse, reason: str) -> str:
        """Record a call whose arguments no tool can be given, as the model wrote them."""
        invocation = self._invocation
        call_id = invocation.note_call(tool).call_id
        error = ErrorDetail("invalid_arguments", reason)
        invocation.record(ToolCalled(invocation.agent_id, tool, call_id, use.arguments))
        invocation.record(
            ToolReturned(
                invocation.agent_id, tool, call_id, error=error, status="error", duration_ms=0
            )
        )
        return as_text({"error": reason})

    def _unoffered(self, name: str) -> str:
        invocation = self._invocation
        known = [*invocation.tools.names(), *invocation.surroundings.toolbox.names()]
        if name in known:
            return name
        return ToolNames([*self._tools, *known]).tool(name) or name or "(no name)"

    def _spec(self, tool: str) -> ToolSpec:
        described = self._invocation.describe(tool)
        # Some providers refuse an object schema without `properties`.
        parameters = {"properties": {}, **described.parameters}
        return ToolSpec(self._names.name(tool), described.description, parameters)


class _BadArguments(Exception):
    pass


def _arguments(use: ToolUse) -> Mapping[str, Any]:
    if not use.arguments.strip():
        return {}
    try:
        arguments = parse(use.arguments)
    except NotJson as error:
        quoted = use.arguments[:MAX_QUOTED]
        raise _BadArguments(f"the arguments are not JSON ({error.reason}): {quoted}") from None
    if not isinstance(arguments, dict):
        quoted = use.arguments[:MAX_QUOTED]
        raise _BadArguments(f"the arguments must be a JSON object, not: {quoted}")
    return arguments


def as_text(value: Any) -> str:
    """A JSON value as a model is shown it: text as it is, all else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
