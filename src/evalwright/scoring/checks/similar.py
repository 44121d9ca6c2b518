"""`similar`: the output is nearly a text, by its words, its letters or its meaning."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

from evalwright.scoring.checks.base import (
    SHARE,
    AnswerCheck,
    Ask,
    CheckOutcome,
    EmbeddingAsk,
    Examined,
    Preparing,
    RefusedCheck,
    Unanswered,
    cannot_tell,
    fields,
)
from evalwright.scoring.checks.likeness import Given, Sought
from evalwright.scoring.checks.quotes import shown


class Similar(AnswerCheck):
    """The output is similar to this text, with a score of `at_least` 0.7 unless said otherwise.
    By words (ROUGE-L) and, where that is not enough, by letters (edit distance), in any
    language and without a model; `by: embedding` asks a model.
    """

    example = 'similar: {to: "It has been shipped.", at_least: 0.7}'
    schema = {
        "anyOf": [
            {"type": "string"},
            fields(
                ["to"],
                to={"type": ["string", "number"]},
                at_least=SHARE,
                by={"enum": ["lexical", "rouge_l", "edit", "embedding"]},
            ),
        ]
    }
    main = "to"

    to: str
    at_least: float = 0.7
    by: Literal["lexical", "rouge_l", "edit", "embedding"] = "lexical"

    @classmethod
    def of(cls, argument: Any, preparing: Preparing) -> AnswerCheck:
        check = super().of(argument, preparing)
        assert isinstance(check, Similar)
        check.to = str(check.to)
        if not check.to.strip():
            remedy = "give a text, or remove the check"
            raise RefusedCheck("nothing is similar to an empty text", remedy, "$.to")
        return check

    @property
    def asks(self) -> Sequence[Ask]:
        return (EmbeddingAsk(self.to),) if self.by == "embedding" else ()

    @cached_property
    def _sought(self) -> Sought:
        return Sought(self.to)

    def evaluate(self, examined: Examined) -> CheckOutcome:
        if self.by == "embedding":
            vectors = examined.told.get(
                self.asks[0], Unanswered("no model of embeddings was asked")
            )
            if isinstance(vectors, Unanswered):
                return cannot_tell(shown(self.to), vectors.reason)
            score, how = min(1.0, max(0.0, _cosine(*vectors))), "cosine of embeddings"
        else:
            score, how = self._sought.likeness(examined.once(_given), self.by, self.at_least)
        passed = score >= self.at_least
        reason = f"{how} {score:.3f}" + ("" if passed else f", at least {self.at_least} is wanted")
        actual = examined.shown_briefly if passed else examined.shown
        return CheckOutcome(passed, score, shown(self.to), actual, reason)


def _given(examined: Examined) -> Given:
    return Given(examined.text)


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    product = math.fsum(a * b for a, b in zip(left, right, strict=True))
    lengths = math.hypot(*left) * math.hypot(*right)
    return product / lengths if lengths else 0.0
