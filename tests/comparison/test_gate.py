"""Gate, governance and policy."""

from types import SimpleNamespace

import pytest

from comparing import a_trace, an_action
from evalwright.comparison.gate import CATALOGUE, gate, governance, recommended_rules
from evalwright.comparison.inputs import _notes_of
from evalwright.contracts.report import FailedAssertion, Integrity, Signal, SignalDetails

OK = Integrity("ok", ())


def a_signal(kind="secret_in_output", severity="high"):
    return Signal(kind, severity, "high", "Something", SignalDetails(), ())


def gated(*signals, regression=False, actions=()):
    return gate(signals, a_trace(actions=actions).actions, regression=regression).required


def test_a_grave_signal_alone_asks_for_no_gate():
    assert not gated(a_signal(severity="critical"))


@pytest.mark.parametrize("severity", ["high", "critical"])
def test_a_grave_signal_in_a_regression_asks_for_a_gate(severity):
    assert gated(a_signal(severity=severity), regression=True)


@pytest.mark.parametrize("severity", ["low", "medium"])
def test_a_lesser_signal_never_asks_for_a_gate(severity):
    assert not gated(a_signal("high_risk_action", severity), regression=True)


def test_a_grave_signal_beside_a_high_risk_action_asks_for_a_gate():
    assert gated(a_signal(), actions=[an_action(risk_level="high")])
    assert not gated(a_signal(), actions=[an_action(risk_level="medium")])


@pytest.mark.parametrize(
    "kind",
    [
        "high_risk_action",
        "permission_change",
        "unsafe_code_execution",
        "token_exfil_indicator",
        "injected_instruction_followed",
    ],
)
def test_these_kinds_are_high_risk_actions_themselves(kind):
    assert gated(a_signal(kind))
    assert gated(a_signal("secret_in_output"), a_signal(kind, "low"))


def test_a_regression_without_signals_warns_but_does_not_gate():
    found = gate([], (), regression=True)
    assert not found.required
    ruling = governance(found, [], OK, regression=True)
    assert ruling.recommendation == "warn"


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        ([a_signal("permission_change", "critical")], "block"),
        ([a_signal("permission_change", "high")], "require_approval"),
        ([a_signal("permission_change", "low")], "require_approval"),
        ([a_signal("secret_in_output", "high")], "warn"),
        ([a_signal("pii_in_output", "medium")], "warn"),
        ([a_signal("pii_in_output", "low")], "none"),
        ([], "none"),
    ],
)
def test_what_a_runtime_gate_would_do(signals, expected):
    found = gate(signals, (), regression=False)
    ruling = governance(found, signals, OK, regression=False)
    assert ruling.recommendation == expected
    assert ruling.reason


def test_rules_follow_from_what_failed():
    failures = [
        FailedAssertion("tool_required", (), (), ""),
        FailedAssertion("json_schema", (), (), ""),
        FailedAssertion("must_include", (), (), ""),
    ]
    assert recommended_rules(failures, []) == ("Rule1", "Rule3")
    assert recommended_rules([], [a_signal("injected_instruction_followed")]) == ("Rule5",)
    assert recommended_rules([FailedAssertion("transport", "", "", "")], []) == ()


def test_every_rule_of_the_catalogue_explains_itself():
    for rule in CATALOGUE.values():
        assert all((rule.title, rule.rationale, rule.remedy))


def test_calls_that_fewer_saw_than_before_are_noted():
    def notes(before: int, now: int) -> list[str]:
        meta = {"status": "completed"}
        runs = [SimpleNamespace(meta=meta, unobserved=count) for count in (before, now)]
        return list(_notes_of(*runs, None))

    assert notes(1, 1) == notes(2, 1) == []
    (note,) = notes(1, 1201)
    assert note == (
        "New run: the tool calls of 1,200 more answers than before were not observed; "
        "changes and signals of these calls cannot be seen"
    )
