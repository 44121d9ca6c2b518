"""The tiers of an evaluation: how deep it goes, with which models, how often."""

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from evalwright.models.config import Config

DEFAULT_TIER_WITH_MODEL = 2


class Tier(msgspec.Struct, frozen=True):
    """A tier; the models and runs are those used unless others are named."""

    number: int
    name: str
    what: str
    models: tuple[str, ...] = ()
    runs: int = 1
    samples: int = 1
    one_call: bool = True  # all criteria in one question, not one question each
    max_input_tokens: int | None = None  # None: what is known of the provider


TIERS = (
    Tier(0, "Structural", "the linter alone, no model"),
    Tier(1, "Local Quick", "one question to a local model", ("ollama:phi4",)),
    Tier(2, "Local G-Eval", "G-Eval by a local model", ("ollama:phi4",), one_call=False),
    Tier(
        3,
        "Local Cross",
        "G-Eval by several local models, twice",
        ("ollama:phi4", "ollama:mistral"),
        runs=2,
        one_call=False,
    ),
    Tier(4, "Cloud Quick", "one question to a hosted model", ("openai/gpt-4o-mini",)),
    Tier(
        5,
        "Cloud Cross",
        "G-Eval by several hosted models, twice",
        ("openai/gpt-4o-mini", "meta/llama-3.3-70b-instruct"),
        runs=2,
        one_call=False,
    ),
    Tier(
        6,
        "Premium",
        "G-Eval by strong hosted models, three times",
        ("openai/gpt-4.1", "mistral-ai/mistral-large-2411"),
        runs=3,
        one_call=False,
    ),
    Tier(
        7,
        "Enterprise",
        "G-Eval by a panel of strong models, four times, several samples each",
        ("openai/gpt-4.1", "mistral-ai/mistral-large-2411", "meta/llama-3.3-70b-instruct"),
        runs=4,
        samples=3,
        one_call=False,
    ),
)


def names_models(number: int, config: "Config") -> bool:
    """Whether the configuration names models for a tier."""
    settings = config.tiers.get(str(number))
    return settings is not None and bool(settings.models)


def configured(tier: Tier, models: tuple[str, ...], samples: int | None, config: "Config") -> Tier:
    """A tier with what was asked for, else with what the configuration says of it."""
    from evalwright.models.config import TierSettings

    settings = config.tiers.get(str(tier.number), TierSettings())
    return msgspec.structs.replace(
        tier,
        models=models or settings.models or tier.models,
        runs=settings.runs or tier.runs,
        samples=samples or settings.samples or tier.samples,
        max_input_tokens=settings.max_input_tokens,
    )
