"""`similar`: the output is nearly a text, by its words, its letters or its meaning."""

import math
from collections.abc import Sequence
from typing import Any

from evalwright.scoring.checks.base import (
    SHARE,
    Answers,
    CheckKind,
    EmbeddingAsk,
    Examined,
    Look,
    Prepared,
    Preparing,
    RefusedCheck,
    Unanswered,
    cannot_look,
    fields,
)
from evalwright.scoring.checks.likeness import Given, Sought
from evalwright.scoring.checks.quotes import shown

_ENOUGH = 0.7


def _prepare(argument: Any, _preparing: Preparing) -> Prepared:
    options = argument if isinstance(argument, dict) else {"to": argument}
    text, enough = str(options["to"]), options.get("at_least", _ENOUGH)
    if not text.strip():
        remedy = "give a text, or remove the check"
        raise RefusedCheck("nothing is similar to an empty text", remedy, "$.to")
    by = options.get("by", "lexical")
    if by == "embedding":
        return _by_embedding(text, enough)
    sought = Sought(text)

    def look(examined: Examined, _answers: Answers) -> Look:
        score, how = sought.likeness(examined.once(_given), by, enough)
        passed = score >= enough
        reason = f"{how} {score:.3f}" + ("" if passed else f", at least {enough} is wanted")
        actual = examined.shown_briefly if passed else examined.shown
        return Look(passed, score, shown(text), actual, reason)

    return Prepared("similar", look)


def _given(examined: Examined) -> Given:
    return Given(examined.text)


def _by_embedding(text: str, enough: float) -> Prepared:
    ask = EmbeddingAsk(text)

    def look(examined: Examined, answers: Answers) -> Look:
        answer = answers.get(ask, Unanswered("no model of embeddings was asked"))
        if isinstance(answer, Unanswered):
            return cannot_look(shown(text), answer.reason)
        score = min(1.0, max(0.0, _cosine(*answer)))
        passed = score >= enough
        reason = f"cosine of embeddings {score:.3f}"
        reason += "" if passed else f", at least {enough} is wanted"
        actual = examined.shown_briefly if passed else examined.shown
        return Look(passed, score, shown(text), actual, reason)

    return Prepared("similar", look, (ask,))


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    product = math.fsum(a * b for a, b in zip(left, right, strict=True))
    lengths = math.hypot(*left) * math.hypot(*right)
    return product / lengths if lengths else 0.0


CHECK = CheckKind(
    name="similar",
    description=(
        "The output is similar to this text, with a score of `at_least` 0.7 unless said otherwise. "
        "By words (ROUGE-L) and, where that is not enough, by letters (edit distance), in any "
        "language and without a model; `by: embedding` asks a model."
    ),
    example='similar: {to: "It has been shipped.", at_least: 0.7}',
    schema={
        "anyOf": [
            {"type": "string"},
            fields(
                ["to"],
                to={"type": ["string", "number"]},
                at_least=SHARE,
                by={"enum": ["lexical", "rouge_l", "edit", "embedding"]},
            ),
        ]
    },
    prepare=_prepare,
    cause="wrong_answer",
    main="to",
)
