"""The rubric of the scores without a model: what each criterion looks at, and what to advise."""

from typing import cast

import msgspec

from evalwright.contracts.prompt_result import Criterion
from evalwright.signals.word_tables import text_tables


class Aspect(msgspec.Struct, frozen=True):
    """What is looked for, and what to change where it lacks: the change, with an example."""

    title: str
    advice: str


_WEIGHTS, _TITLES, _ADVICE, RULES_ADVICE = text_tables(__file__).values()
ASPECTS = {name: Aspect(title, _ADVICE[name]) for name, title in _TITLES.items()}
# For each criterion its aspects, with their weights.
RUBRIC = {
    cast("Criterion", criterion): tuple(
        zip(row.split()[::2], map(float, row.split()[1::2]), strict=True)
    )
    for criterion, row in _WEIGHTS.items()
}
# What is told by words, and what can be seen in any language.
LEXICAL = ("form", "limits", "instructions", "cases", "examples", "input", "doubt")
STRUCTURAL = ("points", "worded_points", "parts", "numbers")
