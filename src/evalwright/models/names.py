"""The names of models, `provider:model` or `publisher/model`, and the table of providers."""

import difflib
from collections.abc import Iterable
from typing import Literal

import msgspec

from evalwright.contracts.errors import BadInput

Kind = Literal["openai", "azure", "anthropic", "scripted"]

GITHUB = "github"
SCRIPTED = "scripted"


class Provider(msgspec.Struct, frozen=True):
    """Where a provider is, how it is spoken to, and which variables say more."""

    name: str
    kind: Kind
    base_url: str | None = None  # None: there is no usual address
    base_url_env: str | None = None
    key_env: str | None = None
    needs_key: bool = False
    prices_as: str | None = None  # the provider's name in genai-prices


def _hosted(name: str, kind: Kind, base_url: str | None, **more: str) -> Provider:
    """A provider that wants a key; its variables have the usual names unless others are given."""
    variables = {"base_url_env": f"{name.upper()}_BASE_URL", "key_env": f"{name.upper()}_API_KEY"}
    return Provider(name, kind, base_url, needs_key=True, **{**variables, **more})


def _local(name: str, port: int, base_url_env: str) -> Provider:
    """A server on this machine, which wants a key only if it was started so."""
    return Provider(
        name, "openai", f"http://127.0.0.1:{port}/v1", base_url_env, f"{name.upper()}_API_KEY"
    )


_TABLE = (
    _hosted("openai", "openai", "https://api.openai.com/v1", prices_as="openai"),
    _hosted("anthropic", "anthropic", "https://api.anthropic.com", prices_as="anthropic"),
    _hosted(
        "azure",
        "azure",
        None,
        base_url_env="AZURE_OPENAI_ENDPOINT",
        key_env="AZURE_OPENAI_API_KEY",
        prices_as="azure",
    ),
    _hosted(
        GITHUB,
        "openai",
        "https://models.github.ai/inference",
        base_url_env="GITHUB_MODELS_BASE_URL",
        key_env="GITHUB_TOKEN",
    ),
    _hosted("openrouter", "openai", "https://openrouter.ai/api/v1", prices_as="openrouter"),
    _local("ollama", 11434, "OLLAMA_HOST"),
    _local("vllm", 8000, "VLLM_BASE_URL"),
    _local("lmstudio", 1234, "LMSTUDIO_BASE_URL"),
    Provider(SCRIPTED, "scripted"),
)
PROVIDERS = {provider.name: provider for provider in _TABLE}


class ModelName(msgspec.Struct, frozen=True):
    """A model's name, taken apart; as text it is always `provider:model`."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def parse_name(text: str, known: Iterable[str] = PROVIDERS) -> ModelName:
    """Take a name apart; `publisher/model` is a model of GitHub Models."""
    known = list(known)
    provider, colon, model = text.partition(":")
    if "/" in provider or (not colon and "/" in text):
        provider, model = GITHUB, text
    elif not colon:
        raise BadInput(
            f"model {text!r}: no provider is named; write provider:model, "
            f"for example openai:{text or 'gpt-4.1-mini'} ({_listed(known)})"
        )
    if provider not in known:
        raise BadInput(
            f"model {text!r}: there is no provider {provider!r}{_nearest(provider, known)}; "
            f"{_listed(known)}; others are declared in evalwright.toml as [models.NAME]"
        )
    if not model.strip() or not model.isprintable():
        raise BadInput(f"model {text!r}: after {provider}: the name of a model must follow")
    return ModelName(provider, model)


def _listed(known: list[str]) -> str:
    return f"the providers are {', '.join(known)}"


def _nearest(provider: str, known: list[str]) -> str:
    found = difflib.get_close_matches(provider.lower(), known, n=1, cutoff=0.65)
    return f", did you mean {found[0]!r}?" if found else ""
