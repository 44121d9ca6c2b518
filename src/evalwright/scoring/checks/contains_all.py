"""`contains_all`: every one of several texts is in the output; the score is the share found."""

from typing import Any

from evalwright.scoring.checks.base import Answers, CheckKind, Examined, Look, Prepared, Preparing
from evalwright.scoring.checks.quotes import named, shown
from evalwright.scoring.checks.texts import TEXTS_SCHEMA, seeks_of, sought_texts


def _prepare(argument: Any, _preparing: Preparing) -> Prepared:
    texts, ignore_case = sought_texts(argument)
    seeks = seeks_of(texts, ignore_case=ignore_case)

    def look(examined: Examined, _answers: Answers) -> Look:
        missing = [text for text, seek in zip(texts, seeks, strict=True) if not examined.has(seek)]
        if not missing:
            return Look(True, 1.0, texts, examined.shown_briefly)
        found = len(texts) - len(missing)
        reason = f"not in the output: {named(missing)} ({found} of {len(texts)} are)"
        return Look(False, found / len(texts), shown(texts), examined.shown, reason)

    return Prepared("contains_all", look, seeks=seeks)


CHECK = CheckKind(
    name="contains_all",
    description="The output contains all of these texts; the score is the share that it contains.",
    example="contains_all: [order, A-17]",
    schema=TEXTS_SCHEMA,
    prepare=_prepare,
    cause="wrong_answer",
    main="value",
)
