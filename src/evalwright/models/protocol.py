"""What Evalwright asks of a model, and what a model answers."""

from typing import Any, Literal, Protocol

import msgspec

from evalwright.contracts.attachments import AttachedFile
from evalwright.contracts.events import ProviderUsage

ModelErrorCode = Literal[
    "unavailable_model",  # it does not exist any more or yet, or cannot be reached
    "permission_denied",
    "rate_limited",
    "timeout",
    "parse_error",  # an answer that is not in the provider's own format
    "invalid_input",  # the provider refuses the request as it is
    "internal_error",
]
Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "tools", "refusal", "filtered"]


class ToolUse(msgspec.Struct, frozen=True, gc=False):
    """A tool call that a model asks for; `arguments` is the JSON text as the model wrote it."""

    call_id: str
    name: str
    arguments: str


class ChatMessage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One message of a conversation; a message of role `tool` answers the call `call_id`."""

    role: Role
    content: str
    tool_uses: tuple[ToolUse, ...] = ()
    call_id: str | None = None
    attachments: tuple[AttachedFile, ...] = ()  # of the user, before the text


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A tool that a model may ask for; the name must fit `^[a-zA-Z0-9_-]{1,64}$`."""

    name: str
    description: str
    parameters: dict[str, Any]


class OutputSchema(msgspec.Struct, frozen=True, gc=False):
    """A JSON Schema that the answer must fit."""

    name: str
    schema: dict[str, Any]


class Request(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One call of a model."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSchema | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None  # asked for where the provider offers them
    top_p: float | None = None
    has_our_limits: bool = False  # of length: calls recorded before there were any answer it too


class TokenLogprob(msgspec.Struct, frozen=True, gc=False):
    """A token of the answer and its log probability, with the likeliest others."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


class Reply(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a model answered; `usage` has the price where it is known."""

    text: str
    finish: Finish
    usage: ProviderUsage
    tool_uses: tuple[ToolUse, ...] = ()
    reasoning: str = ""
    logprobs: tuple[TokenLogprob, ...] | None = None
    retries: int = 0  # how often the call was made again before this answer


class ModelError(Exception):
    """A call that gave no reply, after all retries that made sense."""

    def __init__(
        self, code: ModelErrorCode, message: str, *, retry_after_s: float | None = None
    ) -> None:
        self.code: ModelErrorCode = code
        self.message = message
        self.retry_after_s = retry_after_s
        self.retries = 0  # how often the call was made again
        self.usage: ProviderUsage | None = None  # of a call that was paid for all the same
        super().__init__(f"{code}: {message}")


def unfit_attachment(provider: str, attachment: AttachedFile) -> ModelError:
    """Why a model cannot be asked: its provider takes nothing of this kind."""
    what = f"{attachment.name} ({attachment.type})"
    return ModelError("invalid_input", f"{provider} takes no {attachment.kind} such as {what}")


class Model(Protocol):
    """A model under its full name, `provider:model`."""

    name: str

    async def ask(self, request: Request) -> Reply: ...

    async def close(self) -> None: ...


class RateLimiter(Protocol):
    """Lets calls begin, and counts what they used."""

    async def enter(self, provider: str) -> int:
        """Wait until a call of a provider may begin; gives how many tokens are set aside for it."""

    async def pay(self, provider: str, tokens: int, expected: int = 0) -> None: ...


def _tokens(usage: ProviderUsage | None) -> int:
    return usage.input_tokens + usage.output_tokens if usage is not None else 0


class SharedModel:
    """A model of a pool: closing it leaves its connections to the others."""

    def __init__(self, model: Model, rate_limits: RateLimiter | None = None) -> None:
        self.name = model.name
        self._model = model
        self._rate_limits = rate_limits

    async def ask(self, request: Request) -> Reply:
        if self._rate_limits is None:
            return await self._model.ask(request)
        provider = self.name.partition(":")[0]
        expected = await self._rate_limits.enter(provider)
        try:
            reply = await self._model.ask(request)
        except ModelError as error:
            await self._rate_limits.pay(provider, _tokens(error.usage), expected)
            raise
        await self._rate_limits.pay(provider, _tokens(reply.usage), expected)
        return reply

    async def close(self) -> None: ...
