"""The table of providers, and the names of models: `provider:model` or `publisher/model`."""

import difflib
import re
from collections.abc import Iterable, Iterator

import msgspec

from evalwright.contracts.errors import BadInput

GITHUB = "github"


class Provider(msgspec.Struct, frozen=True):
    """One provider: the dialect it speaks, its address, and the variables that override them."""

    name: str
    dialect: str  # the module of this package that exports it, loaded when first used
    base_url: str | None = None  # None: there is no usual address
    base_url_env: str | None = None
    key_env: str | None = None
    needs_key: bool = False
    prices_as: str | None = None  # the provider's name in genai-prices
    listens_on: int | None = None  # a port: the address variable may hold `host` or `host:port`
    is_local: bool = False  # answers on this machine: no address, no key
    timeout_s: float = 120.0  # for one attempt
    retired: str | None = None  # the day since which nobody answers at the usual address


_TABLE = (
    Provider(
        "openai",
        "openai",
        "https://api.openai.com/v1",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        needs_key=True,
        prices_as="openai",
    ),
    Provider(
        "anthropic",
        "anthropic",
        "https://api.anthropic.com",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_KEY",
        needs_key=True,
        prices_as="anthropic",
    ),
    Provider(
        "azure",
        "azure",
        None,
        "AZURE_OPENAI_ENDPOINT",
        "AZURE_OPENAI_API_KEY",
        needs_key=True,
        prices_as="azure",
    ),
    Provider(
        GITHUB,
        "openai",
        "https://models.github.ai/inference",
        "GITHUB_MODELS_BASE_URL",
        "GITHUB_TOKEN",
        needs_key=True,
        retired="2026-07-30",
    ),
    Provider(
        "openrouter",
        "openai",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_BASE_URL",
        "OPENROUTER_API_KEY",
        needs_key=True,
        prices_as="openrouter",
    ),
    Provider(
        "ollama",
        "openai",
        "http://127.0.0.1:11434/v1",
        "OLLAMA_HOST",
        "OLLAMA_API_KEY",
        listens_on=11434,
    ),
    Provider("vllm", "openai", "http://127.0.0.1:8000/v1", "VLLM_BASE_URL", "VLLM_API_KEY"),
    Provider(
        "lmstudio", "openai", "http://127.0.0.1:1234/v1", "LMSTUDIO_BASE_URL", "LMSTUDIO_API_KEY"
    ),
    Provider("local", "local", timeout_s=600.0, is_local=True),
    Provider("scripted", "scripted", is_local=True),
)
PROVIDERS = {provider.name: provider for provider in _TABLE}

# Came when files may have declared providers of the same name: what they declare counts.
LATECOMERS = ("local",)

# What `kind` may say of a provider that evalwright.toml declares.
DECLARABLE = tuple(dict.fromkeys(row.dialect for row in _TABLE if not row.is_local))


# Who else offers the models of a publisher on GitHub Models, and what their names begin with there.
_OPENROUTER = {"meta": "meta-llama", "mistral-ai": "mistralai", "xai": "x-ai"}
_ALSO_OFFERED_BY = {"openai": ("openai", "azure")}

# `azureml://registries/azure-openai/models/gpt-4o/versions/2` was the id of `openai/gpt-4o`.
_AZUREML = re.compile(
    r"azureml://registries/([^/]+)/models/([^/]+)(?:/(?:versions|labels)/[^/]+)?/?"
)
_REGISTRIES = {
    "azure-openai": "openai",
    "azureml": "microsoft",
    "azureml-ai21": "ai21-labs",
    "azureml-mistral": "mistral-ai",
}


class ModelName(msgspec.Struct, frozen=True):
    """A model's name, taken apart; as text it is always `provider:model`."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def parse_name(text: str, known: Iterable[str] = PROVIDERS) -> ModelName:
    """Take a name apart; `publisher/model` is a model of GitHub Models."""
    known = list(known)
    if text.startswith("azureml:"):
        # The id of a model in an Azure registry as `publisher/model`.
        found = _AZUREML.fullmatch(text)
        if found is None:
            form = "azureml://registries/REGISTRY/models/MODEL/versions/VERSION"
            raise BadInput(
                f"model {text!r}: not the id of a model; write {form}, or publisher/model"
            )
        registry, model = found[1].lower(), found[2].lower()
        text = f"{_REGISTRIES.get(registry, registry.removeprefix('azureml-'))}/{model}"
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


def same_model_elsewhere(name: ModelName) -> Iterator[ModelName]:
    """Other providers' names of a model of GitHub Models, the publisher's own first."""
    publisher, slash, model = name.model.partition("/")
    if name.provider == GITHUB and slash:
        for provider in _ALSO_OFFERED_BY.get(publisher, ()):
            yield ModelName(provider, model)
        yield ModelName("openrouter", f"{_OPENROUTER.get(publisher, publisher)}/{model}")


def _listed(known: list[str]) -> str:
    return f"the providers are {', '.join(known)}"


def _nearest(provider: str, known: list[str]) -> str:
    found = difflib.get_close_matches(provider.lower(), known, n=1, cutoff=0.65)
    return f", did you mean {found[0]!r}?" if found else ""
