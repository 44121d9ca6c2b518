"""Models at a fake provider, and requests to them."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from evalwright.models.config import Config, ProviderSettings
from evalwright.models.dialects import HttpDialect, load_dialect
from evalwright.models.endpoints import find_endpoint, known_providers
from evalwright.models.http_model import Channel, HttpModel
from evalwright.models.load import Providers
from evalwright.models.prices import Meter
from evalwright.models.protocol import (
    ChatMessage,
    Model,
    ModelError,
    Reply,
    Request,
    ToolSpec,
    ToolUse,
)
from evalwright.models.providers import PROVIDERS, parse_name
from evalwright.models.retries import RetryPolicy
from providers import FakeProvider

T = TypeVar("T")

KEY = "sk-secret-0123456789abcdef"
KEYS = {row.key_env: KEY for row in PROVIDERS.values() if row.needs_key and row.key_env}
LOOK_UP = ToolSpec("look_up", "Looks an order up.", {"type": "object", "properties": {}})


def a_request(text: str = "Is it shipped?", **more: Any) -> Request:
    return Request((ChatMessage("system", "Be brief."), ChatMessage("user", text)), **more)


def a_tool_conversation() -> Request:
    """Two tools were asked for at once, and both have answered."""
    uses = (ToolUse("c1", "look_up", '{"id":"A-17"}'), ToolUse("c2", "look_up", '{"id":"B-2"}'))
    return Request(
        (
            ChatMessage("system", "Be brief."),
            ChatMessage("user", "Where are they?"),
            ChatMessage("assistant", "", uses),
            ChatMessage("tool", '{"status":"shipped"}', call_id="c1"),
            ChatMessage("tool", '{"status":"lost"}', call_id="c2"),
        ),
        tools=(LOOK_UP,),
    )


class Time:
    """A clock that only sleeping moves, with chance at its largest."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def retries(self, limit: int = 5) -> RetryPolicy:
        return RetryPolicy(limit, clock=lambda: self.now, chance=lambda: 1.0, sleep=self.sleep)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time; for scenes without a network."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_NoWaiting(self))

    @classmethod
    def run(cls, scene: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=cls) as runner:
            return runner.run(scene)

    def time(self) -> float:
        return self._now

    def pass_time(self, seconds: float) -> None:
        self._now += seconds


class _NoWaiting(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        assert ready or timeout is not None, "everybody waits, and nobody for the time"
        if not ready and timeout:
            self._loop.pass_time(timeout)
        return ready


def model_at(
    provider: FakeProvider | str,
    name: str = "openai:m",
    *,
    time: Time | None = None,
    meter: Meter | None = None,
    **settings: Any,
) -> HttpModel:
    """A model whose provider is the fake one."""
    parsed = parse_name(name)
    url = provider if isinstance(provider, str) else provider.url
    config = Config({parsed.provider: ProviderSettings(base_url=url, **settings)})
    endpoint = find_endpoint(known_providers(config)[parsed.provider], config, KEYS)
    retries = (time or Time()).retries(endpoint.settings.retries)
    dialect = load_dialect(endpoint.dialect)
    assert isinstance(dialect, HttpDialect)
    channel = Channel(endpoint, dialect, retries)
    return HttpModel(channel, parsed.model, meter or Meter(parsed.provider, parsed.model))


def ask(model: Model, request: Request | None = None) -> Reply:
    async def asked() -> Reply:
        try:
            return await model.ask(request or a_request())
        finally:
            await model.close()

    return asyncio.run(asked())


def failure(model: Model, request: Request | None = None) -> ModelError:
    """The error that asking ends with."""
    try:
        reply = ask(model, request)
    except ModelError as error:
        return error
    raise AssertionError(f"the model answered {reply}")


def load(name: str, config: Config | None = None, **environment: str) -> Model:
    return Providers(config or Config(), environment).load(name)
