"""What a case page shows: a case as values for its template."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from evalwright.comparison.alignment import AlignedStep
from evalwright.contracts.report import (
    GRAVE,
    EvidenceRef,
    Governance,
    Integrity,
    Item,
    PolicyRule,
    Signal,
)
from evalwright.reports.comparison.case_steps import SideLetter, SideSteps, paired_steps, payload_of
from evalwright.reports.comparison.overview import OverviewRow, overview_row, reason_of
from evalwright.reports.design.files import sprite
from evalwright.reports.design.markup import (
    STYLE_BESIDE,
    as_markup,
    content_policy,
    mark,
    render,
)
from evalwright.reports.formats import figures
from evalwright.reports.formats.text import display_text, equal, relative_href, shortened, shown
from evalwright.reports.formats.word_diff import marked_versions
from evalwright.reports.formats.words import (
    CHANGES,
    INTEGRITIES,
    INTEGRITY_ISSUES,
    RECOMMENDATIONS,
    RESULTS,
    RISKS,
    ROOT_CAUSES,
    SEVERITIES,
    Label,
    in_words,
)
from evalwright.trace.model import Event, FinalOutput, Trace

_PROMPT = 6_000
_LONG = 1_500
_PREVIEW = 600  # of an answer on the first page
_MOST = 200  # rows of a table, or codes in a cell
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
# What is known of one side: name, side, a badge, words, and codes with their meanings.
_Known: TypeAlias = tuple[str, str, Label | None, str, Sequence[tuple[str, str]]]


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


@cache
def _frame() -> dict[str, Any]:
    """What every page has, and no case changes."""
    icons = ("i-right", "i-tool", "i-flag")
    shapes = ("s-pass", "s-fail", "s-error", "s-open", "v-stop", "v-go")
    return {
        "csp": content_policy(STYLE_BESIDE),
        "mark": as_markup(mark()),
        "sprite": as_markup(sprite(*icons, *shapes)),
    }


def render_case(view: CaseView) -> bytes:
    """The page of a case."""
    item, files, prompt = view.item, view.item.artifacts, view.prompt
    change, gated = CHANGES[item.told_change], item.security.new.requires_gate_recommendation
    baseline, new = _Side("b", "Baseline", view.baseline), _Side("n", "New", view.new)
    sides = ((new, item.security.new), (baseline, item.security.baseline))
    signals = [
        _signal(signal, side) for side, security in sides for signal in security.signals[:_MOST]
    ]
    events = len(view.baseline.events) + len(view.new.events)
    old_href = relative_href(files.baseline_case_response_href)
    new_href = relative_href(files.new_case_response_href)
    cited = frozenset(anchor for signal in signals for anchor, _ in signal["evidence"])
    divergence = _divergence(item)
    steps = paired_steps(
        view.steps,
        SideSteps("b", events, old_href),
        SideSteps("n", events, new_href),
        cited,
        divergence.get("step", 0),
    )
    rules = {rule: view.policy.get(rule) for rule in item.recommended_policy_rules}
    # The files of a case, as far as they are in the report folder
    linked = [(getattr(files, field), name) for field, name in _FILES.items()]
    if item.repeats is not msgspec.UNSET:
        for name, repeats in (("Baseline", item.repeats.baseline), ("New", item.repeats.new)):
            responses = enumerate(repeats.response_hrefs[:_MOST], 1)
            linked += [(href, f"{name} run {number}") for number, href in responses]
    before, after = baseline.answer(), new.answer()
    page = render(
        "comparison",
        "case.html",
        **_frame(),
        report_id=view.report_id,
        previous=relative_href(view.previous),
        next=relative_href(view.next),
        masked=view.masked,
        case_id=item.case_id,
        title=item.title or item.case_id,
        change=change,
        verdict="fail" if gated else "none" if change.kind == "open" else change.kind,
        why=reason_of(item),
        facts=list(_facts(item)),
        gated=gated,
        root=in_words(item.new_root) if isinstance(item.new_root, str) else "",
        divergence=divergence,
        diverges_at=divergence.get("step", 0),
        failures=[
            (
                side.name,
                side.failure_words(),
                relative_href(getattr(files, f"{side.name.lower()}_failure_body_href")),
                relative_href(getattr(files, f"{side.name.lower()}_failure_meta_href")),
            )
            for side in (baseline, new)
            if side.trace.failure is not None
        ],
        faults=item.faults or (),
        prompt=prompt[:_PROMPT],
        prompt_cut=f"{_PROMPT:,} of {len(prompt):,} characters" if len(prompt) > _PROMPT else "",
        answers=None if before == after else marked_versions(before, after, _LONG),
        answer=shortened(after, _LONG),
        failed=[
            (
                side,
                each.name,
                shortened(each.message, _LONG),
                *marked_versions(shown(each.expected), shown(each.actual), _LONG),
            )
            for side, failed in (
                ("New", item.failed_assertions.new),
                ("Baseline", item.failed_assertions.baseline),
            )
            for each in failed[:_MOST]
        ],
        policy=[
            (name, rule.title, rule.rationale, rule.remedy) if rule else (name, "", "", "")
            for name, rule in rules.items()
        ],
        preventable=item.preventable_by_policy,
        signals=signals,
        suppressed=[
            (side.name, each.signal.kind, shortened(each.reason, _LONG), each.expires)
            for side, security in sides
            for each in security.suppressed or ()
        ],
        steps=steps,
        unrecorded=[
            (side.letter, side.name, answer)
            for side in (baseline, new)
            if (answer := side.unrecorded_answer())
        ],
        actions=[*baseline.actions(), *new.actions()],
        known=list(_known(item)),
        links=[(link, name) for href, name in linked if (link := relative_href(href))],
    )
    # Hidden characters are written out at last, since no markup of ours has any.
    return display_text(page).encode()


def row_of(view: CaseView) -> OverviewRow:
    """The row of a case on the first page; what changed shows both answers there."""
    row = overview_row(view.item)
    if row.change not in ("regression", "improvement"):
        return row
    sides = _Side("b", "Baseline", view.baseline), _Side("n", "New", view.new)
    before, after = (shortened(side.answer(), _PREVIEW) for side in sides)
    divergence = divergence_words(view.item)
    return msgspec.structs.replace(row, divergence=divergence, before=before, after=after)


class _Side(NamedTuple):
    """One side of a case: its name, its trace, and the letter that its anchors begin with."""

    letter: SideLetter
    name: Literal["Baseline", "New"]
    trace: Trace

    def answer(self) -> str:
        """What it answered, or why it did not."""
        if self.trace.output is not None:
            return shown(payload_of(self.trace.output))
        return "no answer" if self.trace.failure is None else f"no answer: {self.failure_words()}"

    def failure_words(self) -> str:
        """Why there is no answer, in one line."""
        failure = self.trace.failure
        if failure is None:
            return ""
        parts = [
            failure.kind,
            f"status {failure.status}" if failure.status is not None else "",
            f"attempt {failure.attempt}" if failure.attempt is not None else "",
            {True: "transient", False: "not transient", None: ""}[failure.transient],
            shortened(failure.message, _LONG) if failure.message else "",
        ]
        return ", ".join(part for part in parts if part)

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

    def actions(self) -> Iterator[tuple[str, str, Label, str, list[Link]]]:
        """The proposed actions, with links to the evidence that they name."""
        for action in self.trace.actions[:100]:
            evidence = []
            for ref in action.evidence[:20]:
                index = self._find(ref.kind, ref.id)
                words = f"{in_words(ref.kind)} {ref.id or '(no id)'}"
                if index is None:
                    evidence.append(("", f"{words} (not in the trace)"))
                else:
                    evidence.append((f"{self.letter}-{index}", words))
            name = action.action_type or "(no type)"
            yield self.name, name, RISKS[action.risk_level], shortened(action.params, 300), evidence


# The events that a reference of a kind and with a name may mean, in their order.
_MEANT: dict[str, Callable[[Trace, str], Iterator[Event]]] = {
    "tool_call": lambda trace, name: (each for each in trace.calls if each.call_id == name),
    "tool_result": lambda trace, name: (each for each in trace.results if each.call_id == name),
    "retrieval_doc": lambda trace, name: (
        each for each in trace.retrievals if name in each.doc_ids
    ),
}


def _facts(item: Item) -> Iterator[tuple[str, str, str]]:
    """What stands below the verdict: results, times, prices, repeats; before, now, the change."""
    # What passes for want of anything expected did not.
    old, new = (
        RESULTS[None if each and item.expected is False else each].words
        for each in (item.baseline_pass, item.new_pass)
    )
    yield old, new, ""
    for change in (figures.latency(item.latency_ms), figures.cost(item.cost_usd)):
        if change:
            yield change
    if item.repeats is not msgspec.UNSET:
        was, now = (
            f"{each.passed} of {each.runs} passed{', flaky' if each.flaky else ''}"
            for each in (item.repeats.baseline, item.repeats.new)
        )
        yield was, now, ""


def _known(item: Item) -> Iterator[_Known]:
    """Root causes, and what speaks against trusting a side: of each side what is worth telling."""
    for side in ("baseline", "new"):
        root = item.baseline_root if side == "baseline" else item.new_root
        if isinstance(root, str):
            yield "Root cause", side, None, "", [(root, ROOT_CAUSES.get(root, ""))]
        integrity: Integrity = getattr(item.trace_integrity, side)
        if integrity.status != "ok" or integrity.issues:
            codes = [(code, INTEGRITY_ISSUES.get(code, "")) for code in integrity.issues[:_MOST]]
            yield "Trace integrity", side, INTEGRITIES[integrity.status], "", codes
        governance: Governance = getattr(item.governance_preview, side)
        if governance.recommendation != "none":
            label = RECOMMENDATIONS[governance.recommendation]
            yield "Governance preview", side, label, governance.reason, ()
        sources: Sequence[str] = getattr(item.nondeterminism_sources, side)
        if sources:
            told = ", ".join(map(in_words, sources))
            yield "Sources of nondeterminism", side, None, told, ()


def _divergence(item: Item) -> dict[str, Any]:
    """Where the sides part, if they do."""
    found = item.first_divergence
    if found is msgspec.UNSET:
        return {}
    is_old = found.new_index is None
    return {
        "anchor": f"b-{found.baseline_index}" if is_old else f"n-{found.new_index}",
        "step": found.step + 1,
        "reason": divergence_words(item),
    }


def divergence_words(item: Item) -> str:
    """What one side does in place of what the other does; nothing where they never part."""
    found = item.first_divergence
    if found is msgspec.UNSET:
        return ""
    old, new = (shortened(each, 200) if each else "" for each in (found.baseline, found.new))
    told = f"{new} instead of {old}" if old and new and old != new else new or old
    said = f"{found.reason}: {told}" if told else found.reason
    return said if found.turn is None else f"turn {found.turn}: {said}"


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
        "kind": in_words(signal.kind),
        "severity": signal.severity,
        "label": SEVERITIES[signal.severity],
        "confidence": signal.confidence,
        "title": signal.title,
        "is_open": signal.severity in GRAVE and side.letter == "n",
        "details": [(name, shortened(value, _LONG)) for name, value in known if value],
        "evidence": [side.link(ref) for ref in signal.evidence_refs[:_MOST]],
    }
