"""The crew of a run: its agent and all that works with it, by the names a user or a log gives."""

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from evalwright.agents.load import TOKEN_VARIABLE, load_agent
from evalwright.agents.protocol import Agent, Surroundings
from evalwright.agents.toolbox import Toolbox
from evalwright.contracts.planning import (
    JudgePanel,
    RunSettings,
)
from evalwright.contracts.redaction import Redactor
from evalwright.engine.execution import Means
from evalwright.engine.judging import Panel
from evalwright.models.config import Config, load_config
from evalwright.models.load import Providers
from evalwright.models.protocol import Model
from evalwright.models.secrets import known_secrets

if TYPE_CHECKING:
    from evalwright.agents.gateway import Gateway
    from evalwright.models.cassette import Cassette


class Names(msgspec.Struct, frozen=True):
    """Who works on a run, by name."""

    agent: str
    settings: RunSettings
    agent_id: str | None = None
    model_class: str | None = None
    model: str | None = None
    panel: JudgePanel | None = None


class Crew:
    """An agent, its model, its tools and its judges; made before a run, at work while it lasts."""

    def __init__(self, names: Names) -> None:
        config: Config = load_config()
        self._names = names
        self._secrets = known_secrets(config, os.environ, [TOKEN_VARIABLE])
        self.redactor = Redactor(self._secrets)
        self._providers = Providers(config)
        self._cassette = _cassette(names, self.redactor)
        self._gateway = _gateway(names.settings)
        self._toolbox = Toolbox()
        model = self._load(names.model) if names.model else None
        self.agent: Agent = load_agent(
            names.agent, names.agent_id, names.model_class, model, self._gateway
        )
        panel = names.panel
        self._panel = (
            Panel([self._load(judge) for judge in panel.judges], panel.samples) if panel else None
        )

    def _load(self, name: str) -> Model:
        return self._providers.load(name, self._cassette)

    async def gather(self, *, live: bool) -> Means:
        """Start what has to run beside the agent."""
        settings = self._names.settings
        if settings.tools is not None:
            from evalwright.agents.tool_files import load_tools

            self._toolbox = await load_tools(Path(settings.tools), live=live)
        if self._gateway is not None:
            await self._gateway.start()
        redactor = Redactor({**self._toolbox.secrets, **self._secrets})
        if self._cassette is not None:
            self._cassette.redact = redactor.redact_text
        surroundings = Surroundings(self._toolbox, live, settings.read_only, redactor)
        return Means(surroundings, self._panel)

    async def dismiss(self) -> None:
        """Stop all that was started, the others too where one of them fails to."""
        async with AsyncExitStack() as rest:
            if self._cassette is not None:
                rest.callback(self._cassette.close)
            if self._panel is not None:
                rest.push_async_callback(self._panel.close)
            rest.push_async_callback(self._toolbox.close)
            rest.push_async_callback(self.agent.close)


def model_name(name: str) -> str:
    """A model's name in full, `provider:model`; raises `BadInput`."""
    from evalwright.models.endpoints import known_providers
    from evalwright.models.names import parse_name

    return str(parse_name(name, known_providers(load_config())))


def _cassette(names: Names, redactor: Redactor) -> "Cassette | None":
    if names.settings.cassette is None:
        return None
    from evalwright.models.cassette import Cassette

    return Cassette(names.settings.cassette, names.settings.record, redactor.redact_text)


def _gateway(settings: RunSettings) -> "Gateway | None":
    if not settings.gateway:
        return None
    from evalwright.agents.gateway import Gateway

    return Gateway()
