"""The models of the host: loaded once, and asked by all its runs."""

import asyncio

from evalwright.contracts.planning import JudgePanel
from evalwright.engine.judging import Panel
from evalwright.models.load import Providers
from evalwright.models.protocol import Model, Reply, Request


class LastingModel:
    """A model whose connections outlast the run that asks it."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self._model = model

    async def ask(self, request: Request) -> Reply:
        """Ask once."""
        return await self._model.ask(request)

    async def close(self) -> None:
        """Leave the connections to those who come after."""


class Models:
    """The models of the host: loaded once, with limits that all runs share."""

    def __init__(self, providers: Providers) -> None:
        self._providers = providers
        self._loaded: dict[str, Model] = {}

    def load(self, name: str) -> Model:
        """A model by its name."""
        if name not in self._loaded:
            self._loaded[name] = self._providers.load(name)
        return LastingModel(self._loaded[name])

    def panel(self, panel: JudgePanel | None) -> Panel | None:
        """The judges of a run."""
        if panel is None:
            return None
        return Panel([self.load(judge) for judge in panel.judges], panel.samples)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(model.close() for model in self._loaded.values()))
