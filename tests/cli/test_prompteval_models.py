"""Which models `prompteval` asks, and what a record says of those that do not answer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalwright.contracts.schema import PROMPT_RESULT, check_schema
from providers import Answer, Call, FakeProvider, Respond, completion, failing, fake_provider
from subjects.command import Evalwright, Finished

SCORE = {"reason": "It is so.", "score": 8}
CRITERIA = ("clarity", "specificity", "actionability", "structure", "completeness", "safety")
VERDICT = {**dict.fromkeys(CRITERIA, SCORE), "summary": "A short prompt.", "overall": 8}
CASES = """\
name: Greet
model: {model}
modelParameters: {{temperature: 0.3, topP: 0.9, maxTokens: 40}}
messages:
  - role: user
    content: Greet {{{{name}}}}
testData:
  - name: Ann
evaluators:
  - name: named
    string: {{contains: Ann}}
"""


def judging(call: Call) -> Answer:
    """Steps, verdicts, and to everything else a greeting."""
    asked = call.body.get("response_format", {}).get("json_schema", {})
    if asked.get("name") == "evaluation_steps":
        return completion(json.dumps({"steps": ["Read.", "Judge."]}))
    if asked.get("name") == "prompt_evaluation":
        wanted = asked["schema"]["required"]
        return completion(json.dumps({name: VERDICT[name] for name in wanted}))
    return completion("Hello Ann")


def first(*answers: Answer) -> Respond:
    """These answers first, and then judgements."""
    left = list(answers)
    return lambda call: left.pop(0) if left else judging(call)


@pytest.fixture
def place(evalwright: Evalwright) -> Evalwright:
    (evalwright.folder / "greet.md").write_text("# Greet\n\nGreet the reader in one sentence.\n")
    return evalwright


def prompteval(place: Evalwright, *arguments: str, **env: str) -> Finished:
    keys = dict.fromkeys(("OPENAI_API_KEY", "OPENROUTER_API_KEY", "GITHUB_TOKEN"), "")
    cache = {"XDG_CACHE_HOME": str(place.folder / "cache")}
    return place("prompts", *arguments, "--json", env={**keys, **cache, **env})


def record(done: Finished) -> dict[str, Any]:
    found: dict[str, Any] = done.json()
    assert check_schema(found, PROMPT_RESULT) == []
    return found


def models_asked(provider: FakeProvider) -> list[str]:
    return list(dict.fromkeys(body["model"] for body in provider.bodies))


def test_retries_count_every_call_that_was_made_again(place: Evalwright) -> None:
    busy = failing(429, "slow down", {"Retry-After": "0"})
    with fake_provider(first(busy, busy, completion("no JSON"))) as provider:
        done = prompteval(place, "greet.md", "-t", "1", "-m", "vllm:m", VLLM_BASE_URL=provider.url)
    questions = 7  # the steps of six criteria, and the judgement
    assert record(done)["execution"]["retries"] == 3 == len(provider.calls) - questions


def test_an_error_says_how_often_it_was_tried(place: Evalwright) -> None:
    (place.folder / "evalwright.toml").write_text("[models.vllm]\nretries = 2\n")
    with fake_provider(failing(503, headers={"Retry-After": "0"})) as provider:
        done = prompteval(
            place,
            *("greet.md", "-t", "1", "-m", "vllm:m", "--config", "evalwright.toml"),
            VLLM_BASE_URL=provider.url,
        )
    execution = record(done)["execution"]
    assert (done.code, execution["error_code"]) == (3, "internal_error")
    assert execution["retries"] >= 2
    assert execution["retries"] <= len(provider.calls)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (failing(400, "Unavailable model: m", code="unavailable_model"), "check the model's name"),
        (failing(410, "a scheduled brownout", code="retirement_brownout"), "endpoint is retired"),
    ],
)
def test_a_model_that_is_not_run_and_an_endpoint_that_is_retired_are_unavailable(
    place: Evalwright, answer: Answer, words: str
) -> None:
    with fake_provider(answer) as provider:
        done = prompteval(place, "greet.md", "-t", "1", "-m", "vllm:m", VLLM_BASE_URL=provider.url)
    execution = record(done)["execution"]
    assert (done.code, execution["error_code"], execution["retries"]) == (
        3,
        "unavailable_model",
        0,
    )
    assert words in execution["error"]


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("openai/gpt-4o-mini", "openai/gpt-4o-mini"),
        ("azureml://registries/azure-openai/models/gpt-4o-mini/versions/2", "openai/gpt-4o-mini"),
    ],
)
def test_cases_run_on_the_model_of_their_file_and_the_model_that_is_named_judges(
    place: Evalwright, model: str, asked: str
) -> None:
    (place.folder / "greet.prompt.yml").write_text(CASES.format(model=model))
    with fake_provider(judging) as own, fake_provider(judging) as judge:
        done = prompteval(
            place,
            *("greet.prompt.yml", "-t", "1", "-m", "vllm:judge"),
            VLLM_BASE_URL=judge.url,
            GITHUB_MODELS_BASE_URL=own.url,
            GITHUB_TOKEN="a-token-of-nobody",
        )
    found = record(done)
    assert [case["passed"] for case in found["details"]["cases"]] == [True]
    assert found["model"]["name"] == "judge"
    assert models_asked(judge) == ["judge"]
    (body,) = own.bodies
    assert body["messages"] == [{"role": "user", "content": "Greet Ann"}]
    assert (body["model"], body["temperature"], body["top_p"]) == (asked, 0.3, 0.9)
    assert body["max_tokens"] == 40


def test_a_model_of_a_retired_provider_is_asked_where_it_is_still_offered(
    place: Evalwright,
) -> None:
    (place.folder / "greet.prompt.yml").write_text(CASES.format(model="openai/gpt-4o-mini"))
    with fake_provider(judging) as own, fake_provider(judging) as judge:
        done = prompteval(
            place,
            *("greet.prompt.yml", "-t", "1", "-m", "vllm:judge"),
            VLLM_BASE_URL=judge.url,
            OPENAI_BASE_URL=own.url,
            OPENAI_API_KEY="a-key-of-nobody",
        )
    assert models_asked(own) == ["gpt-4o-mini"]
    note = "the cases were run by openai:gpt-4o-mini (the file names openai/gpt-4o-mini)"
    assert note in record(done)["details"]["notes"]


def test_cases_whose_model_nobody_offers_are_an_error_and_not_run_by_another(
    place: Evalwright,
) -> None:
    (place.folder / "greet.prompt.yml").write_text(CASES.format(model="openai/gpt-4o-mini"))
    with fake_provider(judging) as judge:
        done = prompteval(
            place, "greet.prompt.yml", "-t", "1", "-m", "vllm:judge", VLLM_BASE_URL=judge.url
        )
    execution = record(done)["execution"]
    assert (done.code, execution["error_code"]) == (3, "unavailable_model")
    assert "set OPENAI_API_KEY" in execution["error"]
    assert judge.calls == []


def test_a_prompt_does_not_bring_its_own_answers(place: Evalwright) -> None:
    (place.folder / "yes.yaml").write_text('- reply: "Hello Ann"\n')
    (place.folder / "greet.prompt.yml").write_text(CASES.format(model="scripted:yes.yaml"))
    with fake_provider(judging) as judge:
        done = prompteval(
            place, "greet.prompt.yml", "-t", "1", "-m", "vllm:judge", VLLM_BASE_URL=judge.url
        )
    assert record(done)["execution"]["error_code"] == "invalid_input"


def of_openai(url: str, folder: Path) -> dict[str, str]:
    return {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "a-key-of-nobody"}


def of_another_tier(url: str, folder: Path) -> dict[str, str]:
    settings = folder / "settings.toml"
    settings.write_text('[tiers.2]\nmodels = ["vllm:own"]\n')
    return {"VLLM_BASE_URL": url, "EVALWRIGHT_CONFIG": str(settings)}


def of_a_local_server(url: str, folder: Path) -> dict[str, str]:
    return {"OLLAMA_HOST": url}


@pytest.mark.parametrize(
    ("configured", "judge"),
    [
        (of_openai, ("openai", "gpt-4o-mini")),
        (of_another_tier, ("vllm", "own")),
        (of_a_local_server, ("ollama", "phi4")),
    ],
)
def test_a_tier_whose_provider_is_no_more_asks_what_is_configured_and_says_so(
    place: Evalwright,
    configured: Callable[[str, Path], dict[str, str]],
    judge: tuple[str, str],
) -> None:
    with fake_provider(judging) as provider:
        done = prompteval(place, "greet.md", "-t", "4", **configured(provider.url, place.folder))
    found = record(done)
    assert (found["model"]["provider"], found["model"]["name"]) == judge
    assert found["execution"]["tier"] == 4
    said = "tier 4 asks openai/gpt-4o-mini at GitHub Models, which is retired; "
    said += f"{':'.join(judge)} judges instead"
    assert said in done.err
    assert said in found["details"]["notes"][0]


def test_a_tier_without_a_provider_is_an_error_that_says_what_to_set(place: Evalwright) -> None:
    done = prompteval(place, "greet.md", "-t", "4", GITHUB_TOKEN="a-token-of-nobody")
    found = record(done)
    assert (done.code, found["execution"]["error_code"]) == (3, "unavailable_model")
    assert "OPENAI_API_KEY" in found["execution"]["error"]
    assert "[tiers.4]" in found["execution"]["error"]


def test_another_address_of_a_retired_provider_is_asked(place: Evalwright) -> None:
    with fake_provider(judging) as provider:
        done = prompteval(
            place,
            *("greet.md", "-t", "4"),
            GITHUB_MODELS_BASE_URL=provider.url,
            GITHUB_TOKEN="a-token-of-nobody",
        )
    assert record(done)["model"]["provider"] == "github"
    assert models_asked(provider) == ["openai/gpt-4o-mini"]
