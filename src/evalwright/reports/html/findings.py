"""What speaks against a case, as HTML: failed assertions, rules that would help, and signals."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from minijinja import safe

from evalwright.contracts.report import (
    FailedAssertion,
    Item,
    PolicyRule,
    Signal,
    SignalDetails,
)
from evalwright.reports.html.display_text import clipped, display_text
from evalwright.reports.html.evidence import Side
from evalwright.reports.html.markup import badge_html
from evalwright.reports.html.templating import render
from evalwright.reports.html.words import SEVERITIES

_LONG = 1_500
_MOST = 200  # rows of a table


class Findings(NamedTuple):
    """The sections of the page, and the anchors that they cite."""

    html: str = ""
    cited: frozenset[str] = frozenset()


def findings(item: Item, policy: Mapping[str, PolicyRule], baseline: Side, new: Side) -> Findings:
    """The findings of both sides; nothing where there are none."""
    assertions, signals, suppressed = (
        _assertions(item),
        _signals(item, baseline, new),
        _suppressed(item),
    )
    rules = [_rule(rule, policy) for rule in item.recommended_policy_rules]
    if not (assertions or signals or suppressed or rules):
        return Findings()
    html = render(
        "html",
        "findings.html",
        assertions=assertions,
        policy=rules,
        preventable=item.preventable_by_policy,
        signals=signals,
        suppressed=suppressed,
    )
    cited = frozenset(anchor for signal in signals for anchor, _ in signal["evidence"])
    return Findings(html, cited)


def _assertions(item: Item) -> list[tuple[str, str, str, str, str]]:
    failed = item.failed_assertions
    return _failed("New", failed.new) + _failed("Baseline", failed.baseline)


def _failed(side: str, failed: Sequence[FailedAssertion]) -> list[tuple[str, str, str, str, str]]:
    return [
        (
            side,
            display_text(each.name),
            clipped(each.message, _LONG),
            clipped(each.expected, _LONG),
            clipped(each.actual, _LONG),
        )
        for each in failed[:_MOST]
    ]


def _rule(rule_id: str, policy: Mapping[str, PolicyRule]) -> tuple[str, str, str, str]:
    rule = policy.get(rule_id)
    name = display_text(rule_id)
    return (name, rule.title, rule.rationale, rule.remedy) if rule else (name, "", "", "")


def _signals(item: Item, baseline: Side, new: Side) -> list[dict[str, Any]]:
    found = [_signal(signal, new) for signal in item.security.new.signals[:_MOST]]
    return found + [_signal(signal, baseline) for signal in item.security.baseline.signals[:_MOST]]


def _signal(signal: Signal, side: Side) -> dict[str, Any]:
    return {
        "side": side.name,
        "kind": display_text(signal.kind),
        "tone": SEVERITIES[signal.severity].tone,
        "badge": safe(badge_html(SEVERITIES[signal.severity])),
        "confidence": signal.confidence,
        "title": display_text(signal.title),
        "details": _details(signal.details),
        "evidence": [side.link(ref) for ref in signal.evidence_refs[:_MOST]],
    }


def _details(details: SignalDetails) -> list[tuple[str, str]]:
    known = (
        ("Notes", details.notes),
        ("Tool", details.tool),
        ("Fields", ", ".join(details.fields)),
        ("Hosts and URLs", ", ".join(details.urls)),
        ("Provenance", ", ".join(f"{key}: {value}" for key, value in details.provenance.items())),
        ("Rule", details.rule),
        ("Action", details.action_id),
    )
    return [(name, clipped(value, _LONG)) for name, value in known if value]


def _suppressed(item: Item) -> list[tuple[str, str, str, str]]:
    return [
        (
            side,
            display_text(each.signal.kind),
            clipped(each.reason, _LONG),
            display_text(each.expires),
        )
        for side, security in (("New", item.security.new), ("Baseline", item.security.baseline))
        for each in security.suppressed or ()
    ]
