"""`judge`: statements about the output that judges hold true."""

import math
from collections.abc import Sequence
from typing import Any

from evalwright.scoring.checks.base import (
    SHARE,
    Answers,
    CheckKind,
    Examined,
    JudgeAsk,
    JudgeSays,
    Look,
    Prepared,
    Preparing,
    RefusedCheck,
    Unanswered,
    cannot_look,
    fields,
)
from evalwright.scoring.checks.quotes import quoted, shown

_STATEMENT = {"type": "string", "pattern": r"\S"}
_CRITERION = {
    "anyOf": [
        _STATEMENT,
        fields(["criterion"], criterion=_STATEMENT, weight={"type": "number", "minimum": 0}),
    ]
}
_CRITERIA = {"type": "array", "minItems": 1, "items": _CRITERION}


def _prepare(argument: Any, _preparing: Preparing) -> Prepared:
    criteria, enough = criteria_of(argument)
    weights = [each.get("weight", 1) for each in criteria]
    if not math.fsum(weights):
        raise RefusedCheck("the weights sum to 0, so there is no score", "give one above 0")
    ask = JudgeAsk(tuple(each["criterion"].strip() for each in criteria))
    return judged_check("judge", ask, weights, enough)


def criteria_of(argument: Any) -> tuple[list[dict[str, Any]], float]:
    """The criteria that a check lists, and the score that is enough."""
    options = argument if isinstance(argument, dict) and "criteria" in argument else {}
    listed = options.get("criteria", argument)
    criteria = [
        each if isinstance(each, dict) else {"criterion": each}
        for each in (listed if isinstance(listed, list) else [listed])
    ]
    return criteria, options.get("at_least", 1.0)


def judged_check(name: str, ask: JudgeAsk, weights: Sequence[float], enough: float) -> Prepared:
    """A check that judges decide: the score is the weight of the statements that hold."""
    total = math.fsum(weights)
    expected: Any = ask.statements[0] if len(ask.statements) == 1 else list(ask.statements)
    if ask.against == "reference":
        expected = shown(ask.reference)

    def look(examined: Examined, answers: Answers) -> Look:
        said = answers.get(ask, Unanswered("no judge was asked"))
        if not isinstance(said, JudgeSays):
            return cannot_look(expected, said.reason)
        met = [weight for weight, is_met in zip(weights, said.met, strict=True) if is_met]
        score = min(1.0, math.fsum(met) / total)
        passed = score >= enough - 1e-9
        return Look(passed, score, expected, examined.shown_briefly, _reason(ask, said))

    return Prepared(name, look, (ask,))


def _reason(ask: JudgeAsk, said: JudgeSays) -> str:
    """Why: what the judges said of the statements that do not hold, else of all."""
    told = list(zip(ask.statements, said.met, said.reasons, strict=True))
    missed = [(statement, reason) for statement, is_met, reason in told if not is_met]
    if len(told) == 1:
        return told[0][2]
    if not missed:
        return f"all {len(told)} criteria are met"
    return "; ".join(f"not met: {quoted(statement)}: {reason}" for statement, reason in missed)


CHECK = CheckKind(
    name="judge",
    description=(
        "Judges hold these statements about the output true; each may have a `weight`. The score "
        "is the weight of those that hold, and all must hold unless `at_least` says otherwise."
    ),
    example="judge: [greets the customer, {criterion: states the carrier, weight: 2}]",
    schema={
        "anyOf": [
            *_CRITERION["anyOf"],
            _CRITERIA,
            fields(["criteria"], criteria={"anyOf": [_STATEMENT, _CRITERIA]}, at_least=SHARE),
        ]
    },
    prepare=_prepare,
    cause="wrong_answer",
    main="criteria",
)
