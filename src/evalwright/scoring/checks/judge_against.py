"""`judge_against`: judges compare the output with a reference, or with what the agent read."""

from typing import Any

from evalwright.contracts.jsonvalue import stringify
from evalwright.scoring.checks.base import (
    CheckKind,
    Examined,
    JudgeAsk,
    Prepared,
    Preparing,
    RefusedCheck,
    Unanswered,
    calls_not_observed,
    fields,
)
from evalwright.scoring.checks.judge import judged_check
from evalwright.trace.model import text_of

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


def _prepare(argument: Any, _preparing: Preparing) -> Prepared:
    options = argument if isinstance(argument, dict) else {"reference": argument}
    kind = options.get("as", "grounded_in" if "grounded_in" in options else "factuality")
    if kind != "grounded_in" and "grounded_in" in options:
        remedy = "remove `as`, or write two checks"
        raise RefusedCheck("`grounded_in` is a kind of its own", remedy, "$.as")
    ask = _ask(kind, options)
    return judged_check("judge_against", ask, [1.0], options.get("at_least", 1.0))


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


CHECK = CheckKind(
    name="judge_against",
    description=(
        "Judges compare the output with a `reference` (the task's `expected` if there is none): "
        "as `factuality`, `closed_qa` or `relevance`; or `grounded_in` the documents that the "
        "agent retrieved, or in given ones."
    ),
    example="judge_against: {reference: It went out on Monday., as: factuality}",
    schema={
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
    },
    prepare=_prepare,
    cause="hallucination_signal",
    main="reference",
)
