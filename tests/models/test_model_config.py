"""`evalwright.toml`: what it may say, and how it is told that it may not say something."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.host.http.settings import HostSettings
from evalwright.models.config import (
    MAX_BYTES,
    Config,
    OwnPrice,
    convert_table,
    load_config,
    parse_config,
)

WHOLE = b"""
secrets = ["DB_PASSWORD"]

[models.openai]
base_url = "https://gateway.example/v1"
concurrency = 8
requests_per_minute = 120
timeout_s = 30
retries = 2

[models.acme]
kind = "anthropic"
base_url = "http://127.0.0.1:9000"
key_env = "ACME_KEY"

[prices."openai:gpt-4.1"]
input_per_million = 2
output_per_million = 8.5
"""


def problem_in(text: str) -> str:
    with pytest.raises(InvalidDocument) as caught:
        parse_config(text.encode(), "evalwright.toml")
    return str(caught.value)


def test_everything_that_the_file_may_say_is_read() -> None:
    config = parse_config(WHOLE)
    openai = config.models["openai"]
    assert (openai.base_url, openai.concurrency) == ("https://gateway.example/v1", 8)
    assert (openai.requests_per_minute, openai.timeout_s, openai.retries) == (120, 30, 2)
    assert (config.models["acme"].kind, config.models["acme"].key_env) == ("anthropic", "ACME_KEY")
    assert config.prices["openai:gpt-4.1"] == OwnPrice(2, 8.5)
    assert config.secrets == ("DB_PASSWORD",)


def test_the_file_is_found_in_the_folder_or_the_nearest_parent(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert load_config(below).models == {}
    (tmp_path / "evalwright.toml").write_bytes(WHOLE)
    assert load_config(below).secrets == ("DB_PASSWORD",)
    (tmp_path / "a" / "evalwright.toml").write_text('secrets = ["NEARER"]')
    assert load_config(below).secrets == ("NEARER",)


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    assert load_config(tmp_path) == Config()


@pytest.mark.parametrize("field", ["key", "api_key", "API-KEY", "token", "headers", "password"])
def test_a_key_in_the_file_is_refused_and_not_repeated(field: str) -> None:
    message = problem_in(f'[models.openai]\n{field} = "sk-very-secret"\n')
    assert f"evalwright.toml: models.openai.{field}: keys are never read from this file" in message
    assert 'key_env = "NAME"' in message
    assert "sk-very-secret" not in message


def test_a_key_where_the_name_of_a_variable_belongs_is_refused_and_not_repeated() -> None:
    message = problem_in('[models.openai]\nkey_env = "sk-very-secret"\n')
    assert "models.openai.key_env: must be the name of an environment variable" in message
    assert "secret" not in message
    assert "very" not in problem_in('secrets = ["sk-very-secret"]')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[models.openai\n", "line 1, column 15: not valid TOML"),
        ("[models.openai]\nretries = \n", "line 2, column 11: not valid TOML"),
        ("colour = 1\n", "colour: there is no setting 'colour' (the settings are models, prices"),
        (
            "[models.openai]\nconcurency = 5\n",
            "models.openai.concurency: there is no setting 'concurency' (the settings are kind,",
        ),
        (
            "[models.openai]\nconcurrency = 0\n",
            "models.openai.concurrency: must be int >= 1",
        ),
        ('[models.openai]\ntimeout_s = "5"\n', "models.openai.timeout_s: must be float, not str"),
        ("[models.openai]\ntimeout_s = inf\n", "models.openai.timeout_s: must be float <= 1000000"),
        ("[models.openai]\ntimeout_s = nan\n", "models.openai.timeout_s: must be float"),
        ("models = 5\n", "models: must be a table (write [models.NAME])"),
        ("[models]\nopenai = 5\n", "models.openai: must be object, not int"),
        ('[models.Open]\nkind = "openai"\n', "models.Open: a provider's name has lower-case"),
        ("[models.acme]\nretries = 1\n", "models.acme: there is no provider 'acme' (name one of"),
        ('[models.acme]\nkind = "openai"\n', "models.acme: a declared provider needs an address"),
        ('[models.openai]\nkind = "azure"\n', "models.openai.kind: the dialect of openai is known"),
        ('[models.openai]\nbase_url = "x"\n', "models.openai.base_url: not an http or https"),
        (
            '[models.openai]\nbase_url = "https://a:b@h/"\n',
            "models.openai.base_url: an address must not contain a user name, password",
        ),
        (
            '[prices."openai:m"]\ninput_per_million = 1\n',
            'prices."openai:m": Object missing required field `output_per_million`',
        ),
        (
            '[prices."openai:m"]\ninput_per_million = -1\noutput_per_million = 1\n',
            'prices."openai:m".input_per_million: must be float >= 0',
        ),
        ("secrets = 5\n", "secrets: must be a list of names of environment variables"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_rule(text: str, told: str) -> None:
    assert f"evalwright.toml: {told}" in problem_in(text)


def test_a_setting_in_the_wrong_table_is_told_with_the_table_that_it_is_in() -> None:
    table = {"deployments": {"approval": {"session_s": 9}}}
    with pytest.raises(InvalidDocument) as caught:
        convert_table(table, HostSettings, "host", "evalwright.toml")
    told = "host.deployments.approval.session_s: there is no setting 'session_s'"
    assert str(caught.value) == f"evalwright.toml: {told}"


def test_all_mistakes_are_told_at_once() -> None:
    message = problem_in("colour = 1\n[models.openai]\nretries = -1\n[models.vllm]\nretries = -1\n")
    assert len(message.splitlines()) == 3


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "0x" + "f" * 5000])
def test_a_number_without_end_is_told(number: str) -> None:
    with pytest.raises(InvalidDocument, match=r"evalwright\.toml"):
        parse_config(f"[models.openai]\nconcurrency = {number}\n".encode())


def test_a_file_of_more_than_a_mebibyte_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "evalwright.toml").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(InvalidDocument, match="larger than 1048576 bytes"):
        load_config(tmp_path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "evalwright.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidDocument, match="byte 0: the file is not UTF-8 text"):
        load_config(tmp_path)


@given(st.text())
def test_any_text_is_a_config_or_bad_input(text: str) -> None:
    try:
        complaint = parse_config(text.encode("utf-8", "replace")).source
    except BadInput as error:
        complaint = str(error)
    assert complaint.startswith("evalwright.toml")
