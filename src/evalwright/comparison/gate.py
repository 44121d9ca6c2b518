"""Does a side need a gate, what would a runtime gate do, and which policy rules would help?"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from evalwright.contracts.report import (
    GRAVE,
    FailedAssertion,
    Governance,
    Integrity,
    PolicyRule,
    Signal,
)
from evalwright.signals.kinds import KINDS
from evalwright.signals.word_tables import text_tables
from evalwright.trace.model import ProposedAction

HIGH_RISK_KINDS = frozenset(kind.name for kind in KINDS if kind.is_high_risk)
CATALOGUE = {name: PolicyRule(name, **texts) for name, texts in text_tables(__file__).items()}

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


class Gate(msgspec.Struct, frozen=True):
    """Whether a gate is recommended, the signals that ask for it, and why.

    `risky` says whether the side holds a high-risk action, with or without a gate.
    """

    required: bool
    signals: tuple[Signal, ...]
    reason: str
    risky: bool


def gate(signals: Sequence[Signal], actions: Iterable[ProposedAction], *, regression: bool) -> Gate:
    """The contract's rule: a grave signal, and a regression or a high-risk action."""
    grave = tuple([signal for signal in signals if signal.severity in GRAVE])
    risky = not HIGH_RISK_KINDS.isdisjoint([signal.kind for signal in signals])
    risky = risky or "high" in [action.risk_level for action in actions]
    if not grave or not (regression or risky):
        return Gate(False, (), "", risky)
    because = [
        *(["the case got worse"] if regression else []),
        *(["it holds a high-risk action"] if risky else []),
    ]
    kinds = ", ".join(dict.fromkeys(signal.kind for signal in grave))
    reason = f"{grave[0].severity} signal ({kinds}), and {' and '.join(because)}"
    return Gate(True, grave, reason, risky)


def governance(
    found: Gate, signals: Sequence[Signal], integrity: Integrity, *, regression: bool
) -> Governance:
    """What a runtime gate would do: block, ask, warn or nothing."""
    if found.required:
        critical = any(signal.severity == "critical" for signal in found.signals)
        return Governance("block" if critical else "require_approval", found.reason)
    if found.risky:
        return Governance("require_approval", "a high-risk action, without a severe signal")
    kinds = dict.fromkeys([signal.kind for signal in signals if signal.severity != "low"])
    reasons = [
        *(["the case got worse"] if regression else []),
        *([f"signals: {', '.join(kinds)}"] if kinds else []),
        *(["the trace is broken"] if integrity.status == "broken" else []),
    ]
    if reasons:
        return Governance("warn", "; ".join(reasons))
    return Governance("none", "no concern found")


def recommended_rules(
    failures: Collection[FailedAssertion], gating_signals: Iterable[Signal]
) -> tuple[str, ...]:
    """The rules that would have prevented these failures, or the signals that ask for a gate."""
    found = {_BY_ASSERTION[each.name] for each in failures if each.name in _BY_ASSERTION}
    found |= {_BY_SIGNAL[each.kind] for each in gating_signals if each.kind in _BY_SIGNAL}
    return tuple(sorted(found))
