"""Names of models, and what is wrong with the ones that name none."""

import pytest
from asking import KEYS, load

from evalwright.contracts.errors import BadInput
from evalwright.models.config import Config, parse_config
from evalwright.models.providers import PROVIDERS, parse_name


@pytest.mark.parametrize(
    ("text", "provider", "model"),
    [
        ("openai:gpt-4.1-mini", "openai", "gpt-4.1-mini"),
        ("ollama:llama3.2:3b", "ollama", "llama3.2:3b"),
        ("openrouter:meta-llama/llama-3.3-70b", "openrouter", "meta-llama/llama-3.3-70b"),
        ("openai/gpt-4.1", "github", "openai/gpt-4.1"),
        ("meta/llama:tag", "github", "meta/llama:tag"),
        (
            "azureml://registries/azure-openai/models/gpt-4o-mini/versions/2",
            "github",
            "openai/gpt-4o-mini",
        ),
        (
            "azureml://registries/azureml-meta/models/Llama-3.3-70B-Instruct/versions/4",
            "github",
            "meta/llama-3.3-70b-instruct",
        ),
        (
            "azureml://registries/azureml-mistral/models/Codestral-2501",
            "github",
            "mistral-ai/codestral-2501",
        ),
        ("azureml://registries/azureml/models/Phi-4/labels/latest", "github", "microsoft/phi-4"),
        ("scripted:./judge.yaml", "scripted", "./judge.yaml"),
    ],
)
def test_a_name_is_a_provider_and_a_model(text: str, provider: str, model: str) -> None:
    name = parse_name(text)
    assert (name.provider, name.model) == (provider, model)
    assert parse_name(str(name)) == name


def test_an_unknown_provider_is_told_with_the_nearest_and_all_known_ones() -> None:
    with pytest.raises(BadInput) as caught:
        parse_name("opneai:gpt-4.1")
    message = str(caught.value)
    assert "there is no provider 'opneai', did you mean 'openai'?" in message
    assert all(provider in message for provider in PROVIDERS)
    assert "evalwright.toml" in message


def test_a_name_without_a_provider_is_told_how_to_name_one() -> None:
    with pytest.raises(BadInput, match=r"write provider:model, for example openai:gpt-4\.1"):
        parse_name("gpt-4.1")


@pytest.mark.parametrize("text", ["openai:", "openai: ", "openai:a\nb"])
def test_a_provider_without_a_model_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="the name of a model must follow"):
        parse_name(text)


def test_a_declared_provider_is_known_like_the_others() -> None:
    config = parse_config(
        b'[models.acme]\nkind = "openai"\nbase_url = "https://acme.example/v1"\nkey_env = "ACME"\n'
    )
    assert load("acme:big", config, ACME="k-123").name == "acme:big"
    with pytest.raises(BadInput, match="did you mean 'acme'"):
        load("acmee:big", config)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai:m", "OPENAI_API_KEY"),
        ("anthropic:m", "ANTHROPIC_API_KEY"),
        ("openai/gpt-4.1", "GITHUB_TOKEN"),
        ("openrouter:m", "OPENROUTER_API_KEY"),
    ],
)
def test_a_missing_key_is_found_while_loading_and_its_variable_named(
    name: str, variable: str
) -> None:
    with pytest.raises(BadInput, match=f"no key; set the environment variable {variable}"):
        load(name, **{variable: "  "})
    assert load(name, **{variable: "key"})


def test_who_lacks_the_key_of_a_retired_provider_is_told_so() -> None:
    with pytest.raises(BadInput, match="GITHUB_MODELS_BASE_URL to an address: its own is retired"):
        load("openai/gpt-4.1")


def test_azure_wants_its_address_too() -> None:
    with pytest.raises(BadInput, match="no address; set AZURE_OPENAI_ENDPOINT, or base_url in"):
        load("azure:m", **KEYS)


@pytest.mark.parametrize("name", ["ollama:m", "vllm:m", "lmstudio:m"])
def test_local_providers_need_no_key(name: str) -> None:
    assert load(name, Config()).name == name


def test_a_key_with_a_character_that_no_header_takes_is_refused_unseen() -> None:
    with pytest.raises(BadInput) as caught:
        load("openai:m", OPENAI_API_KEY="sk-top\nsecret")
    assert "OPENAI_API_KEY holds a character that no key contains" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_key_is_not_sent_in_the_open_to_another_machine() -> None:
    with pytest.raises(BadInput, match=r"OPENAI_API_KEY is not sent over http:// to far\.example"):
        load("openai:m", OPENAI_API_KEY="k", OPENAI_BASE_URL="http://far.example/v1")
    assert load("openai:m", OPENAI_API_KEY="k", OPENAI_BASE_URL="http://localhost:1/v1")


@pytest.mark.parametrize("url", ["https://u:p@h.example", "ftp://h", "h.example", "http://[", ""])
def test_an_address_out_of_form_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(BadInput) as caught:
        load("vllm:m", parse_or_default(url))
    assert "u:p" not in str(caught.value)


def parse_or_default(url: str) -> Config:
    return parse_config(f'[models.vllm]\nbase_url = "{url}"\n'.encode())
