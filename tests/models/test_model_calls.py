"""Models over real HTTP on loopback: headers, paths, and everything that can go wrong."""

import asyncio
import gzip
import json
import socket
import traceback
from pathlib import Path

import pytest
from asking import KEY, KEYS, Time, a_request, a_tool_conversation, ask, failure, load, model_at

from evalwright.models.config import Config, OwnPrice, ProviderSettings
from evalwright.models.load import Providers
from evalwright.models.protocol import ModelError, OutputSchema
from evalwright.models.transport import MAX_ANSWER_BYTES
from providers import (
    Answer,
    Call,
    FakeProvider,
    calling,
    completion,
    echoing_headers,
    failing,
    fake_provider,
    hanging,
    message,
    tool_call,
)


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


VERDICT = OutputSchema("verdict", {"type": "object", "properties": {"met": {"type": "boolean"}}})


def test_openai_is_asked_with_a_bearer_key() -> None:
    with fake_provider(completion("yes")) as provider:
        reply = ask(model_at(f"{provider.url}/v1"), a_tool_conversation())
    assert (reply.text, reply.usage.provider, reply.usage.model) == ("yes", "openai", "m")
    (call,) = provider.calls
    assert call.path == "/v1/chat/completions"
    assert call.headers["Authorization"] == f"Bearer {KEY}"
    assert call.headers["Content-Type"] == "application/json"


def test_anthropic_is_asked_with_its_own_headers() -> None:
    with fake_provider(message("yes")) as provider:
        reply = ask(model_at(provider, "anthropic:m"), a_tool_conversation())
    assert reply.text == "yes"
    (call,) = provider.calls
    assert call.path == "/v1/messages"
    assert (call.headers["x-api-key"], call.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "Authorization" not in call.headers


def test_azure_has_the_deployment_in_its_path_and_a_version_of_its_api() -> None:
    with fake_provider(completion()) as provider:
        ask(model_at(provider, "azure:my dep/1", api_version="2025-01-01"))
        ask(model_at(f"{provider.url}/openai/v1", "azure:dep"))
    old, new = provider.calls
    assert old.path == "/openai/deployments/my dep/1/chat/completions"
    assert old.query == {"api-version": "2025-01-01"}
    assert old.headers["api-key"] == KEY
    assert (new.path, new.query) == ("/openai/v1/chat/completions", {})


def test_addresses_come_from_the_environment_before_the_file() -> None:
    with fake_provider(completion()) as provider:
        config = Config({"ollama": ProviderSettings(base_url="http://127.0.0.1:1/v1")})
        host = provider.url.removeprefix("http://")
        ask(load("ollama:llama", config, OLLAMA_HOST=host.replace("127.0.0.1", "0.0.0.0")))
        ask(load("openai:m", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=f"{provider.url}/x/"))
        ask(load("vllm:m", VLLM_BASE_URL=provider.url))
    paths = [call.path for call in provider.calls]
    assert paths == ["/v1/chat/completions", "/x/chat/completions", "/chat/completions"]
    assert "Authorization" not in provider.calls[0].headers


def test_a_declared_provider_is_asked_with_its_own_key() -> None:
    with fake_provider(message("yes")) as provider:
        settings = ProviderSettings(kind="anthropic", base_url=provider.url, key_env="ACME")
        reply = ask(load("acme:m", Config({"acme": settings}), ACME="acme-key"))
    assert reply.usage.provider == "acme"
    assert provider.calls[0].headers["x-api-key"] == "acme-key"


def test_usage_has_the_price_where_it_is_known() -> None:
    with fake_provider(completion()) as provider:
        prices = {"vllm:m": OwnPrice(1.0, 10.0)}
        reply = ask(load("vllm:m", Config(prices=prices), VLLM_BASE_URL=provider.url))
    assert reply.usage.cost_estimate_usd == 0.000042
    assert reply.usage.currency == "USD"


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (400, "invalid_input", "no"),
        (401, "permission_denied", "check the key in OPENAI_API_KEY"),
        (403, "permission_denied", "check the key in OPENAI_API_KEY"),
        (404, "unavailable_model", "check the model's name, or check the address (OPENAI_BASE_URL"),
        (410, "unavailable_model", "this endpoint is retired: name a model elsewhere"),
        (422, "invalid_input", "no"),
        (301, "unavailable_model", "check the address (OPENAI_BASE_URL"),
    ],
)
def test_a_refusal_that_waiting_does_not_heal_is_told_at_once(
    status: int, code: str, remedy: str
) -> None:
    with fake_provider(failing(status)) as provider:
        error = failure(model_at(provider))
    assert error.code == code
    assert f"openai:m at {provider.url} answered {status}: no" in error.message
    assert remedy in error.message
    assert len(provider.calls) == 1


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "unavailable_model"),
        (400, "unknown_model"),
        (403, "model_not_found"),
        (422, "model_decommissioned"),
    ],
)
def test_a_model_that_the_provider_does_not_run_is_unavailable_whatever_the_status(
    status: int, name: str
) -> None:
    with fake_provider(failing(status, code=name)) as provider:
        error = failure(model_at(provider))
    assert error.code == "unavailable_model"
    assert f"answered {status}: no [{name}]; check the model's name" in error.message


def test_a_reply_and_an_error_say_how_often_the_call_was_made_again() -> None:
    busy = failing(429)
    with fake_provider(busy, busy, completion()) as provider:
        assert ask(model_at(provider, time=Time())).retries == 2
    with fake_provider(busy) as provider:
        assert failure(model_at(provider, time=Time(), retries=3)).retries == 3
    refused = failing(400, "'temperature' is not supported with this model")
    with fake_provider(refused, busy, completion()) as provider:
        reply = ask(model_at(provider, time=Time()), a_request(temperature=0.0))
    assert reply.retries == 2


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (408, "timeout"),
        (409, "internal_error"),
        (429, "rate_limited"),
        (500, "internal_error"),
        (503, "internal_error"),
        (529, "internal_error"),
    ],
)
def test_a_passing_failure_is_tried_again_and_told_in_the_end(status: int, code: str) -> None:
    time = Time()
    with fake_provider(failing(status)) as provider:
        error = failure(model_at(provider, time=time, retries=3))
    assert error.code == code
    assert f"answered {status} (tried 4 times)" in error.message
    assert len(provider.calls) == 4
    assert time.slept == [0.5, 1.0, 2.0]


def test_a_call_that_works_the_second_time_is_a_reply() -> None:
    with fake_provider(failing(500), failing(429), completion("yes")) as provider:
        assert ask(model_at(provider)).text == "yes"
    assert len(provider.calls) == 3


def test_retry_after_is_waited_at_least() -> None:
    time = Time()
    limited = failing(429, headers={"Retry-After": "7"})
    soon = failing(503, headers={"retry-after-ms": "250"})
    with fake_provider(limited, soon, completion()) as provider:
        ask(model_at(provider, time=time))
    assert time.slept == [7.5, 0.75]


def test_a_429_halves_what_the_provider_is_given_and_other_failures_do_not() -> None:
    with fake_provider(failing(500), failing(429), completion()) as provider:
        model = model_at(provider, concurrency=8)
        ask(model)
    assert model._channel.limiter.allowed == 4


def test_a_retry_after_beyond_all_patience_is_told_at_once() -> None:
    time = Time()
    with fake_provider(failing(429, headers={"Retry-After": "3600"})) as provider:
        error = failure(model_at(provider, time=time))
    assert (error.code, error.retry_after_s) == ("rate_limited", 3600)
    assert "lower concurrency or requests_per_minute in [models.openai]" in error.message
    assert time.slept == []


def test_an_account_without_money_is_not_waited_for() -> None:
    with fake_provider(failing(429, "no money", code="insufficient_quota")) as provider:
        error = failure(model_at(provider))
    assert error.code == "rate_limited"
    assert "check the plan and the billing" in error.message
    assert len(provider.calls) == 1


def test_a_provider_that_hangs_is_a_timeout() -> None:
    with fake_provider(hanging) as provider:
        error = failure(model_at(provider, timeout_s=0.05, retries=1))
    assert error.code == "timeout"
    assert "no answer within 0.05 s (tried 2 times); timeout_s in [models.openai]" in error.message


def test_nobody_at_the_address_is_an_unavailable_model() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        error = failure(model_at(url, retries=1))
    assert error.code == "unavailable_model"
    assert f"openai:m at {url}: ClientConnectorError" in error.message
    assert "check the address (OPENAI_BASE_URL, or base_url in [models.openai]" in error.message


def test_a_name_that_no_machine_has_is_an_unavailable_model() -> None:
    error = failure(model_at("https://nowhere.invalid/v1", retries=0))
    assert error.code == "unavailable_model"
    assert "nowhere.invalid" in error.message


@pytest.mark.parametrize("body", [b"<html>busy</html>", b"", b"[]", b'{"choices": []}', b"\xff"])
def test_garbage_is_a_parse_error_and_shown(body: bytes) -> None:
    with fake_provider(Answer(body)) as provider:
        error = failure(model_at(provider))
    assert error.code == "parse_error"
    assert f"openai:m at {provider.url}: the answer is not a chat completion" in error.message


@pytest.mark.parametrize("field", ["prompt_tokens", "completion_tokens"])
@pytest.mark.parametrize("count", [2**53 + 1, 10**400])
def test_more_tokens_than_can_be_are_a_parse_error_and_cost_nothing(field: str, count: int) -> None:
    with fake_provider(completion(usage={field: count})) as provider:
        prices = {"vllm:m": OwnPrice(1.0, 10.0)}
        error = failure(load("vllm:m", Config(prices=prices), VLLM_BASE_URL=provider.url))
    assert error.code == "parse_error"
    assert "tokens" in error.message
    assert error.usage is None


def test_an_error_under_a_success_is_told_in_its_words() -> None:
    with fake_provider(failing(200, "the upstream is away")) as provider:
        error = failure(model_at(provider))
    assert error.code == "parse_error"
    assert "the upstream is away" in error.message


def test_an_answer_that_broke_off_is_an_error() -> None:
    with fake_provider(completion("half an ans", finish="error")) as provider:
        error = failure(model_at(provider))
    assert error.code == "internal_error"
    assert "the answer broke off with an error" in error.message


def test_a_placeholder_for_a_key_is_not_searched_for_in_messages() -> None:
    with fake_provider(failing(400, "no")) as provider:
        error = failure(load("vllm:m", VLLM_API_KEY="no", VLLM_BASE_URL=provider.url))
    assert "answered 400: no" in error.message


def test_an_answer_over_the_bound_is_refused_also_when_it_is_packed() -> None:
    packed = gzip.compress(b" " * (MAX_ANSWER_BYTES + 1))
    with fake_provider(Answer(packed, headers={"Content-Encoding": "gzip"})) as provider:
        error = failure(model_at(provider))
    assert error.code == "parse_error"
    assert "longer than" in error.message
    assert len(provider.calls) == 1


def test_a_request_of_many_megabytes_is_sent() -> None:
    with fake_provider(completion()) as provider:
        ask(model_at(provider), a_request("x" * 3_000_000))
    assert len(provider.bodies[0]["messages"][1]["content"]) == 3_000_000


def test_text_that_is_not_unicode_is_told_as_invalid_input() -> None:
    with fake_provider(completion()) as provider:
        error = failure(model_at(provider), a_request("\ud800"))
    assert error.code == "invalid_input"
    assert provider.calls == []


@pytest.mark.parametrize("name", ["openai:m", "anthropic:m", "azure:m"])
def test_a_key_that_the_provider_repeats_is_in_no_message(name: str) -> None:
    with fake_provider(echoing_headers) as provider:
        model = model_at(provider, name)
        error = failure(model)
    assert "[masked:key]" in error.message
    told = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(model))
    assert KEY not in told
    assert KEY[-6:] not in told


def test_a_key_is_hidden_before_a_long_complaint_is_cut() -> None:
    long = "x" * 290 + KEY + "y" * 290
    with fake_provider(failing(400, long)) as provider:
        error = failure(model_at(provider))
    assert KEY[:5] not in error.message
    assert error.message.endswith("…")


def test_a_key_that_the_provider_shows_in_part_is_hidden_too() -> None:
    with fake_provider(failing(401, "Incorrect API key provided: sk-secr***cdef.")) as provider:
        error = failure(model_at(provider))
    assert "Incorrect API key provided: [masked:key]" in error.message


def test_no_repr_holds_a_key() -> None:
    model = model_at("http://127.0.0.1:1")
    channel = model._channel
    shown = [repr(part) for part in (model, channel, channel.endpoint, channel.transport)]
    assert KEY not in "".join([*shown, repr(vars(channel)), repr(vars(channel.transport))])


def only_tools(call: Call) -> Answer:
    """A provider without `response_format`."""
    if "response_format" in call.body:
        return failing(400, "response_format of type json_schema is not supported by this model")
    return calling(tool_call("verdict", {"met": True}))


def test_a_provider_without_json_schema_is_asked_through_a_tool_and_that_is_remembered() -> None:
    with fake_provider(only_tools) as provider:
        model = model_at(provider)
        replies = [ask(model, a_request(output=VERDICT)) for _ in range(2)]
    assert [json.loads(reply.text) for reply in replies] == [{"met": True}] * 2
    assert ["response_format" in body for body in provider.bodies] == [True, False, False]


def newer_model(call: Call) -> Answer:
    """A model that takes neither the old name of the bound nor a temperature."""
    if "max_tokens" in call.body:
        return failing(
            400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        )
    if "temperature" in call.body:
        return failing(
            400,
            "Unsupported value: 'temperature' does not support 0 with this model.",
            param="temperature",
        )
    return completion("yes")


def test_settings_that_a_model_does_not_take_are_renamed_or_left_out() -> None:
    with fake_provider(newer_model) as provider:
        reply = ask(model_at(provider), a_request(temperature=0.0, max_tokens=5))
    assert reply.text == "yes"
    assert provider.bodies[-1]["max_completion_tokens"] == 5
    assert len(provider.calls) == 3


def test_a_setting_out_of_range_is_an_error_and_not_left_out() -> None:
    with fake_provider(failing(400, "Invalid 'temperature': must be at most 2.")) as provider:
        assert failure(model_at(provider), a_request(temperature=9.0)).code == "invalid_input"
    assert len(provider.calls) == 1


def test_a_provider_that_refuses_everything_is_not_asked_without_end() -> None:
    text = "max_tokens, max_completion_tokens, temperature, seed, json_schema: unsupported"
    asked = a_request(temperature=0.0, max_tokens=5, seed=1, output=VERDICT, top_logprobs=1)
    with fake_provider(failing(400, text)) as provider:
        assert failure(model_at(provider), asked).code == "invalid_input"
    assert len(provider.calls) == 5


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation", "invalid_prompt"])
def test_a_content_filter_is_a_refusal(code: str) -> None:
    with fake_provider(failing(400, "filtered", code=code)) as provider:
        reply = ask(model_at(f"{provider.url}/openai/v1", "azure:m"))
    assert reply.finish == "refusal"
    assert reply.text == "the provider refused the request (content filter)"
    assert "filtered" not in reply.reasoning
    assert reply.usage.cost_estimate_usd is None


def test_no_more_calls_are_under_way_than_the_provider_is_given() -> None:
    async def slowly(call: Call) -> Answer:
        while len(provider.calls) < 3:  # noqa: ASYNC110 - until all that may come have come
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.005)
        return completion()

    async def many(providers: Providers) -> None:
        models = [providers.load("vllm:a"), providers.load("vllm:b")]
        await asyncio.gather(*(models[n % 2].ask(a_request()) for n in range(20)))
        await models[0].close()

    with fake_provider(slowly) as provider:
        config = Config({"vllm": ProviderSettings(base_url=provider.url, concurrency=3)})
        asyncio.run(many(Providers(config, {})))
    assert len(provider.calls) == 20
    assert provider.most_at_once == 3


def test_a_model_can_be_asked_in_one_event_loop_after_another() -> None:
    with fake_provider(completion("yes")) as provider:
        model = model_at(provider)
        assert [ask(model).text for _ in range(3)] == ["yes"] * 3


def test_a_cancelled_call_leaves_its_place_to_others() -> None:
    async def scene(provider: FakeProvider) -> str:
        model = model_at(provider, concurrency=1)
        first = asyncio.create_task(model.ask(a_request()))
        while not provider.calls:  # noqa: ASYNC110 - it comes to another thread
            await asyncio.sleep(0.002)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        try:
            return (await model.ask(a_request())).text
        finally:
            await model.close()

    with fake_provider(hanging, completion("yes")) as provider:
        assert asyncio.run(scene(provider)) == "yes"


def test_a_proxy_of_the_environment_is_used_but_not_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with fake_provider(completion("by proxy")) as proxy, fake_provider(completion()) as direct:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv("no_proxy", "")
        assert ask(load("vllm:m", VLLM_BASE_URL=direct.url)).text == "yes"
        assert ask(load("vllm:m", VLLM_BASE_URL="http://far.example/v1")).text == "by proxy"
    assert len(proxy.calls) == 1


def test_loading_a_model_does_not_open_a_connection(tmp_path: Path) -> None:
    model = load("openai:no-such-model", **KEYS)
    assert model.name == "openai:no-such-model"
    asyncio.run(model.close())


def test_a_model_error_says_its_code_first() -> None:
    assert str(ModelError("timeout", "slow")) == "timeout: slow"
