"""The table of signal kinds: an entry that lacks a part fails here, not in silence."""

import ast
import re
from pathlib import Path

import pytest

from evalwright.comparison.gate import CATALOGUE, HIGH_RISK_KINDS, recommended_rules
from evalwright.contracts.report import Signal, SignalDetails
from evalwright.engine.findings import FINDING_KINDS
from evalwright.signals import detect as detecting
from evalwright.signals.detect import DETECTORS
from evalwright.signals.kinds import KIND_NAMES, KINDS, SignalKind
from evalwright.signals.suppression import parse_suppressions

ROOT = Path(__file__).parents[2]
EVERY = pytest.mark.parametrize("kind", KINDS, ids=KIND_NAMES)
CLEAN = {"token_exfil_indicator", "secret_in_output", "pii_in_output"}


def a_signal(kind: str) -> Signal:
    return Signal(kind, "high", "high", "A title", SignalDetails(), ())


def test_a_kind_stands_in_the_table_once():
    assert len(set(KIND_NAMES)) == len(KIND_NAMES) == 13


def test_an_entry_must_say_everything():
    with pytest.raises(TypeError, match="Missing required argument 'policy_rule'"):
        SignalKind(name="new_kind", detect=lambda view: (), is_finding=True, is_high_risk=True)


@EVERY
def test_every_kind_has_a_row_in_the_docs(kind):
    page = (ROOT / "docs/signals.md").read_text(encoding="utf-8")
    assert f"\n| `{kind.name}` | " in page.split("## Kinds")[1].split("\n## ")[0]


@EVERY
def test_every_kind_recommends_a_rule_of_the_catalogue_or_says_that_none_helps(kind):
    assert kind.policy_rule in CATALOGUE or kind.name == "runner_failure_detected"
    expected = (kind.policy_rule,) if kind.policy_rule else ()
    assert recommended_rules((), [a_signal(kind.name)]) == expected


@EVERY
def test_every_kind_is_a_finding_and_a_risk_as_its_entry_says(kind):
    assert (kind.name in FINDING_KINDS) is kind.is_finding
    assert (kind.name in HIGH_RISK_KINDS) is kind.is_high_risk


@EVERY
def test_every_kind_can_be_suppressed(kind):
    entry = f"suppressions:\n- {{kind: {kind.name}, reason: known, expires: '2027-01-01'}}\n"
    (suppression,) = parse_suppressions(entry.encode(), "suppressions.yaml").entries
    assert suppression.covers(a_signal(kind.name), "case-1", "new")


@EVERY
def test_every_kind_is_looked_for(kind):
    assert kind.detect in DETECTORS


def test_each_detector_runs_once():
    assert len(set(DETECTORS)) == len(DETECTORS) == 12


@EVERY
def test_what_a_clean_record_cannot_hold_is_not_looked_for_there(kind):
    assert kind.needs_sensitive_text is (kind.name in CLEAN)
    assert (kind.detect in detecting._IN_CLEAN_RECORDS) is not kind.needs_sensitive_text


def test_every_kind_that_a_detector_writes_has_an_entry():
    makers = {"Signal", "call_signal", "_output_signal"}
    written = set()
    for path in (ROOT / "src/evalwright/signals").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in makers:
                given = [each.value for each in node.args if isinstance(each, ast.Constant)]
                written.update(each for each in given if re.fullmatch(r"[a-z]+(_[a-z]+)+", each))
    assert written == set(KIND_NAMES)
