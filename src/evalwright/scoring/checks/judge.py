"""`judge` and `judge_against`: statements about the output that judges hold true."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from evalwright.contracts.jsonvalue import stringify
from evalwright.scoring.checks.base import (
    SHARE,
    AnswerCheck,
    Ask,
    CheckOutcome,
    Examined,
    JudgeAsk,
    JudgeSays,
    Preparing,
    RefusedCheck,
    Unanswered,
    calls_not_observed,
    cannot_tell,
    fields,
)
from evalwright.scoring.checks.quotes import quoted, shown
from evalwright.trace.model import text_of

_STATEMENT = {"type": "string", "pattern": r"\S"}
_CRITERION = {
    "anyOf": [
        _STATEMENT,
        fields(["criterion"], criterion=_STATEMENT, weight={"type": "number", "minimum": 0}),
    ]
}
_CRITERIA = {"type": "array", "minItems": 1, "items": _CRITERION}


class _JudgedCheck(AnswerCheck):
    ask: JudgeAsk
    weights: list[float]
    enough: float = 1.0

    @property
    def asks(self) -> Sequence[Ask]:
        return (self.ask,)

    @cached_property
    def expected(self) -> Any:
        ask = self.ask
        if ask.against == "reference":
            return shown(ask.reference)
        return ask.statements[0] if len(ask.statements) == 1 else list(ask.statements)

    def evaluate(self, examined: Examined) -> CheckOutcome:
        said = examined.told.get(self.ask, Unanswered("no judge was asked"))
        if not isinstance(said, JudgeSays):
            return cannot_tell(self.expected, said.reason)
        score = self.score(said)
        passed = score >= self.enough - 1e-9
        reason = _reason(self.ask, said)
        return CheckOutcome(passed, score, self.expected, examined.shown_briefly, reason)

    def score(self, said: JudgeSays) -> float:
        met = [weight for weight, is_met in zip(self.weights, said.met, strict=True) if is_met]
        return min(1.0, math.fsum(met) / math.fsum(self.weights))


def _reason(ask: JudgeAsk, said: JudgeSays) -> str:
    told = list(zip(ask.statements, said.met, said.reasons, strict=True))
    missed = [(statement, reason) for statement, is_met, reason in told if not is_met]
    if len(told) == 1:
        return told[0][2]
    if not missed:
        return f"all {len(told)} criteria are met"
    return "; ".join(f"not met: {quoted(statement)}: {reason}" for statement, reason in missed)


class Judge(_JudgedCheck):
    """Judges hold these statements about the output true; each may have a `weight`. The score
    is the weight of those that hold, and all must hold unless `at_least` says otherwise.
    """

    example = "judge: [greets the customer, {criterion: states the carrier, weight: 2}]"
    schema = {
        "anyOf": [
            *_CRITERION["anyOf"],
            _CRITERIA,
            fields(["criteria"], criteria={"anyOf": [_STATEMENT, _CRITERIA]}, at_least=SHARE),
        ]
    }
    main = "criteria"

    @classmethod
    def of(cls, argument: Any, _preparing: Preparing) -> AnswerCheck:
        criteria, enough = criteria_of(argument)
        weights = [each.get("weight", 1) for each in criteria]
        if not math.fsum(weights):
            raise RefusedCheck("the weights sum to 0, so there is no score", "give one above 0")
        ask = JudgeAsk(tuple(each["criterion"].strip() for each in criteria))
        return cls(ask, weights, enough)


def criteria_of(argument: Any) -> tuple[list[dict[str, Any]], float]:
    """The criteria that a check lists, and the score that is enough."""
    options = argument if isinstance(argument, dict) and "criteria" in argument else {}
    listed = options.get("criteria", argument)
    criteria = [
        each if isinstance(each, dict) else {"criterion": each}
        for each in (listed if isinstance(listed, list) else [listed])
    ]
    return criteria, options.get("at_least", 1.0)


_STATEMENTS = {
    "factuality": (
        "The output agrees in its facts with the REFERENCE: it contradicts nothing in it, and it "
        "has those of its facts that answer the input. Other words, another order and further "
        "facts that do not contradict it do not matter."
    ),
    "closed_qa": (
        "The output gives the same answer to the question in the input as the REFERENCE does. "
        "How it is worded and how long it is do not matter; an answer that leaves open or hedges "
        "what the REFERENCE decides is not the same."
    ),
    "relevance": (
        "The output answers what the input asks for, and all of it; it neither evades the "
        "question nor spends itself on other things."
    ),
    "grounded_in": (
        "Every claim of fact in the output is stated in the REFERENCE or follows from it; what "
        "it says without such support, however plausible, does not hold."
    ),
}
_RETRIEVED = ("retrieved documents", "retrieved_documents", "retrieved", "documents")
_REFERENCE = {"type": ["string", "number", "boolean", "object", "array"]}


class JudgeAgainst(_JudgedCheck):
    """Judges compare the output with a `reference` (the task's `expected` if there is none):
    as `factuality`, `closed_qa` or `relevance`; or `grounded_in` the documents that the
    agent retrieved, or in given ones.
    """

    example = "judge_against: {reference: It went out on Monday., as: factuality}"
    schema = {
        "anyOf": [
            {"type": "string"},
            fields(
                [],
                reference=_REFERENCE,
                grounded_in=_REFERENCE,
                at_least={"type": "number", "minimum": 0, "maximum": 1},
                **{"as": {"enum": list(_STATEMENTS)}},
            ),
        ]
    }
    main = "reference"
    cause = "hallucination_signal"

    @classmethod
    def of(cls, argument: Any, _preparing: Preparing) -> AnswerCheck:
        options = argument if isinstance(argument, dict) else {"reference": argument}
        kind = options.get("as", "grounded_in" if "grounded_in" in options else "factuality")
        if kind != "grounded_in" and "grounded_in" in options:
            remedy = "remove `as`, or write two checks"
            raise RefusedCheck("`grounded_in` is a kind of its own", remedy, "$.as")
        return cls(_ask(kind, options), [1.0], options.get("at_least", 1.0))


def _ask(kind: str, options: dict[str, Any]) -> JudgeAsk:
    statements = (_STATEMENTS[kind],)
    reference = options.get("grounded_in", options.get("reference"))
    if kind == "relevance" and reference is None:
        return JudgeAsk(statements)
    named = reference.lower() if isinstance(reference, str) else ""
    if kind == "grounded_in" and (reference is None or reference is True or named in _RETRIEVED):
        return JudgeAsk(statements, "documents")
    if reference is None:
        return JudgeAsk(statements, "expected")
    is_list = isinstance(reference, list) and all(isinstance(each, str) for each in reference)
    text = "\n\n".join(reference) if is_list else stringify(reference)
    if not text.strip():
        remedy = "give a text; without `reference` the task's `expected` is taken"
        raise RefusedCheck("the reference is empty", remedy, "$.reference")
    return JudgeAsk(statements, "reference", text)


def material(ask: JudgeAsk, examined: Examined) -> str | Unanswered | None:
    """What a judge sees as REFERENCE beside an output; None where the ask wants nothing."""
    if not ask.against:
        return None
    if ask.against == "reference":
        return ask.reference
    if ask.against == "expected":
        if examined.expected is None:
            return Unanswered("there is no reference: give `reference`, or `expected` to the task")
        return stringify(examined.expected)
    if unobserved := calls_not_observed(examined):
        return Unanswered(unobserved)
    trace = examined.trace
    texts = [text_of(each.content) for each in trace.retrievals] if trace else []
    texts = [text for text in texts if text]
    if not texts:  # of an agent that records no retrievals, what its tools returned
        texts = [text_of(call.result) for call in examined.calls if call.result is not None]
    if not texts:
        return Unanswered("the agent retrieved no documents that the output could be grounded in")
    return "\n\n".join(texts)
