"""What calls cost: own prices first, then genai-prices, else nothing is said."""

import subprocess
import sys
from decimal import Decimal

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st

from evalwright.models.config import Config, OwnPrice
from evalwright.models.prices import Meter, Tokens, meter
from evalwright.models.providers import PROVIDERS, parse_name

LISTED = [
    (provider.id, model.id)
    for provider in get_snapshot().providers
    if provider.id in {"openai", "anthropic", "azure", "openrouter"}
    for model in provider.models
]


def meter_of(name: str, config: Config | None = None) -> Meter:
    parsed = parse_name(name)
    return meter(parsed, PROVIDERS[parsed.provider], config or Config())


def cost(name: str, tokens: Tokens, config: Config | None = None) -> float | None:
    return meter_of(name, config).usage(tokens).cost_estimate_usd


counts = st.integers(0, 400_000)


@given(st.sampled_from(LISTED), counts, counts, counts, counts)
def test_a_listed_model_costs_what_genai_prices_says(
    model: tuple[str, str], plain: int, output: int, read: int, written: int
) -> None:
    assert_costs_as_listed(model, Tokens(plain + read + written, output, read, written))


@pytest.mark.parametrize("sent", [199_999, 200_000, 200_001, 300_000, 2_000_000])
def test_every_listed_model_costs_what_is_listed_at_and_above_its_steps(sent: int) -> None:
    for model in LISTED:
        assert_costs_as_listed(model, Tokens(sent, 1000, 500, 300))


def assert_costs_as_listed(model: tuple[str, str], tokens: Tokens) -> None:
    provider, name = model
    prices = meter_of(f"{provider}:{name}").prices
    if prices is None:
        return
    usage = genai_prices.Usage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_read_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
    )
    theirs = genai_prices.calc_price(usage, name, provider_id=provider).total_price
    assert prices.cost(tokens) == pytest.approx(float(theirs), rel=1e-12)


def test_nearly_all_listed_models_have_a_price() -> None:
    priced = sum(meter_of(f"{provider}:{name}").prices is not None for provider, name in LISTED)
    assert priced > 0.8 * len(LISTED)


@pytest.mark.parametrize(
    "name", ["ollama:llama3.2", "openai:no-such-model", "openai/gpt-4.1", "vllm:gpt-4.1"]
)
def test_an_unknown_price_is_no_cost_and_never_zero(name: str) -> None:
    usage = meter_of(name).usage(Tokens(1000, 1000))
    assert (usage.cost_estimate_usd, usage.currency) == (None, None)
    assert usage.total_tokens == 2000


def test_own_prices_come_first() -> None:
    config = Config(prices={"openai:gpt-4.1": OwnPrice(10, 20, cache_read_per_million=1)})
    assert cost("openai:gpt-4.1", Tokens(1_000_000, 500_000), config) == 20.0
    assert cost("openai:gpt-4.1", Tokens(1_000_000, 0, cache_read=1_000_000), config) == 1.0
    assert cost("openai:gpt-4.1", Tokens(1_000_000, 0, cache_write=1_000_000), config) == 10.0


def test_a_price_of_nothing_is_known_to_be_nothing() -> None:
    config = Config(prices={"ollama:llama": OwnPrice(0, 0)})
    assert cost("ollama:llama", Tokens(10, 10), config) == 0


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_costs_are_the_decimal_numbers_that_people_expect(sent: int, given_: int) -> None:
    config = Config(prices={"vllm:m": OwnPrice(0.1, 0.2)})
    told = cost("vllm:m", Tokens(sent, given_), config)
    assert told == float((Decimal(sent) + 2 * Decimal(given_)) / 10_000_000)


def test_cached_tokens_that_outnumber_all_others_cost_no_less_than_nothing() -> None:
    config = Config(prices={"vllm:m": OwnPrice(5, 5, 0, 0)})
    assert cost("vllm:m", Tokens(10, 0, cache_read=50), config) == 0


def test_a_model_without_a_listed_price_does_not_load_the_list() -> None:
    script = (
        "import sys; from evalwright.models.load import load_model; "
        "from evalwright.models.config import Config; load_model('ollama:m', Config()); "
        "print({'genai_prices'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", script], stdout=-1, text=True, check=True)
    assert result.stdout == "set()\n"
