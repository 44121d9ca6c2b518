"""What speaks against a case, as HTML: failed assertions, rules that would help, and signals.

Signals cite their evidence, so a side of a case knows where its events are on the page.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from evalwright.contracts.report import EvidenceRef, Item, PolicyRule, Signal
from evalwright.reports.html.markup import (
    NO_HTML,
    Html,
    Parts,
    as_markup,
    clipped,
    display_text,
    equal,
    render,
    shortened,
    text_html,
)
from evalwright.reports.html.steps import SideLetter, payload_of
from evalwright.reports.html.words import RISKS, SEVERITIES, badge_html, in_words
from evalwright.trace.model import Event, EvidenceTarget, FinalOutput, RunnerFailure, Trace

LONG = 1_500
_MOST = 200  # rows of a table

Link: TypeAlias = tuple[str, str]  # an anchor of the page, or nothing, and the words


class Findings(NamedTuple):
    """The sections of the page, and the anchors that they cite."""

    html: Html = NO_HTML
    cited: frozenset[str] = frozenset()


# The events that a reference of a kind and with a name may mean, in their order.
_MEANT: dict[str, Callable[[Trace, str], Iterator[Event]]] = {
    "tool_call": lambda trace, name: (each for each in trace.calls if each.call_id == name),
    "tool_result": lambda trace, name: (each for each in trace.results if each.call_id == name),
    "retrieval_doc": lambda trace, name: (
        each for each in trace.retrievals if name in each.doc_ids
    ),
}


_NEXT_CELL, _END_OF_ROW = Html("</td><td>"), (Html("</td></tr>\n"), "")
_RISKS = {code: Html(f"{risk.sign} {text_html(risk.words)}") for code, risk in RISKS.items()}


class PageSide(NamedTuple):
    """One side of a case: its name, its trace, and the letter that its anchors begin with."""

    letter: SideLetter
    name: Literal["Baseline", "New"]
    trace: Trace

    def link(self, ref: EvidenceRef) -> Link:
        """Where the event that proves a signal is on the page."""
        name = ref.call_id or ref.id
        index = ref.index if ref.index is not None else self._find(ref.kind, name)
        words = f"{in_words(ref.kind)} {display_text(name[:90])}" if name else in_words(ref.kind)
        if index is not None and 0 <= index < len(self.trace.events):
            return f"{self.letter}-{index}", f"{words}, event {index}"
        is_answer = ref.kind == "final_output" and self.unrecorded_answer() is not None
        return (f"{self.letter}-answer" if is_answer else ""), words

    def _find(self, kind: str, name: str | None) -> int | None:
        """The event that a reference without an index means."""
        if kind not in _MEANT or name is None:
            return None
        event = next(_MEANT[kind](self.trace, name), None)
        return None if event is None else event.index

    def unrecorded_answer(self) -> str | None:
        """The final output, where no event shows it as it is."""
        output = self.trace.output
        if output is None:
            return None
        recorded = self.trace.events[output.index] if output.index is not None else None
        if isinstance(recorded, FinalOutput) and equal(recorded.content, output.content):
            return None
        return clipped(payload_of(output), LONG)

    def write_actions(self, page: Parts) -> None:
        """The proposed actions as rows of a table, with links to the evidence that they name."""
        for action in self.trace.actions[:100]:
            page += (
                Html(f'<tr><td>{self.name}</td><th scope="row"><code>'),
                action.action_type or "(no type)",
                Html(f'</code></th><td>{_RISKS[action.risk_level]}</td><td class="value">'),
                shortened(action.params, 300),
                _NEXT_CELL,
                "" if action.evidence else "none",
            )
            self._write_evidence(action.evidence[:20], page)
            page += _END_OF_ROW

    def _write_evidence(self, cited: Iterable[EvidenceTarget], page: Parts) -> None:
        separator = NO_HTML
        for ref in cited:
            index = self._find(ref.kind, ref.id)
            words = f"{in_words(ref.kind)} {ref.id or '(no id)'}"
            if index is None:
                page += (separator, f"{words} (not in the trace)")
            else:
                link = Html(f'{separator}<a href="#{self.letter}-{index}">')
                page += (link, words, Html("</a>"), "")
            separator = Html("; ")


def failure_words(failure: RunnerFailure) -> str:
    """Why there is no answer, in one line."""
    parts = [
        display_text(failure.kind),
        f"status {failure.status}" if failure.status is not None else "",
        f"attempt {failure.attempt}" if failure.attempt is not None else "",
        {True: "transient", False: "not transient", None: ""}[failure.transient],
        clipped(failure.message, LONG) if failure.message else "",
    ]
    return ", ".join(part for part in parts if part)


def findings(
    item: Item, policy: Mapping[str, PolicyRule], baseline: PageSide, new: PageSide
) -> Findings:
    """The findings of both sides; nothing where there are none."""
    failed, rules = item.failed_assertions, item.recommended_policy_rules
    sides = ((new, item.security.new), (baseline, item.security.baseline))
    if not (failed.new or failed.baseline or rules) and not any(
        security.signals or security.suppressed for _, security in sides
    ):
        return Findings()
    signals = [
        _signal(signal, side) for side, security in sides for signal in security.signals[:_MOST]
    ]
    html = render(
        "html",
        "findings.html",
        assertions=_assertions(item),
        policy=[_rule(rule, policy) for rule in rules],
        preventable=item.preventable_by_policy,
        signals=signals,
        suppressed=[
            (
                side.name,
                display_text(each.signal.kind),
                clipped(each.reason, LONG),
                display_text(each.expires),
            )
            for side, security in sides
            for each in security.suppressed or ()
        ],
    )
    cited = frozenset(anchor for signal in signals for anchor, _ in signal["evidence"])
    return Findings(html, cited)


def _assertions(item: Item) -> list[tuple[str, str, str, str, str]]:
    failed = item.failed_assertions
    return [
        (
            side,
            display_text(each.name),
            clipped(each.message, LONG),
            clipped(each.expected, LONG),
            clipped(each.actual, LONG),
        )
        for side, of_side in (("New", failed.new), ("Baseline", failed.baseline))
        for each in of_side[:_MOST]
    ]


def _rule(rule_id: str, policy: Mapping[str, PolicyRule]) -> tuple[str, str, str, str]:
    rule = policy.get(rule_id)
    name = display_text(rule_id)
    return (name, rule.title, rule.rationale, rule.remedy) if rule else (name, "", "", "")


def _signal(signal: Signal, side: PageSide) -> dict[str, Any]:
    details = signal.details
    provenance = ", ".join(f"{key}: {value}" for key, value in details.provenance.items())
    known = (
        ("Notes", details.notes),
        ("Tool", details.tool),
        ("Fields", ", ".join(details.fields)),
        ("Hosts and URLs", ", ".join(details.urls)),
        ("Provenance", provenance),
        ("Rule", details.rule),
        ("Action", details.action_id),
    )
    return {
        "side": side.name,
        "kind": display_text(signal.kind),
        "tone": SEVERITIES[signal.severity].tone,
        "badge": as_markup(badge_html(SEVERITIES[signal.severity])),
        "confidence": signal.confidence,
        "title": display_text(signal.title),
        "details": [(name, clipped(value, LONG)) for name, value in known if value],
        "evidence": [side.link(ref) for ref in signal.evidence_refs[:_MOST]],
    }
