"""From a model's name to a model; whatever is missing is reported here, before a run."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import Text
from evalwright.models.cassette import Cassette
from evalwright.models.config import Config
from evalwright.models.endpoints import find_endpoint, known_providers
from evalwright.models.protocol import Model
from evalwright.models.providers import ModelName, Provider, parse_name

if TYPE_CHECKING:
    from evalwright.models.http_model import Channel


class Providers:
    """The providers of a run: models of the same one share its connections and limits."""

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str] = os.environ,
        notify: Callable[[Text], None] | None = None,
    ) -> None:
        self._config = config
        self._environment = environment
        self._notify = notify
        self._channels: dict[str, Channel] = {}

    def load(self, name: str, cassette: Cassette | None = None, *, embeds: bool = False) -> Model:
        """A model by its name; raises `BadInput` for an unknown provider or a missing key.

        One that `embeds` gives the vectors of texts in place of answers.
        """
        known = known_providers(self._config)
        parsed = parse_name(name, known)
        if cassette is not None and not cassette.record:
            return cassette.player(str(parsed))
        model = self._load(parsed, known[parsed.provider], embeds=embeds)
        return model if cassette is None else cassette.wrap(model)

    def _load(self, name: ModelName, provider: Provider, *, embeds: bool) -> Model:
        from evalwright.models.dialects import LocalDialect, load_dialect
        from evalwright.models.prices import meter

        dialect = load_dialect(provider.dialect)
        if isinstance(dialect, LocalDialect):
            if embeds and provider.name == "local":
                raise BadInput(f"model {name}: it answers questions, and gives no embeddings")
            settings = self._config.settings_of(provider.name)
            return dialect.load(name.model, meter(name, provider, self._config), settings)
        from evalwright.models.http_model import Channel, HttpModel

        if embeds:
            from evalwright.models.embeddings import embedding_dialect

            dialect = embedding_dialect(dialect, provider.name)
        shared_by = f"{provider.name} embeddings" if embeds else provider.name
        channel = self._channels.get(shared_by)
        if channel is None:
            endpoint = find_endpoint(provider, self._config, self._environment)
            if endpoint.detour and self._notify:
                self._notify(endpoint.detour)
            channel = self._channels[shared_by] = Channel(endpoint, dialect)
        return HttpModel(channel, name.model, meter(name, provider, self._config))


def load_model(
    name: str,
    config: Config,
    cassette: Cassette | None = None,
    providers: Providers | None = None,
) -> Model:
    """A model by its name, for example `openai:gpt-4.1-mini`.

    Models that shall share connections and limits are loaded with the same `providers`.
    """
    return (providers or Providers(config)).load(name, cassette)
