"""Where a provider is reached and with which key: its table row, the environment, the file."""

import ipaddress
import os
import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

import msgspec

from evalwright.contracts.errors import BadInput, MissingKey
from evalwright.contracts.marks import masked
from evalwright.models.config import Config, ProviderSettings, address_problem
from evalwright.models.providers import LATECOMERS, PROVIDERS, Provider

SHORTEST_SECRET = 8

_KEY_LIKE = re.compile(r"\b(?:sk|pk|rk|gh[opsur]|github_pat|xai|gsk)[-_][\w*.…-]{6,}")
_USER_INFO = re.compile(r"//[^/\s@]+@")  # of a proxy, say
_HIDDEN = masked("key")


class ProviderKey:
    """A key that is shown only on request, never by `repr`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def hide_in(self, text: str) -> str:
        """The text without the key, also where the key is quoted for a URL.

        A key as short as a word is a placeholder for servers that accept any key.
        """
        if len(self._value) < SHORTEST_SECRET:
            return text
        for written in (self._value, quote(self._value, safe="")):
            text = text.replace(written, _HIDDEN)
        return text

    def __repr__(self) -> str:
        return "ProviderKey(…)"


class Endpoint(msgspec.Struct, frozen=True):
    """One provider, ready to be called."""

    provider: str
    dialect: str
    base_url: str
    key: ProviderKey | None
    key_env: str | None
    base_url_env: str | None
    settings: ProviderSettings
    api_version: str | None = None
    detour: str | None = None  # that calls do not go to the provider's own address

    def without_key(self, text: str) -> str:
        if self.key is not None:
            text = self.key.hide_in(text)
        return _USER_INFO.sub(f"//{_HIDDEN}@", _KEY_LIKE.sub(_HIDDEN, text))


def known_providers(config: Config) -> dict[str, Provider]:
    """The table of providers and those that the file declares."""
    declared = {
        name: Provider(name, settings.kind)
        for name, settings in config.models.items()
        if settings.kind is not None and (name not in PROVIDERS or name in LATECOMERS)
    }
    return {**PROVIDERS, **declared}


def find_endpoint(
    provider: Provider, config: Config, environment: Mapping[str, str] = os.environ
) -> Endpoint:
    """Where the provider is and with which key; a missing key is reported now, not during a run."""
    settings = config.settings_of(provider.name)
    base_url, _ = _base_url(provider, settings, config, environment)
    key_env = settings.key_env or provider.key_env
    value = environment.get(key_env, "").strip() if key_env else ""
    if value and not (value.isascii() and value.isprintable() and " " not in value):
        raise BadInput(
            f"provider {provider.name}: {key_env} holds a character that no key contains "
            "(a space, a line break, a letter with an accent); set it again"
        )
    key = ProviderKey(value) if value else None
    if key is None and (provider.needs_key or settings.key_env):
        retired = ""
        if is_retired(provider, config, environment):
            retired = (
                f", and {provider.base_url_env} to an address: its own is retired since "
                f"{provider.retired}; or name a model of another provider"
            )
        raise MissingKey(
            f"provider {provider.name}: no key; set the environment variable {key_env} to it"
            f"{retired}"
        )
    if key is not None:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
        if parts.scheme == "http" and not is_loopback(host):
            raise BadInput(
                f"provider {provider.name}: {key_env} is not sent over http:// to {host}; use https://"
            )
    return Endpoint(
        provider.name,
        provider.dialect,
        base_url,
        key,
        key_env,
        provider.base_url_env,
        settings,
        settings.api_version
        or environment.get("AZURE_OPENAI_API_VERSION")
        or environment.get("OPENAI_API_VERSION"),
        find_detour(provider, config, environment),
    )


def is_retired(
    provider: Provider, config: Config, environment: Mapping[str, str] = os.environ
) -> bool:
    """Whether nobody answers for a provider any more, and no other address is given for it."""
    if provider.retired is None:
        return False
    settings = config.models.get(provider.name, ProviderSettings())
    given = environment.get(provider.base_url_env or "", "").strip()
    return not (given or settings.base_url)


def is_set_up(
    provider: Provider, config: Config, environment: Mapping[str, str] = os.environ
) -> bool:
    """Whether the user has given a provider a key, or an address where it needs no key."""
    if is_retired(provider, config, environment):
        return False
    try:
        find_endpoint(provider, config, environment)
    except BadInput:
        return False
    is_named = provider.name in config.models or bool(environment.get(provider.base_url_env or ""))
    return provider.needs_key or is_named


def find_detour(
    provider: Provider, config: Config, environment: Mapping[str, str] = os.environ
) -> str | None:
    """Where calls go and who says so, if it is not the provider's own address."""
    if provider.base_url is None:  # it is wherever it was declared to be
        return None
    settings = config.models.get(provider.name, ProviderSettings())
    url, source = _base_url(provider, settings, config, environment)
    ours, usual = urlsplit(url), urlsplit(provider.base_url)
    if ours == usual or (is_loopback(ours.hostname or "") and is_loopback(usual.hostname or "")):
        return None
    return f"calls to {provider.name} go to {url}, not to {provider.base_url} ({source})"


def _base_url(
    provider: Provider,
    settings: ProviderSettings,
    config: Config,
    environment: Mapping[str, str],
) -> tuple[str, str]:
    name = provider.base_url_env
    given = environment.get(name, "").strip() if name else ""
    if given and provider.listens_on:
        given = _server_address(given, provider.listens_on)
    source = f"{config.source}: models.{provider.name}.base_url"
    if name and given:
        source = name
    url = given or settings.base_url or provider.base_url
    if url is None:
        where = f"set {name}, or " if name else "set "
        raise BadInput(
            f"provider {provider.name}: no address; "
            f"{where}base_url in [models.{provider.name}] of {config.source}"
        )
    problem = address_problem(url)
    if problem:
        raise BadInput(f"{source}: {problem[0]} ({problem[1]})")
    return url.rstrip("/"), source


def _server_address(host: str, usual_port: int) -> str:
    if "://" not in host:
        host = f"http://{host}"
    try:
        parts = urlsplit(host)
        port = parts.port or (443 if parts.scheme == "https" else usual_port)
    except ValueError:
        return host
    name = parts.hostname or "127.0.0.1"
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)  # noqa: S104 - not bound to
    name = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{name}:{port}{parts.path.rstrip('/').removesuffix('/v1')}/v1"


def is_loopback(host: str) -> bool:
    """Whether an address stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
