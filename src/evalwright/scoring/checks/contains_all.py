"""`contains_all`: every one of several texts is in the output; the score is the share found."""

from typing import Any

from evalwright.scoring.checks.base import Answers, CheckKind, Examined, Look, Prepared, Preparing
from evalwright.scoring.checks.comparing import found_among
from evalwright.scoring.checks.quoting import named, shown
from evalwright.scoring.checks.texts import TEXTS_SCHEMA, sought_texts


def _prepare(argument: Any, _preparing: Preparing) -> Prepared:
    texts, ignore_case = sought_texts(argument)

    def look(examined: Examined, _answers: Answers) -> Look:
        found = found_among(texts, examined.text, ignore_case=ignore_case)
        if len(found) == len(texts):
            return Look(True, 1.0, texts, shown(examined.output, brief=True))
        missing = [text for text in texts if text not in found]
        reason = f"not in the output: {named(missing)} ({len(found)} of {len(texts)} are)"
        return Look(False, len(found) / len(texts), shown(texts), shown(examined.output), reason)

    return Prepared("contains_all", look)


CHECK = CheckKind(
    name="contains_all",
    description="The output contains all of these texts; the score is the share that it contains.",
    example="contains_all: [order, A-17]",
    schema=TEXTS_SCHEMA,
    prepare=_prepare,
    cause="missing_required_data",
    main="value",
)
