"""The secrets that Evalwright knows of: keys of providers, and those that the file names."""

from collections.abc import Iterable, Mapping

from evalwright.models.config import Config
from evalwright.models.names import PROVIDERS


def known_secrets(
    config: Config, environment: Mapping[str, str], more: Iterable[str] = ()
) -> dict[str, str]:
    """Their values by the names of the environment variables that hold them."""
    of_providers = (provider.key_env for provider in PROVIDERS.values())
    declared = (settings.key_env for settings in config.models.values())
    names = dict.fromkeys([*of_providers, *declared, *config.secrets, *more])
    return {name: environment[name] for name in names if name and environment.get(name)}
