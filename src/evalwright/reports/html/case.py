"""What a case page shows, as plain values for its template."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import msgspec
from minijinja import safe

from evalwright.compare.alignment import AlignedStep
from evalwright.contracts.report import (
    Artifacts,
    FailedAssertion,
    Item,
    PolicyRule,
    Signal,
    SignalDetails,
)
from evalwright.reports.html.evidence import Side, failure_words
from evalwright.reports.html.facts import facts_html
from evalwright.reports.html.fields import PayloadWriter
from evalwright.reports.html.markup import badge_html
from evalwright.reports.html.steps import SideWriter, StepWriter
from evalwright.reports.html.visible import clipped, relative_href, visible
from evalwright.reports.html.words import CHANGES, SEVERITIES
from evalwright.trace.model import Trace

_LONG = 1_500
_PROMPT = 6_000
_MOST = 200  # rows of a table


class CaseView(msgspec.Struct, frozen=True):
    """One compared case, with all that its page needs."""

    item: Item
    prompt: str
    steps: Sequence[AlignedStep]
    baseline: Trace
    new: Trace
    policy: Mapping[str, PolicyRule]
    masked: bool
    report_id: str


def case_context(view: CaseView) -> dict[str, Any]:
    """The values of the template `case.html`; the steps as HTML."""
    item = view.item
    baseline, new = Side("b", view.baseline), Side("n", view.new)
    signals = _signals(item, baseline, new)
    cited = {anchor for signal in signals for anchor, _ in signal["evidence"]}
    return {
        "case_id": visible(item.case_id),
        "title": visible(item.title) or visible(item.case_id),
        "report_id": visible(view.report_id),
        "masked": view.masked,
        "change": CHANGES[item.change].words,
        "badge": safe(badge_html(CHANGES[item.change])),
        "gated": item.security.new.requires_gate_recommendation,
        "prompt": visible(view.prompt[:_PROMPT]),
        "prompt_remark": _shortened(view.prompt),
        "facts": safe(facts_html(item)),
        "faults": [visible(fault) for fault in item.faults or ()],
        "assertions": _assertions(item),
        "policy": [_rule(rule, view.policy) for rule in item.recommended_policy_rules],
        "preventable": item.preventable_by_policy,
        "signals": signals,
        "suppressed": _suppressed(item),
        "divergence": _divergence(item),
        "failures": _failures(item.artifacts, baseline, new),
        "steps": _steps(view, cited),
        "answers": _answers(baseline, new),
        "actions": safe(baseline.actions_html() + new.actions_html()),
        "links": _links(item.artifacts) + _repeat_links(item),
    }


def _steps(view: CaseView, cited: Container[str]) -> str:
    events = len(view.baseline.events) + len(view.new.events)
    files = view.item.artifacts
    old = PayloadWriter(events, relative_href(files.baseline_case_response_href))
    new = PayloadWriter(events, relative_href(files.new_case_response_href))
    sides = SideWriter("b", view.baseline, old), SideWriter("n", view.new, new)
    return StepWriter(*sides, cited).html(view.steps)


def _shortened(prompt: str) -> str:
    if len(prompt) <= _PROMPT:
        return ""
    return f"shortened, {_PROMPT:,} of {len(prompt):,} characters"


def _assertions(item: Item) -> list[tuple[str, str, str, str, str]]:
    failed = item.failed_assertions
    return _failed("New", failed.new) + _failed("Baseline", failed.baseline)


def _failed(side: str, failed: Sequence[FailedAssertion]) -> list[tuple[str, str, str, str, str]]:
    return [
        (
            side,
            visible(each.name),
            clipped(each.message, _LONG),
            clipped(each.expected, _LONG),
            clipped(each.actual, _LONG),
        )
        for each in failed[:_MOST]
    ]


def _rule(rule_id: str, policy: Mapping[str, PolicyRule]) -> tuple[str, str, str, str]:
    rule = policy.get(rule_id)
    name = visible(rule_id)
    return (name, rule.title, rule.rationale, rule.remedy) if rule else (name, "", "", "")


def _signals(item: Item, baseline: Side, new: Side) -> list[dict[str, Any]]:
    found = [_signal(signal, new) for signal in item.security.new.signals[:_MOST]]
    return found + [_signal(signal, baseline) for signal in item.security.baseline.signals[:_MOST]]


def _signal(signal: Signal, side: Side) -> dict[str, Any]:
    return {
        "side": side.name,
        "kind": visible(signal.kind),
        "tone": SEVERITIES[signal.severity].tone,
        "badge": safe(badge_html(SEVERITIES[signal.severity])),
        "confidence": signal.confidence,
        "title": visible(signal.title),
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
        (side, visible(each.signal.kind), clipped(each.reason, _LONG), visible(each.expires))
        for side, security in (("New", item.security.new), ("Baseline", item.security.baseline))
        for each in security.suppressed or ()
    ]


def _divergence(item: Item) -> dict[str, Any] | None:
    found = item.first_divergence
    if found is msgspec.UNSET:
        return None
    anchor = f"n-{found.new_index}" if found.new_index is not None else f"b-{found.baseline_index}"
    return {
        "step": found.step + 1,
        "reason": visible(found.reason),
        "anchor": anchor,
        "baseline": clipped(found.baseline, 200) if found.baseline else "nothing",
        "new": clipped(found.new, 200) if found.new else "nothing",
    }


def _failures(files: Artifacts, *sides: Side) -> list[tuple[str, ...]]:
    links = {
        "b": (files.baseline_failure_body_href, files.baseline_failure_meta_href),
        "n": (files.new_failure_body_href, files.new_failure_meta_href),
    }
    return [
        (side.name, failure_words(side.trace.failure), *map(relative_href, links[side.letter]))
        for side in sides
        if side.trace.failure is not None
    ]


def _answers(*sides: Side) -> list[tuple[str, str, str]]:
    answers = ((side, side.unrecorded_answer()) for side in sides)
    return [(f"{side.letter}-answer", side.name, text) for side, text in answers if text]


def _links(files: Artifacts) -> list[tuple[str, str]]:
    known = (
        ("Baseline response", files.baseline_case_response_href),
        ("New response", files.new_case_response_href),
        ("Baseline run", files.baseline_run_meta_href),
        ("New run", files.new_run_meta_href),
        ("Baseline failure body", files.baseline_failure_body_href),
        ("Baseline failure metadata", files.baseline_failure_meta_href),
        ("New failure body", files.new_failure_body_href),
        ("New failure metadata", files.new_failure_meta_href),
    )
    return [(name, link) for name, href in known if (link := relative_href(href))]


def _repeat_links(item: Item) -> list[tuple[str, str]]:
    """The other runs of a case that was run more than once."""
    if item.repeats is msgspec.UNSET:
        return []
    sides = (("Baseline", item.repeats.baseline), ("New", item.repeats.new))
    return [
        (f"{side} run {number}", link)
        for side, found in sides
        for number, href in enumerate(found.response_hrefs[:_MOST], 1)
        if (link := relative_href(href))
    ]
