"""What a case page shows: a case as values for its template.

Hidden characters are written out in the finished page, since no markup of ours has any. The steps
of the traces are written by code: they are nearly all of a page, and a template would take as
long again as all the rest of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from evalwright.comparison.alignment import AlignedStep
from evalwright.contracts.report import (
    EvidenceRef,
    Item,
    PolicyRule,
    Signal,
)
from evalwright.reports.comparison.case_steps import SideLetter, SideWriter, payload_of, steps_html
from evalwright.reports.formats import figures
from evalwright.reports.formats.html import (
    as_markup,
    content_policy,
    display_text,
    equal,
    relative_href,
    render,
    shortened,
)
from evalwright.reports.formats.words import (
    CHANGES,
    INTEGRITIES,
    INTEGRITY_ISSUES,
    RECOMMENDATIONS,
    RESULTS,
    RISKS,
    ROOT_CAUSES,
    SEVERITIES,
    UNJUDGED,
    badge_html,
    in_words,
)
from evalwright.trace.model import Event, FinalOutput, Trace

STYLE_SOURCES = "'self' file:"  # the pages share a style sheet that lies beside them

_PROMPT = 6_000
_LONG = 1_500
_MOST = 200  # rows of a table, or codes in a cell
_POLICY = content_policy(STYLE_SOURCES)
_CHANGES = {code: as_markup(badge_html(label)) for code, label in CHANGES.items()}
_SEVERITIES = {code: as_markup(badge_html(label)) for code, label in SEVERITIES.items()}
_RESULTS: dict[bool | None, object] = {
    True: as_markup(badge_html(RESULTS[True])),
    False: as_markup(badge_html(RESULTS[False])),
    None: as_markup(badge_html(UNJUDGED)),
}
_INTEGRITIES = {code: as_markup(badge_html(label)) for code, label in INTEGRITIES.items()}
_RECOMMENDATIONS = {code: as_markup(badge_html(label)) for code, label in RECOMMENDATIONS.items()}
_FILES = {
    "baseline_case_response_href": "Baseline response",
    "new_case_response_href": "New response",
    "baseline_run_meta_href": "Baseline run",
    "new_run_meta_href": "New run",
    "baseline_failure_body_href": "Baseline failure body",
    "baseline_failure_meta_href": "Baseline failure metadata",
    "new_failure_body_href": "New failure body",
    "new_failure_meta_href": "New failure metadata",
}

Link: TypeAlias = tuple[str, str]  # an anchor of the page, or nothing, and the words
# What is said of one side: a badge, words, codes with their meanings, and how it changed.
_Cell: TypeAlias = tuple[object, str, Sequence[tuple[str, str]], str]


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
    previous: str = ""  # links to the pages beside it, in the order of the cases
    next: str = ""


def render_case(view: CaseView) -> bytes:
    """The page of a case."""
    item, files, prompt = view.item, view.item.artifacts, view.prompt
    baseline, new = _Side("b", "Baseline", view.baseline), _Side("n", "New", view.new)
    sides = ((new, item.security.new), (baseline, item.security.baseline))
    signals = [
        _signal(signal, side) for side, security in sides for signal in security.signals[:_MOST]
    ]
    events = len(view.baseline.events) + len(view.new.events)
    old_href = relative_href(files.baseline_case_response_href)
    new_href = relative_href(files.new_case_response_href)
    old_steps = SideWriter("b", view.baseline, events, old_href)
    new_steps = SideWriter("n", view.new, events, new_href)
    cited = frozenset(anchor for signal in signals for anchor, _ in signal["evidence"])
    hrefs = {
        "Baseline": (files.baseline_failure_body_href, files.baseline_failure_meta_href),
        "New": (files.new_failure_body_href, files.new_failure_meta_href),
    }
    failures = []  # why there is no answer, in one line each
    for side in (baseline, new):
        if (failure := side.trace.failure) is not None:
            parts = [
                failure.kind,
                f"status {failure.status}" if failure.status is not None else "",
                f"attempt {failure.attempt}" if failure.attempt is not None else "",
                {True: "transient", False: "not transient", None: ""}[failure.transient],
                shortened(failure.message, _LONG) if failure.message else "",
            ]
            why = ", ".join(part for part in parts if part)
            failures.append((side.name, why, *map(relative_href, hrefs[side.name])))
    rules = {rule: view.policy.get(rule) for rule in item.recommended_policy_rules}
    policy = [
        (name, rule.title, rule.rationale, rule.remedy) if rule else (name, "", "", "")
        for name, rule in rules.items()
    ]
    # The files of a case, as far as they are in the report folder
    linked = [(getattr(files, field), name) for field, name in _FILES.items()]
    if item.repeats is not msgspec.UNSET:
        for name, repeats in (("Baseline", item.repeats.baseline), ("New", item.repeats.new)):
            responses = enumerate(repeats.response_hrefs[:_MOST], 1)
            linked += [(href, f"{name} run {number}") for number, href in responses]
    page = render(
        "comparison",
        "case.html",
        csp=_POLICY,
        report_id=view.report_id,
        previous=relative_href(view.previous),
        next=relative_href(view.next),
        masked=view.masked,
        case_id=item.case_id,
        title=item.title or item.case_id,
        change=CHANGES[item.told_change].words,
        badge=_CHANGES[item.told_change],
        gated=item.security.new.requires_gate_recommendation,
        facts=list(_facts(item)),
        divergence=_divergence(item),
        failures=failures,
        faults=item.faults or (),
        prompt=prompt[:_PROMPT],
        prompt_cut=f"{_PROMPT:,} of {len(prompt):,} characters" if len(prompt) > _PROMPT else "",
        assertions=[
            (side, each.name, *_texts(each.message, each.expected, each.actual))
            for side, failed in (
                ("New", item.failed_assertions.new),
                ("Baseline", item.failed_assertions.baseline),
            )
            for each in failed[:_MOST]
        ],
        policy=policy,
        preventable=item.preventable_by_policy,
        signals=signals,
        suppressed=[
            (side.name, each.signal.kind, shortened(each.reason, _LONG), each.expires)
            for side, security in sides
            for each in security.suppressed or ()
        ],
        steps=as_markup(steps_html(view.steps, old_steps, new_steps, cited)),
        answers=[
            (side.letter, side.name, answer)
            for side in (baseline, new)
            if (answer := side.unrecorded_answer())
        ],
        actions=[*baseline.actions(), *new.actions()],
        links=[(link, name) for href, name in linked if (link := relative_href(href))],
    )
    return display_text(page).encode()


class _Side(NamedTuple):
    """One side of a case: its name, its trace, and the letter that its anchors begin with."""

    letter: SideLetter
    name: Literal["Baseline", "New"]
    trace: Trace

    def link(self, ref: EvidenceRef) -> Link:
        """Where the event that proves a signal is on the page."""
        name = ref.call_id or ref.id
        index = ref.index if ref.index is not None else self._find(ref.kind, name)
        words = f"{in_words(ref.kind)} {name[:90]}" if name else in_words(ref.kind)
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
        return shortened(payload_of(output), _LONG)

    def actions(self) -> Iterator[tuple[str, str, object, str, str, list[Link]]]:
        """The proposed actions, with links to the evidence that they name."""
        for action in self.trace.actions[:100]:
            evidence = []
            for ref in action.evidence[:20]:
                index = self._find(ref.kind, ref.id)
                anchor = "" if index is None else f"{self.letter}-{index}"
                evidence.append((anchor, f"{in_words(ref.kind)} {ref.id or '(no id)'}"))
            risk, params = RISKS[action.risk_level], shortened(action.params, 300)
            name = action.action_type or "(no type)"
            yield self.name, name, as_markup(risk.sign), risk.words, params, evidence


# The events that a reference of a kind and with a name may mean, in their order.
_MEANT: dict[str, Callable[[Trace, str], Iterator[Event]]] = {
    "tool_call": lambda trace, name: (each for each in trace.calls if each.call_id == name),
    "tool_result": lambda trace, name: (each for each in trace.results if each.call_id == name),
    "retrieval_doc": lambda trace, name: (
        each for each in trace.retrievals if name in each.doc_ids
    ),
}


def _facts(item: Item) -> Iterator[tuple[str, list[_Cell]]]:
    """The rows of the table that sets the two sides of a case beside each other."""
    passed = (item.baseline_pass, item.new_pass)
    # What passes for want of anything expected did not.
    results = [None if each and item.expected is False else each for each in passed]
    yield "Result", [(_RESULTS[each], "", (), "") for each in results]
    roots = (item.baseline_root, item.new_root)
    yield (
        "Root cause",
        [
            ("", "", [(each, ROOT_CAUSES.get(each, ""))], "")
            if isinstance(each, str)
            else ("", "none", (), "")  # a case that passed has no root cause
            for each in roots
        ],
    )
    integrity = (item.trace_integrity.baseline, item.trace_integrity.new)
    yield (
        "Trace integrity",
        [
            (
                _INTEGRITIES[each.status],
                "",
                [(code, INTEGRITY_ISSUES.get(code, "")) for code in each.issues[:_MOST]],
                "",
            )
            for each in integrity
        ],
    )
    governance = (item.governance_preview.baseline, item.governance_preview.new)
    yield (
        "Governance preview",
        [(_RECOMMENDATIONS[each.recommendation], each.reason, (), "") for each in governance],
    )
    sources = (item.nondeterminism_sources.baseline, item.nondeterminism_sources.new)
    yield (
        "Sources of nondeterminism",
        [("", ", ".join(map(in_words, each)) or "none known", (), "") for each in sources],
    )
    for name, change in (
        ("Latency", figures.latency(item.latency_ms)),
        ("Cost", figures.cost(item.cost_usd)),
    ):
        if change:
            yield name, [("", change[0], (), ""), ("", change[1], (), change[2])]
    if item.repeats is not msgspec.UNSET:
        repeats = (item.repeats.baseline, item.repeats.new)
        told = [f"{each.passed} of {each.runs} passed" for each in repeats]
        flaky = [", flaky" if each.flaky else "" for each in repeats]
        yield "Repeats", [("", a + b, (), "") for a, b in zip(told, flaky, strict=True)]


def _divergence(item: Item) -> dict[str, object]:
    """Where the sides part, if they do."""
    found = item.first_divergence
    if found is msgspec.UNSET:
        return {}
    return {
        "anchor": f"b-{found.baseline_index}"
        if found.new_index is None
        else f"n-{found.new_index}",
        "step": found.step + 1,
        "reason": found.reason,
        "old": shortened(found.baseline, 200) if found.baseline else "nothing",
        "new": shortened(found.new, 200) if found.new else "nothing",
    }


def _texts(*values: Any) -> list[str]:
    return [shortened(each, _LONG) for each in values]


def _signal(signal: Signal, side: _Side) -> dict[str, Any]:
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
        "kind": signal.kind,
        "tone": SEVERITIES[signal.severity].tone,
        "badge": _SEVERITIES[signal.severity],
        "confidence": signal.confidence,
        "title": signal.title,
        "details": [(name, shortened(value, _LONG)) for name, value in known if value],
        "evidence": [side.link(ref) for ref in signal.evidence_refs[:_MOST]],
    }
