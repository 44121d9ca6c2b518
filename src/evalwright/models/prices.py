"""What a call costs: the user's own prices first, then those of genai-prices, else unknown."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

import msgspec

from evalwright.contracts.events import ProviderUsage
from evalwright.models.config import Config, OwnPrice
from evalwright.models.protocol import ModelError
from evalwright.models.providers import PROVIDERS, ModelName, Provider

MILLION = 1_000_000
_NAMELESS = frozenset(("unspecified", "unknown", "given", "recorded"))
MOST_TOKENS = 2**53  # of one call; whole numbers beyond are not the same for every reader of JSON


class Tokens(msgspec.Struct, frozen=True, gc=False):
    """The tokens of one call; `input` counts all that was sent, from a cache or not."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


class Rates(msgspec.Struct, frozen=True, gc=False):
    """Dollars for a million tokens of each sort."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal

    def cost(self, tokens: Tokens) -> float:
        plain = max(0, tokens.input - tokens.cache_read - tokens.cache_write)
        total = plain * self.input + tokens.output * self.output
        if tokens.cache_read:
            total += tokens.cache_read * self.cache_read
        if tokens.cache_write:
            total += tokens.cache_write * self.cache_write
        return float(total / MILLION)


class PriceList(msgspec.Struct, frozen=True):
    """A model's rates; with more than `above` tokens sent, all tokens go at the later rates."""

    steps: tuple[tuple[int, Rates], ...]  # falling `above`; the last one is 0

    def cost(self, tokens: Tokens) -> float:
        for above, rates in self.steps:
            if tokens.input > above:
                return rates.cost(tokens)
        return self.steps[-1][1].cost(tokens)


class Meter(msgspec.Struct, frozen=True):
    """Turns the tokens of a model's calls into usage; without prices there is no cost."""

    provider: str
    model: str
    prices: PriceList | None = None

    def usage(self, tokens: Tokens | None) -> ProviderUsage:
        """The usage of one call; without a token count there is no cost.

        More tokens than can be are a `parse_error`.
        """
        if tokens is None:
            return ProviderUsage(self.provider, self.model, 0, 0)
        if tokens.input + tokens.output > MOST_TOKENS:
            raise ModelError("parse_error", f"it tells of more than {MOST_TOKENS} tokens")
        cost = None if self.prices is None else self.prices.cost(tokens)
        return ProviderUsage(
            self.provider,
            self.model,
            tokens.input,
            tokens.output,
            tokens.input + tokens.output,
            cost,
            None if cost is None else "USD",
            cache_read_tokens=tokens.cache_read or None,
            cache_write_tokens=tokens.cache_write or None,
        )


def meter(name: ModelName, provider: Provider, config: Config) -> Meter:
    """The meter of a model, with its prices looked up once."""
    own = config.prices.get(str(name))
    if own is not None:
        return Meter(name.provider, name.model, _own_prices(own))
    listed = _listed_prices(name.model, provider.prices_as) if provider.prices_as else None
    return Meter(name.provider, name.model, listed)


def known_cost(config: Config, usage: ProviderUsage) -> float | None:
    """What a call costs that somebody tells of, by its provider and model; None if nobody knows."""
    if not usage.input_tokens and not usage.output_tokens:
        return None
    own = config.prices.get(f"{usage.provider}:{usage.model}")
    try:
        prices = _own_prices(own) if own else _prices_of(usage.model, usage.provider)
    except Exception:  # noqa: BLE001 - names that a stranger chose, looked up by a library
        return None
    if prices is None:
        return None
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    return prices.cost(Tokens(usage.input_tokens, usage.output_tokens, read, written))


@lru_cache(maxsize=256)
def _prices_of(model: str, provider: str) -> PriceList | None:
    if provider in _NAMELESS or model in _NAMELESS:
        return None
    known = PROVIDERS.get(provider)
    name = known.prices_as if known else provider
    return _listed_prices(model, name) if name else None


def _own_prices(own: OwnPrice) -> PriceList:
    def rate(value: float | None) -> Decimal:
        return Decimal(repr(own.input_per_million if value is None else value))

    rates = Rates(
        rate(None),
        rate(own.output_per_million),
        rate(own.cache_read_per_million),
        rate(own.cache_write_per_million),
    )
    return PriceList(((0, rates),))


def _listed_prices(model: str, provider: str) -> PriceList | None:
    """The price of today; genai-prices takes a third of a second to load, hence not above."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, listed = get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    # The token prices of a genai-prices entry; None where tokens are not all that is paid for.
    price = listed.get_prices(datetime.now(UTC))
    names = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "requests_kcount")
    *sorts, requests = (getattr(price, name, None) for name in names)
    if sorts[0] is None or sorts[1] is None or requests is not None:
        return None
    starts = {tier.start for sort in sorts for tier in getattr(sort, "tiers", ())}
    steps = [(start, _rates(sorts, partial(_above, start))) for start in starts]
    steps.sort(key=lambda step: -step[0])
    return PriceList((*steps, (0, _rates(sorts, _base))))


def _rates(sorts: list[Any], rate: Callable[[Any], Decimal]) -> Rates:
    """Cached tokens without a separate price cost as much as other tokens."""
    sent, output, *cached = sorts
    return Rates(
        rate(sent), rate(output), *(rate(sent if sort is None else sort) for sort in cached)
    )


def _base(sort: Any) -> Decimal:
    return sort if isinstance(sort, Decimal) else Decimal(sort.base)


def _above(start: int, sort: Any) -> Decimal:
    tiers = [tier for tier in getattr(sort, "tiers", ()) if tier.start <= start]
    return Decimal(max(tiers, key=lambda tier: tier.start).price) if tiers else _base(sort)
