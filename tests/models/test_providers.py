"""Every provider of the table has all its parts: a new row that lacks one fails here."""

import importlib
import json
from pathlib import Path

import pytest
from asking import KEY, KEYS, LOOK_UP, a_request

from evalwright.models.config import Config, ProviderSettings, known_secrets, parse_config
from evalwright.models.dialects import HttpDialect, LocalDialect, load_dialect
from evalwright.models.endpoints import Endpoint, find_endpoint
from evalwright.models.load import Providers
from evalwright.models.prices import Meter
from evalwright.models.protocol import OutputSchema
from evalwright.models.providers import DECLARABLE, PROVIDERS, Provider, parse_name

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
HTTP = {name: row for name, row in PROVIDERS.items() if not row.is_local}
LOCAL = {name: row for name, row in PROVIDERS.items() if row.is_local}
ADDRESS = "https://models.example/v1"
SCHEMA = OutputSchema("verdict", {"type": "object", "properties": {"passes": {"type": "boolean"}}})

# The answer "Yes." for 7 tokens, as each dialect writes it.
ANSWERS = {
    "openai": {
        "choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    },
    "anthropic": {
        "content": [{"type": "text", "text": "Yes."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 5, "output_tokens": 2},
    },
}
ANSWERS["azure"] = ANSWERS["openai"]


def dialect_of(row: Provider) -> HttpDialect:
    dialect = load_dialect(row.dialect)
    assert isinstance(dialect, HttpDialect)
    return dialect


def endpoint_of(row: Provider) -> Endpoint:
    given = row.base_url_env or ""
    return find_endpoint(row, Config(), {**KEYS, given: row.base_url or ADDRESS})


def body_of(row: Provider, **more: object) -> dict[str, object]:
    dialect = dialect_of(row)
    body: dict[str, object] = json.loads(
        dialect.encode(a_request(**more), "m", dialect.quirks(endpoint_of(row)))
    )
    return body


def test_names_are_the_keys_of_the_table_and_can_be_written_before_a_colon() -> None:
    for name, row in PROVIDERS.items():
        assert row.name == name
        assert str(parse_name(f"{name}:m")) == f"{name}:m"


def test_the_dialects_that_a_file_may_declare_are_those_of_the_table_that_are_called() -> None:
    assert sorted(DECLARABLE) == sorted({row.dialect for row in HTTP.values()})
    for kind in DECLARABLE:
        source = f'[models.company]\nkind = "{kind}"\nbase_url = "{ADDRESS}"\n'
        assert parse_config(source.encode()).models["company"] == ProviderSettings(kind, ADDRESS)


@pytest.mark.parametrize("row", PROVIDERS.values(), ids=PROVIDERS)
def test_every_provider_names_a_module_that_exports_its_dialect(row: Provider) -> None:
    module = importlib.import_module(f"evalwright.models.{row.dialect}")
    assert isinstance(module.DIALECT, LocalDialect if row.is_local else HttpDialect)
    assert module.__doc__


@pytest.mark.parametrize("row", PROVIDERS.values(), ids=PROVIDERS)
def test_every_provider_is_on_the_page_about_models(row: Provider) -> None:
    assert f"\n| `{row.name}` |" in PAGE
    for variable in (row.key_env, row.base_url_env):
        assert variable is None or f"`{variable}`" in PAGE


@pytest.mark.parametrize("row", LOCAL.values(), ids=LOCAL)
def test_a_local_provider_has_no_address_and_no_key(row: Provider) -> None:
    assert (row.base_url, row.base_url_env, row.key_env, row.needs_key) == (None, None, None, False)


@pytest.mark.parametrize("row", HTTP.values(), ids=HTTP)
def test_every_called_provider_has_an_address_or_a_variable_for_it_and_one_for_its_key(
    row: Provider,
) -> None:
    assert row.base_url_env is not None
    assert row.key_env is not None
    assert known_secrets(Config(), {row.key_env: KEY}) == {row.key_env: KEY}


@pytest.mark.parametrize("row", HTTP.values(), ids=HTTP)
def test_every_called_provider_is_loaded_by_name(row: Provider) -> None:
    environment = {**KEYS, row.base_url_env or "": row.base_url or ADDRESS}
    assert Providers(Config(), environment).load(f"{row.name}:m").name == f"{row.name}:m"


@pytest.mark.parametrize("row", HTTP.values(), ids=HTTP)
def test_every_dialect_sends_the_key_in_one_header_and_only_if_there_is_one(row: Provider) -> None:
    dialect = dialect_of(row)
    assert sum(KEY in value for value in dialect.headers(KEY).values()) == 1
    assert not any("key" in name or name == "Authorization" for name in dialect.headers(None))


@pytest.mark.parametrize("row", HTTP.values(), ids=HTTP)
def test_every_dialect_has_a_path_that_follows_the_address(row: Provider) -> None:
    path = dialect_of(row).path(endpoint_of(row), "a model")
    assert path.startswith("/")
    assert " " not in path


@pytest.mark.parametrize("row", HTTP.values(), ids=HTTP)
def test_every_dialect_sends_messages_tools_and_settings(row: Provider) -> None:
    body = body_of(row, temperature=0.5, max_tokens=9, tools=(LOOK_UP,), stop=("END",))
    sent = json.dumps(body)
    assert "Is it shipped?" in sent
    assert "Be brief." in sent
    assert "Looks an order up." in sent
    assert "END" in sent
    assert body["temperature"] == 0.5
    assert 9 in body.values()


@pytest.mark.parametrize("row", HTTP.values(), ids=HTTP)
def test_every_dialect_asks_for_structured_output(row: Provider) -> None:
    sent = json.dumps(body_of(row, output=SCHEMA))
    assert '"verdict"' in sent
    assert '"passes"' in sent
    assert '"passes"' not in json.dumps(body_of(row))


@pytest.mark.parametrize("row", HTTP.values(), ids=HTTP)
def test_every_dialect_reads_a_reply_with_its_usage(row: Provider) -> None:
    body = json.dumps(ANSWERS[row.dialect]).encode()
    reply = dialect_of(row).decode(body, a_request(), Meter(row.name, "m"))
    assert (reply.text, reply.finish) == ("Yes.", "stop")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (5, 2)
