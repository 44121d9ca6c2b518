"""Models by name: loaded once, shared by all who ask, closed together."""

import asyncio
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evalwright.agents.load import TOKEN_VARIABLE
from evalwright.contracts.redaction import NOTHING_SECRET, Redactor
from evalwright.engine.judging import Panel
from evalwright.models.config import Config, known_secrets, load_config
from evalwright.models.protocol import Model, Reply, Request

if TYPE_CHECKING:
    from evalwright.models.cassette import Cassette
    from evalwright.models.load import Providers
    from evalwright.models.providers import ModelName


class ModelPool:
    """The models of a session, of a host, or of an evaluation of prompts.

    Models of one provider share its connections and limits. With a cassette they are answered
    from it. `redactor` removes every secret that the configuration and the environment name.
    """

    def __init__(
        self,
        config: Config | None = None,
        cassette: str | Path | None = None,
        *,
        record: bool = False,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.config = load_config() if config is None else config
        self.secrets = known_secrets(self.config, environment, [TOKEN_VARIABLE])
        self.redactor = Redactor(self.secrets) if self.secrets else NOTHING_SECRET
        self.is_used = cassette is not None  # whether there is anything to close
        self.cassette: Cassette | None = None
        if cassette is not None:
            from evalwright.models import cassette as cassettes

            self.cassette = cassettes.Cassette(cassette, record, self.redactor.redact_text)
        self._environment = environment
        self._loaded: dict[str, Model] = {}

    @functools.cached_property
    def _providers(self) -> "Providers":
        from evalwright.models.load import Providers  # a run without models needs none

        return Providers(self.config, self._environment)

    def name(self, name: str) -> "ModelName":
        """A model's name in full, `provider:model`; raises `BadInput`."""
        from evalwright.models.endpoints import known_providers
        from evalwright.models.providers import parse_name

        return parse_name(name, known_providers(self.config))

    def load(self, name: str) -> Model:
        """A model by its name; raises `BadInput` for an unknown provider or a missing key."""
        if name not in self._loaded:
            self.is_used = True
            self._loaded[name] = self._providers.load(name, self.cassette)
        return SharedModel(self._loaded[name])

    def panel(self, judges: Sequence[str], samples: int) -> Panel:
        """The judges of a run."""
        return Panel([self.load(judge) for judge in judges], samples)

    async def close(self) -> None:
        """Close all connections, and the cassette."""
        try:
            await asyncio.gather(*(model.close() for model in self._loaded.values()))
        finally:
            if self.cassette is not None:
                self.cassette.close()


class SharedModel:
    """A model of a pool: closing it leaves its connections to the others."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self._model = model

    async def ask(self, request: Request) -> Reply:
        """Ask once."""
        return await self._model.ask(request)

    async def close(self) -> None:
        """Nothing: the pool closes its models."""
