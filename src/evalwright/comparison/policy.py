"""The policy catalogue: rules that would have prevented a failure, and which ones apply."""

from collections.abc import Collection, Iterable

from evalwright.contracts.report import FailedAssertion, PolicyRule, Signal
from evalwright.signals.kinds import KINDS

CATALOGUE: dict[str, PolicyRule] = {
    rule.id: rule
    for rule in (
        PolicyRule(
            "Rule1",
            "Choose the right tool",
            "The agent acted with other tools than the case calls for, or in another order, so "
            "what it did is not what was asked.",
            "Name the tools and their order in the agent's instructions, and refuse calls that "
            "are not on the task's allow-list.",
        ),
        PolicyRule(
            "Rule2",
            "Fetch the required data",
            "The agent answered without the documents or records that the answer has to rest on.",
            "Require the retrieval before an answer is accepted, and let the agent say so when a "
            "source is missing.",
        ),
        PolicyRule(
            "Rule3",
            "Answer in the declared format",
            "The output does not fit the declared schema, so whatever reads it next will break.",
            "Validate the output against the schema at the border and ask again with the error.",
        ),
        PolicyRule(
            "Rule4",
            "Back actions and statements with evidence",
            "An action above low risk, or a value in the output, is not borne out by a tool "
            "result or a retrieved document.",
            "Require a reference to evidence for each action, and check ids, amounts and dates "
            "against the results before they are shown.",
        ),
        PolicyRule(
            "Rule5",
            "Treat what tools return as data, not as instructions",
            "The agent did what a tool result or a document told it to do, not what the user "
            "asked.",
            "Mark untrusted text as such, and refuse calls whose destination only untrusted text "
            "has named.",
        ),
        PolicyRule(
            "Rule6",
            "Ask before high-risk actions",
            "Money, permissions, code or data were at stake and nobody was asked.",
            "Hold such calls for approval, and show the approver where each argument came from.",
        ),
        PolicyRule(
            "Rule7",
            "Keep secrets and private data in",
            "A secret or private data left through the output or a call.",
            "Filter secrets from what the agent may read and from what it sends, and replace "
            "credentials by references.",
        ),
    )
}

_BY_ASSERTION = {
    "action_required": "Rule1",
    "tool_required": "Rule1",
    "tool_sequence": "Rule1",
    "retrieval_required": "Rule2",
    "json_schema": "Rule3",
    "evidence_required": "Rule4",
    "grounded_output": "Rule4",
}
_BY_SIGNAL = {kind.name: kind.policy_rule for kind in KINDS if kind.policy_rule}


def recommended_rules(
    failures: Collection[FailedAssertion], gating_signals: Iterable[Signal]
) -> tuple[str, ...]:
    """The rules that would have prevented these failures, or the signals that ask for a gate."""
    found = {_BY_ASSERTION[each.name] for each in failures if each.name in _BY_ASSERTION}
    found |= {_BY_SIGNAL[each.kind] for each in gating_signals if each.kind in _BY_SIGNAL}
    return tuple(sorted(found))
