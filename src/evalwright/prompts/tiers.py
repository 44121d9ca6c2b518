"""The tiers of an evaluation: how deep it goes, with which models, how often."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from evalwright.signals.word_tables import text_tables

if TYPE_CHECKING:
    from evalwright.engine.session import ModelPool
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
    by_default: bool = True  # nobody has named the models
    notes: tuple[str, ...] = ()  # what a reader of the results must know


TIERS = tuple(
    msgspec.convert(
        {**row, "number": number, "models": row.get("models", "").split()}, Tier, strict=False
    )
    for number, row in text_tables(__file__).items()
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
        by_default=not (models or settings.models),
        runs=settings.runs or tier.runs,
        samples=samples or settings.samples or tier.samples,
        max_input_tokens=settings.max_input_tokens,
    )


# Who judges where no provider of the tier's own models is left and no tier is configured, in the
# order in which they are looked for: a quick model, and one that judges well.
_OTHER_JUDGES = (
    ("anthropic:claude-haiku-4-5", "anthropic:claude-sonnet-4-5"),
    ("ollama:phi4", "ollama:phi4"),
)


def standing(tier: Tier, models: "ModelPool") -> Tier:
    """The tier; where the provider of its default models is no more, with what is configured.

    What judges instead is said in `notes`. Where nothing is configured no model is left.
    """
    if not tier.by_default:
        return tier
    found = {name: models.standing(name) for name in tier.models}
    gone = [name for name, each in found.items() if each is None or each != models.name(name)]
    if not gone:
        return tier
    same = dict.fromkeys(str(each) for each in found.values() if each is not None)
    names = tuple(same) or next(_configured_judges(tier, models), ())
    where = f"-m, or models in [tiers.{tier.number}] of evalwright.toml"
    why = f"tier {tier.number} asks {', '.join(gone)} at GitHub Models, which is retired"
    said = f"{', '.join(names)} {'judges' if len(names) == 1 else 'judge'} instead"
    remedy = f"set OPENAI_API_KEY or OPENROUTER_API_KEY, or name a model with {where}"
    note = f"{why}; {said} (name others with {where})" if names else f"{why}; {remedy}"
    return msgspec.structs.replace(tier, models=names, notes=(note,))


def _configured_judges(tier: Tier, models: "ModelPool") -> Iterator[tuple[str, ...]]:
    """Models that the user has set up: those of the nearest tier, then those with a key."""
    named = [(int(number), each.models) for number, each in models.config.tiers.items()]
    for _, judges in sorted(named, key=lambda each: abs(each[0] - tier.number)):
        if judges:
            yield judges
    for quick, strong in _OTHER_JUDGES:
        judge = quick if tier.one_call else strong
        if models.is_set_up(models.name(judge)):
            yield (judge,)
