"""A model that says what a test tells it to, and one invocation around it."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from builders import a_task
from evalwright.agents.manifest import ManifestAgent, load_manifest
from evalwright.agents.protocol import AgentFailure, Invocation, Surroundings
from evalwright.agents.tool_loop import LoopSettings
from evalwright.contracts.events import Payload, ProviderUsage
from evalwright.contracts.suite import Task
from evalwright.models.protocol import ModelError, Reply, Request, ToolUse

USAGE = ProviderUsage("scripted", "m-1", 10, 5)
Turn = Reply | ModelError | Callable[[Request], Reply]


class Script:
    """A model that gives its replies one after the other, and then the last one again."""

    name = "scripted:m-1"

    def __init__(self, *turns: Turn) -> None:
        self.turns = turns
        self.requests: list[Request] = []
        self.closed = False

    async def ask(self, request: Request) -> Reply:
        turn = self.turns[min(len(self.requests), len(self.turns) - 1)]
        self.requests.append(request)
        if isinstance(turn, ModelError):
            raise turn
        return turn if isinstance(turn, Reply) else turn(request)

    async def close(self) -> None:
        self.closed = True


def says(text: str, **fields: Any) -> Reply:
    """The model's last word."""
    return Reply(text, "stop", USAGE, **fields)


def uses(*calls: tuple[str, Any], text: str = "", reasoning: str = "") -> Reply:
    """The model asks for tools: a name each, and arguments as a value or as raw text."""
    asked = tuple(
        ToolUse(f"call_{number}", name, args if isinstance(args, str) else json.dumps(args))
        for number, (name, args) in enumerate(calls)
    )
    return Reply(text, "tools", USAGE, tool_uses=asked, reasoning=reasoning)


class Told(NamedTuple):
    """What came of an invocation."""

    output: Any
    failure: AgentFailure | None
    events: list[dict[str, Any]]
    invocation: Invocation

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event["payload"] for event in self.events if event["type"] == kind]


def a_manifest(**fields: Any) -> dict[str, Any]:
    return {
        "agentId": "local.shop.clerk",
        "persona": "Clerk",
        "modelClass": "general",
        "systemPrompt": "You are a clerk.",
        **fields,
    }


def an_agent(folder: Path, model: Script, turns: int | None = None, **fields: Any) -> ManifestAgent:
    """An agent from a manifest in this folder."""
    path = folder / "agent.json"
    path.write_bytes(msgspec.json.encode(a_manifest(**fields)))
    settings = LoopSettings() if turns is None else LoopSettings(max_turns=turns)
    return load_manifest(str(path), model, settings)


async def invoked(
    agent: ManifestAgent, task: Task | None = None, surroundings: Surroundings | None = None
) -> Told:
    """Invoke the agent once, and take down what it records."""
    recorded: list[Payload] = []

    async def keep_pace() -> None:
        pass

    invocation = Invocation(
        run_id="run_a",
        invocation_id="inv-0001",
        agent_id=agent.agent_id,
        task=task or a_task(),
        record=recorded.append,
        keep_pace=keep_pace,
        surroundings=surroundings,
    )
    invocation.allowed_tools = agent.allowed_tools
    output, failure = None, None
    try:
        output = await agent.invoke(invocation)
    except AgentFailure as raised:
        failure = raised
    events = [{"type": payload.TYPE, "payload": payload} for payload in recorded]
    return Told(output, failure, msgspec.json.decode(msgspec.json.encode(events)), invocation)


def invoke(
    agent: ManifestAgent, task: Task | None = None, surroundings: Surroundings | None = None
) -> Told:
    return asyncio.run(invoked(agent, task, surroundings))


def answered_by(*tools: tuple[str, Any], memory: Sequence[dict[str, Any]] = ()) -> Task:
    """A task whose fixtures answer these tools."""
    responses = [{"tool": tool, "response": response} for tool, response in tools]
    return a_task(fixtures={"toolResponses": responses, "memorySeed": list(memory)})
