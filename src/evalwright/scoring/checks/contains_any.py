"""`contains_any`: at least one of several texts is in the output."""

from typing import Any

from evalwright.scoring.checks.base import (
    Answers,
    CheckKind,
    Examined,
    Look,
    Prepared,
    Preparing,
    holds,
)
from evalwright.scoring.checks.quotes import named, shown
from evalwright.scoring.checks.texts import TEXTS_SCHEMA, seeks_of, sought_texts


def _prepare(argument: Any, _preparing: Preparing) -> Prepared:
    texts, ignore_case = sought_texts(argument)
    seeks = seeks_of(texts, ignore_case=ignore_case)

    def look(examined: Examined, _answers: Answers) -> Look:
        if any(map(examined.has, seeks)):
            return Look(True, 1.0, texts, examined.shown_briefly)
        reason = f"none of these texts is in the output: {named(texts)}"
        return holds(False, shown(texts), examined.shown, reason)

    return Prepared("contains_any", look, seeks=seeks)


CHECK = CheckKind(
    name="contains_any",
    description="The output contains at least one of these texts.",
    example="contains_any: [shipped, on its way]",
    schema=TEXTS_SCHEMA,
    prepare=_prepare,
    cause="wrong_answer",
    main="value",
)
