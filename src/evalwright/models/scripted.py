"""A model that answers by rules: the same request always gets the same reply."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

import msgspec

from evalwright.models.prices import Meter, Tokens
from evalwright.models.protocol import Finish, Reply, Request, ToolUse

CHARACTERS_PER_TOKEN = 4


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a scripted model says; what is left out follows from the rest."""

    text: str = ""
    tool_uses: tuple[ToolUse, ...] = ()
    finish: Finish | None = None
    reasoning: str = ""
    tokens: Tokens | None = None
    latency_s: float = 0.0


Function = Callable[[Request], str | Said | Reply | Awaitable[str | Said | Reply]]


class ScriptedModel:
    """A model whose replies a function makes; it raises `ModelError` to fail."""

    def __init__(self, name: str, function: Function) -> None:
        self.name = name if ":" in name else f"scripted:{name}"
        provider, _, model = self.name.partition(":")
        self._function = function
        self._meter = Meter(provider, model)

    async def ask(self, request: Request) -> Reply:
        """What the function says; tokens are estimated from the lengths of the texts."""
        said = self._function(request)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, Reply):
            return said
        if isinstance(said, str):
            said = Said(text=said)
        if said.latency_s:
            await asyncio.sleep(said.latency_s)
        finish = said.finish or ("tools" if said.tool_uses else "stop")
        usage = self._meter.usage(said.tokens or estimate_tokens(request, said))
        return Reply(said.text, finish, usage, said.tool_uses, said.reasoning)

    async def close(self) -> None:
        """Nothing is held."""


def estimate_tokens(request: Request, said: Said) -> Tokens:
    """A fixed number of characters for a token, in both directions."""
    sent = sum(
        len(message.content) + sum(len(use.arguments) for use in message.tool_uses)
        for message in request.messages
    )
    given = len(said.text) + sum(len(use.name) + len(use.arguments) for use in said.tool_uses)
    return Tokens(-(-sent // CHARACTERS_PER_TOKEN), -(-given // CHARACTERS_PER_TOKEN))
