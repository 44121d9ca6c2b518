"""What a case page shows, and the page itself."""

from collections.abc import Mapping, Sequence, Set

import msgspec

from evalwright.comparison.alignment import AlignedStep
from evalwright.contracts.report import Artifacts, Item, PolicyRule
from evalwright.reports.html.display_text import relative_href, shortened
from evalwright.reports.html.evidence import Side, failure_words
from evalwright.reports.html.facts import facts_html
from evalwright.reports.html.findings import findings
from evalwright.reports.html.frame import GATE, SECRETS_ARE_SHOWN, CasePage, page_html
from evalwright.reports.html.markup import QUOTED, Parts, badge_html, quoted_html, quoted_parts_html
from evalwright.reports.html.steps import SideWriter, StepWriter
from evalwright.reports.html.words import CHANGES
from evalwright.trace.model import Trace

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


def case_html(view: CaseView) -> str:
    """The page of a case."""
    item = view.item
    baseline, new = Side("b", view.baseline), Side("n", view.new)
    found = findings(item, view.policy, baseline, new)
    return page_html(
        CasePage(
            report_id=QUOTED[view.report_id],
            case_id=quoted_html(item.case_id),
            title=quoted_html(item.title or item.case_id),
            change=CHANGES[item.change].words,
            banner="" if view.masked else SECRETS_ARE_SHOWN,
            badges=_badges(item),
            facts=facts_html(item),
            verdict=_divergence(item) + _failures(item.artifacts, baseline, new) + _faults(item),
            prompt=_prompt(view.prompt),
            findings=found.html,
            steps=_steps(view, found.cited),
            answers=_answers(baseline, new),
            actions=quoted_parts_html(baseline.actions() + new.actions()),
            links=_links(item),
        )
    )


def _badges(item: Item) -> str:
    gate = GATE if item.security.new.requires_gate_recommendation else ""
    return f"{_BADGES[item.change]} {gate}"


_BADGES = {change: badge_html(label) for change, label in CHANGES.items()}


def _steps(view: CaseView, cited: Set[str]) -> str:
    events = len(view.baseline.events) + len(view.new.events)
    files = view.item.artifacts
    old_href = relative_href(files.baseline_case_response_href)
    new_href = relative_href(files.new_case_response_href)
    old = SideWriter("b", view.baseline, events, old_href)
    new = SideWriter("n", view.new, events, new_href)
    return StepWriter(old, new, cited).html(view.steps)


def _prompt(prompt: str) -> str:
    if not prompt:
        return '<p class="muted">No prompt was recorded.</p>'
    html = f'<pre class="prompt">{quoted_html(prompt[:_PROMPT])}</pre>'
    if len(prompt) <= _PROMPT:
        return html
    size = f"shortened, {_PROMPT:,} of {len(prompt):,} characters"
    return f'{html}<p class="cut">[{size}; full: <a href="cases.json">cases.json</a>]</p>'


def _divergence(item: Item) -> str:
    found = item.first_divergence
    if found is msgspec.UNSET:
        return ""
    anchor = f"n-{found.new_index}" if found.new_index is not None else f"b-{found.baseline_index}"
    old = QUOTED[shortened(found.baseline, 200) if found.baseline else "nothing"]
    new = QUOTED[shortened(found.new, 200) if found.new else "nothing"]
    both = f"<code>{new}</code>"
    if old != new:
        both = f"baseline: <code>{old}</code>, new: {both}"
    step = f'<a href="#{anchor}">step {found.step + 1}</a>'
    return f"<p>First divergence: {step}, {QUOTED[found.reason]} ({both}).</p>\n"


def _failures(files: Artifacts, baseline: Side, new: Side) -> str:
    """Why there is no answer, where there is none."""
    return _failure(
        baseline, files.baseline_failure_body_href, files.baseline_failure_meta_href
    ) + _failure(new, files.new_failure_body_href, files.new_failure_meta_href)


def _failure(side: Side, body: str | None, meta: str | None) -> str:
    if side.trace.failure is None:
        return ""
    words = quoted_html(failure_words(side.trace.failure))
    known = (("Full body", relative_href(body)), ("Its metadata", relative_href(meta)))
    links = [f' <a href="{quoted_html(href)}">{name}</a>' for name, href in known if href]
    what = f"<strong>{side.name}: the call to the agent failed.</strong> {words}{''.join(links)}"
    return f'<p class="note bad">{what}</p>\n'


def _faults(item: Item) -> str:
    if not item.faults:
        return ""
    faults = "".join([f"<li>{quoted_html(fault)}</li>" for fault in item.faults])
    title = "<strong>Faults of the input</strong>"
    return f'<div class="note warn">{title}<ul>{faults}</ul></div>\n'


def _answers(*sides: Side) -> str:
    return "".join([_answer(side, text) for side in sides if (text := side.unrecorded_answer())])


def _answer(side: Side, text: str) -> str:
    title = f"<h3>{side.name}: final output, not recorded as an event</h3>"
    body = f"<pre>{quoted_html(text)}</pre>"
    return f'<div class="answer" id="{side.letter}-answer">{title}{body}</div>\n'


def _links(item: Item) -> str:
    """The files of a case, as far as they are in the report folder."""
    parts: Parts = []
    for name, href in _known_files(item.artifacts) + _repeats(item):
        if link := relative_href(href):
            parts += ('<li><a href="', link, f'">{name}</a></li>', "")
    return quoted_parts_html(parts)


def _known_files(files: Artifacts) -> list[tuple[str, str | None]]:
    return [
        ("Baseline response", files.baseline_case_response_href),
        ("New response", files.new_case_response_href),
        ("Baseline run", files.baseline_run_meta_href),
        ("New run", files.new_run_meta_href),
        ("Baseline failure body", files.baseline_failure_body_href),
        ("Baseline failure metadata", files.baseline_failure_meta_href),
        ("New failure body", files.new_failure_body_href),
        ("New failure metadata", files.new_failure_meta_href),
    ]


def _repeats(item: Item) -> list[tuple[str, str | None]]:
    """The other runs of a case that was run more than once."""
    if item.repeats is msgspec.UNSET:
        return []
    sides = (("Baseline", item.repeats.baseline), ("New", item.repeats.new))
    return [
        (f"{side} run {number}", href)
        for side, found in sides
        for number, href in enumerate(found.response_hrefs[:_MOST], 1)
    ]
