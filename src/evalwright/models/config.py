"""`evalwright.toml`: addresses and limits of providers, prices, names of secrets, what to run.

`[tool.evalwright]` in `pyproject.toml` says the same.
"""

import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from evalwright.contracts.documents import open_input
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.messages import Text
from evalwright.models.providers import DECLARABLE, LATECOMERS, PROVIDERS
from evalwright.models.run_defaults import NAMES, NO_DEFAULTS, RunDefaults, spelled

FILE_NAME = "evalwright.toml"
PROJECT_FILE = "pyproject.toml"
PROJECT_TABLE = b"tool.evalwright"
VARIABLE = "EVALWRIGHT_CONFIG"
MAX_BYTES = 1024 * 1024

ENVIRONMENT_NAME = r"^[A-Za-z_][A-Za-z0-9_]*\Z"
_PROVIDER_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_KEY_FIELD = re.compile(
    r"^(api|access|auth|bearer)?[_-]?(key|token|secret|password|authorization|headers?)$",
    re.IGNORECASE,
)
_TOML_PLACE = re.compile(r" \(at (line \d+, column \d+|end of document)\)$")
_WRONG_TYPE = re.compile(r"^Expected (?P<rule>.+?)(?:, got (?P<got>.+?))?(?: - at `(?P<at>.+)`)?$")
_NOT_ALLOWED = re.compile(r"^Invalid enum value (?P<value>.+?)(?: - at `(?P<at>.+)`)?$")
_UNKNOWN_FIELD = re.compile(
    r"^Object contains unknown field `(?P<field>.+?)`(?: - at `\$(?P<at>.*)`)?"
)

_SECTIONS = dict.fromkeys(("models", "prices", "secrets", "tiers", "limits", "host", *NAMES))
_OTHER_SPELLINGS = {"fail_on", "user_model"}
_TIER_NUMBERS = frozenset("1234567")

Positive = Annotated[float, Meta(gt=0, le=1_000_000)]
Price = Annotated[float, Meta(ge=0, le=1_000_000)]


class ProviderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[models.<provider>]`: of a known provider, or with `kind` of one declared here."""

    kind: str | None = None  # the dialect of a provider that is declared here
    base_url: str | None = None
    key_env: Annotated[str, Meta(pattern=ENVIRONMENT_NAME)] | None = None
    api_version: str | None = None  # Azure
    concurrency: Annotated[int, Meta(ge=1, le=1_000_000)] = 100
    requests_per_minute: Positive | None = None
    tokens_per_minute: Annotated[float, Meta(gt=0, le=1_000_000_000_000)] | None = None
    timeout_s: Positive = 120.0
    retries: Annotated[int, Meta(ge=0, le=100)] = 5


class OwnPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[prices."provider:model"]`, in US dollars for a million tokens."""

    input_per_million: Price
    output_per_million: Price
    cache_read_per_million: Price | None = None
    cache_write_per_million: Price | None = None


class TierSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[tiers.<number>]`: the models and runs of a tier of `prompteval`."""

    models: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    runs: Annotated[int, Meta(ge=1, le=100)] | None = None
    samples: Annotated[int, Meta(ge=1, le=100)] | None = None
    max_input_tokens: Annotated[int, Meta(ge=1)] | None = None


class LimitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[limits]`: of every run, and of the runs of a host."""

    scoring_s: Positive | None = None  # for the checks of one answer


class Config(msgspec.Struct, frozen=True):
    """What the file says; without a file, the defaults."""

    models: dict[str, ProviderSettings] = {}
    prices: dict[str, OwnPrice] = {}
    secrets: tuple[str, ...] = ()  # names of environment variables
    source: str = FILE_NAME
    tiers: dict[str, TierSettings] = {}
    host: dict[str, Any] = {}  # for the host to read
    notices: tuple[Text, ...] = ()  # what of the files that were found does not count, and why
    run: RunDefaults = NO_DEFAULTS
    limits: LimitSettings = LimitSettings()
    model_timeout_s: float | None = None  # chosen for this command, whatever the file says

    def settings_of(self, provider: str) -> ProviderSettings:
        settings = self.models.get(provider)
        if settings is None:
            settings = msgspec.convert(_defaults(provider), ProviderSettings)
        if self.model_timeout_s is None:
            return settings
        return msgspec.structs.replace(settings, timeout_s=self.model_timeout_s)


def _defaults(provider: str) -> dict[str, Any]:
    return {"timeout_s": PROVIDERS[provider].timeout_s} if provider in PROVIDERS else {}


def known_secrets(
    config: Config, environment: Mapping[str, str], more: Iterable[str] = ()
) -> dict[str, str]:
    """The values of all secrets, keys included, by the environment variables that hold them."""
    of_providers = (provider.key_env for provider in PROVIDERS.values())
    declared = (settings.key_env for settings in config.models.values())
    names = dict.fromkeys([*of_providers, *declared, *config.secrets, *more])
    return {name: environment[name] for name in names if name and environment.get(name)}


def find_config(start: Path) -> Path | None:
    """The nearest settings file, in a folder or one of its parents."""
    return next(found_configs(start), None)


def found_configs(start: Path) -> Iterator[Path]:
    """Every settings file in a folder and its parents, the nearest first, one of each folder."""
    folder = start.absolute()
    for place in (folder, *folder.parents):
        if _is_file(place / FILE_NAME):
            yield place / FILE_NAME
        elif _is_file(place / PROJECT_FILE) and _has_table(place / PROJECT_FILE):
            yield place / PROJECT_FILE


def _has_table(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return PROJECT_TABLE in file.read(MAX_BYTES)
    except OSError:
        return False


# A folder that may not be entered holds nothing; `Path.is_file` would raise.
_is_file = os.path.isfile


def load_config(start: Path | None = None, *, named: str | Path | None = None) -> Config:
    """The configuration for a folder, by default the working folder.

    A file that is named, here or by `EVALWRIGHT_CONFIG`, is the only one that is read. Otherwise
    it is the user's own with the nearest one that is found on top, as far as the folder of that is
    trusted: see `notices`.
    """
    named = named or os.environ.get(VARIABLE)
    if named:
        return read_config(Path(named))
    if sys.platform == "linux":  # what platformdirs would say, without the time to import it
        home = os.environ.get("XDG_CONFIG_HOME", "").strip()
        # Unlike that of `Path`, this `expanduser` takes it when a user has no home.
        own = Path(os.path.expanduser(home or "~/.config"), "evalwright", FILE_NAME)  # noqa: PTH111
    else:
        from platformdirs import user_config_path

        own = user_config_path("evalwright", appauthor=False) / FILE_NAME
    # A relative path would be in the working folder, where anybody may have put it.
    own_files = [own] if own.is_absolute() and _is_file(own) else []
    found = [each for each in found_configs(start or Path()) if each not in own_files]
    if not found and not own_files:
        return Config()
    from evalwright.models.trust import combined_config

    return combined_config(own_files, found)


def read_config(path: Path) -> Config:
    """Read a file that is named."""
    try:
        with open_input(path) as file:
            source = file.read(MAX_BYTES + 1)
    except OSError as error:
        problem = Problem("$", f"cannot be read: {error.strerror}", "make it readable or move it")
        raise InvalidDocument(str(path), [problem]) from None
    return parse_config(source, str(path))


def parse_config(source: bytes, name: str = FILE_NAME) -> Config:
    """Check the content of the file; all problems are reported at once."""
    document = _settings_of(_parse_toml(source, name), name)
    problems: list[Problem] = []
    models = {
        provider: settings
        for provider, table in _tables(document, "models", problems).items()
        if (settings := _settings(provider, table, problems)) is not None
    }
    prices = {
        model: price
        for model, table in _tables(document, "prices", problems).items()
        if (price := _convert(table, OwnPrice, f"prices.{_quoted(model)}", problems)) is not None
    }
    value = document.get("secrets", [])
    if isinstance(value, list) and all(
        isinstance(name, str) and re.match(ENVIRONMENT_NAME, name) for name in value
    ):
        secrets = tuple(value)
    else:
        rule = "must be a list of names of environment variables"
        problems.append(Problem("secrets", rule, 'for example secrets = ["DATABASE_PASSWORD"]'))
        secrets = ()
    tiers = _tiers(document, problems)
    host = _tables(document, "host", problems)
    limits = _convert(document.get("limits", {}), LimitSettings, "limits", problems)
    run = _convert(spelled(document), RunDefaults, "$", problems) or NO_DEFAULTS
    others = document.keys() - _SECTIONS - _OTHER_SPELLINGS
    problems += (_unknown(field, field, ", ".join(_SECTIONS)) for field in others)
    if problems:
        raise InvalidDocument(name, sorted(problems, key=lambda problem: problem.path))
    run = run.found_from(Path(name).parent)
    limits = limits or LimitSettings()
    return Config(models, prices, secrets, name, tiers, host, run=run, limits=limits)


def _settings_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    tool = document.get("tool", {})
    table = tool.get("evalwright", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise InvalidDocument(name, [Problem("tool.evalwright", "must be a table")])
    if Path(name).name == PROJECT_FILE:
        return table
    return {**{key: value for key, value in document.items() if key != "tool"}, **table}


def _tiers(document: dict[str, Any], problems: list[Problem]) -> dict[str, TierSettings]:
    tiers = {}
    for number, table in _tables(document, "tiers", problems).items():
        if number not in _TIER_NUMBERS:
            message = f"there is no tier {number!r}"
            problems.append(Problem(f"tiers.{_quoted(number)}", message, "models judge in 1 to 7"))
        settings = _convert(table, TierSettings, f"tiers.{_quoted(number)}", problems)
        if settings is not None:
            tiers[number] = settings
    return tiers


def _parse_toml(source: bytes, name: str) -> dict[str, Any]:
    if len(source) > MAX_BYTES:
        problem = Problem("$", f"the file is larger than {MAX_BYTES} bytes", "shorten it")
        raise InvalidDocument(name, [problem])
    try:
        return tomllib.loads(source.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        problem = Problem(f"byte {error.start}", "the file is not UTF-8 text", "save it as UTF-8")
        raise InvalidDocument(name, [problem]) from None
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.search(str(error))
        message = _TOML_PLACE.sub("", str(error))
        problem = Problem(
            place[1] if place else "$",
            f"not valid TOML: {message}",
            'put texts in quotes and table names in brackets: [models.openai], base_url = "https://…"',
        )
        raise InvalidDocument(name, [problem]) from None
    except ValueError as error:  # from Python, for a number with thousands of digits
        raise InvalidDocument(name, [Problem("$", f"not a number: {error}")]) from None
    except RecursionError:
        raise InvalidDocument(name, [Problem("$", "nested too deeply")]) from None


def _tables(document: dict[str, Any], section: str, problems: list[Problem]) -> dict[str, Any]:
    tables = document.get(section, {})
    if isinstance(tables, dict):
        return tables
    problems.append(Problem(section, "must be a table", f"write [{section}.NAME]"))
    return {}


def _settings(provider: str, table: Any, problems: list[Problem]) -> ProviderSettings | None:
    path = f"models.{_quoted(provider)}"
    if not _PROVIDER_NAME.fullmatch(provider):
        rule = "a provider's name has lower-case letters, digits, - and _ only"
        problems.append(Problem(path, rule))
        return None
    keys = [field for field in table if _KEY_FIELD.match(field)] if isinstance(table, dict) else []
    if keys:
        refused = "keys are never read from this file"
        remedy = 'remove it, and name the environment variable that holds the key: key_env = "NAME"'
        problems += (Problem(f"{path}.{field}", refused, remedy) for field in keys)
        return None
    if isinstance(table, dict):
        table = {**_defaults(provider), **table}
    settings = _convert(table, ProviderSettings, path, problems)
    if settings is not None:
        problems += _unfit(provider, settings, path)
    return settings


def _unfit(provider: str, settings: ProviderSettings, path: str) -> Iterator[Problem]:
    known = provider in PROVIDERS and not (provider in LATECOMERS and settings.kind)
    if settings.kind not in (None, *DECLARABLE):
        yield Problem(f"{path}.kind", f"must be one of {', '.join(DECLARABLE)}")
    if known and settings.kind is not None:
        rule = f"the dialect of {provider} is known"
        yield Problem(f"{path}.kind", rule, "remove it, or declare a provider of another name")
    if not known and settings.kind is None:
        rule = f"there is no provider {provider!r}"
        remedy = f'name one of {", ".join(PROVIDERS)}, or declare it: kind = "openai", base_url = …'
        yield Problem(path, rule, remedy)
    if not known and settings.base_url is None:
        yield Problem(path, "a declared provider needs an address", 'base_url = "https://…"')
    problem = address_problem(settings.base_url) if settings.base_url is not None else None
    if problem:
        yield Problem(f"{path}.base_url", *problem)


def address_problem(url: str) -> tuple[str, str] | None:
    """What is wrong with the address of a provider, with a remedy; its text is not repeated."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "not an address", "write https://host/path"
    if parts.scheme not in ("http", "https") or not host:
        return "not an http or https address", "write https://host/path"
    if parts.username or parts.password or parts.query or parts.fragment:
        return (
            "an address must not contain a user name, password, query or fragment",
            "put the key into an environment variable",
        )
    return None


T = TypeVar("T")


def convert_table(table: Any, kind: type[T], path: str, name: str) -> T:
    """A table as its type; raises `InvalidDocument`, which names the file and the field."""
    problems: list[Problem] = []
    converted = _convert(table, kind, path, problems)
    if converted is None:
        raise InvalidDocument(name, problems)
    return converted


def _convert(table: Any, kind: type[T], path: str, problems: list[Problem]) -> T | None:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        problems.append(_problem(str(error), path, kind))
        return None


def _problem(message: str, path: str, kind: type[Any]) -> Problem:
    fields = ", ".join(field.encode_name for field in msgspec.structs.fields(kind))
    unknown = _UNKNOWN_FIELD.match(message)
    if unknown and unknown["at"]:  # in a table whose fields are not at hand
        place = f"{path}{unknown['at']}.{unknown['field']}"
        return Problem(place, f"there is no setting {unknown['field']!r}")
    if unknown:
        return _unknown(f"{path}.{unknown['field']}", unknown["field"], fields)
    if (refused := _NOT_ALLOWED.match(message)) and refused["at"]:
        place = refused["at"].removeprefix("$")
        field = place.removeprefix(".").partition("[")[0].partition(".")[0]
        described = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"].get(field, {})
        words = described.get("enum") or described.get("items", {}).get("enum") or []
        return Problem(
            f"{path}{place}".removeprefix("$."),
            f"{refused['value']} is not a value of {field}",
            f"one of {', '.join(words)}" if words else "",
        )
    wrong = _WRONG_TYPE.match(message)
    if wrong is None:
        return Problem(path, message, f"its fields are {fields}")
    place = (path + (wrong["at"] or "$").removeprefix("$")).removeprefix("$.")
    got = f", not {wrong['got']}" if wrong["got"] else ""
    if place.endswith(".key_env"):
        return Problem(place, "must be the name of an environment variable, never a key")
    return Problem(place, f"must be {wrong['rule']}{got}".replace("`", ""))


def _unknown(path: str, field: str, fields: str) -> Problem:
    return Problem(path, f"there is no setting {field!r}", f"the settings are {fields}")


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'
