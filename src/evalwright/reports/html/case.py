"""What a case page shows, and the page itself."""

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from evalwright.comparison.alignment import AlignedStep
from evalwright.contracts.report import Governance, Integrity, Item, PolicyRule, Repeats
from evalwright.reports import figures
from evalwright.reports.html.findings import PageSide, failure_words, findings
from evalwright.reports.html.markup import (
    NO_HTML,
    QUOTED,
    Html,
    Parts,
    content_policy,
    parts_html,
    quoted_html,
    relative_href,
    shortened,
    text_html,
)
from evalwright.reports.html.steps import SideWriter, StepWriter
from evalwright.reports.html.words import (
    CHANGES,
    INTEGRITIES,
    INTEGRITY_ISSUES,
    RECOMMENDATIONS,
    RESULTS,
    ROOT_CAUSES,
    UNJUDGED,
    badge_html,
    in_words,
)
from evalwright.trace.model import Trace

STYLE_SOURCES = "'self' file:"  # the pages share a style sheet that lies beside them

_PROMPT = 6_000
_MOST = 200  # rows of a table, or codes in a cell
_KNOWN_ROWS = 512
_POLICY = quoted_html(content_policy(STYLE_SOURCES))
_SECRETS_ARE_SHOWN = Html(
    '<p class="banner" role="note"><strong>Secrets are shown.</strong> Secrets and personal data '
    "in this report are not masked; share it with care.</p>\n"
)
_GATE = Html(
    '<span class="badge critical"><span aria-hidden="true">&#9632;</span> Gate recommended</span> '
)
_NO_PROMPT = Html('<p class="muted">No prompt was recorded.</p>')
_NO_STEPS = Html('<p class="muted">Neither side recorded a step.</p>\n')
_HEADS = Html('<p class="heads" aria-hidden="true"><span>Baseline</span><span>New</span></p>')
_CHANGES = {change: text_html(label.words) for change, label in CHANGES.items()}
_BADGES = {change: badge_html(label) for change, label in CHANGES.items()}


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


class CasePage(NamedTuple):
    """The parts of a page; those that a case does not have are empty."""

    report_id: Html
    neighbours: Html
    case_id: Html
    title: Html
    change: Html
    banner: Html
    badges: Html
    facts: Html
    remarks: Html
    prompt: Html
    findings: Html
    steps: Html
    answers: Html
    actions: Html
    links: Html


def render_case(view: CaseView) -> bytes:
    """The page of a case."""
    item, files = view.item, view.item.artifacts
    baseline, new = PageSide("b", "Baseline", view.baseline), PageSide("n", "New", view.new)
    found = findings(item, view.policy, baseline, new)
    events = len(view.baseline.events) + len(view.new.events)
    old_href = relative_href(files.baseline_case_response_href)
    new_href = relative_href(files.new_case_response_href)
    steps = StepWriter(
        SideWriter("b", view.baseline, events, old_href),
        SideWriter("n", view.new, events, new_href),
        found.cited,
    ).html(view.steps)
    gate = _GATE if item.security.new.requires_gate_recommendation else NO_HTML
    actions = Parts()
    baseline.write_actions(actions)
    new.write_actions(actions)
    page = CasePage(
        report_id=QUOTED[view.report_id],
        neighbours=_neighbours(view.previous, view.next),
        case_id=quoted_html(item.case_id),
        title=quoted_html(item.title or item.case_id),
        change=_CHANGES[item.told_change],
        banner=NO_HTML if view.masked else _SECRETS_ARE_SHOWN,
        badges=Html(f"{_BADGES[item.told_change]} {gate}"),
        facts=_facts(item),
        remarks=_remarks(item, baseline, new),
        prompt=_prompt(view.prompt),
        findings=found.html,
        steps=Html(f'{_HEADS}\n<ol class="steps">\n{steps}</ol>\n') if steps else _NO_STEPS,
        answers=_answers(baseline, new),
        actions=_actions(parts_html(actions, quoted=True)) if actions else NO_HTML,
        links=_links(item),
    )
    return page_html(page).encode()


def page_html(page: CasePage) -> Html:
    """The page, put together."""
    return Html(f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{page.change}: {page.title} &ndash; {page.report_id}</title>
<link rel="stylesheet" href="assets/report.css">
</head>
<body class="case">
<a class="skip" href="#main">Skip to the case</a>
<header>
<nav aria-label="Report"><a href="report.html">&larr; All cases</a> \
{page.neighbours}<span class="muted">{page.report_id}</span></nav>
{page.banner}<h1>{page.title}</h1>
<p class="lead">{page.badges}<code>{page.case_id}</code></p>
</header>
<main id="main">
<section aria-labelledby="verdict"><h2 id="verdict">Verdict</h2>
<div class="scroll" role="region" aria-label="Verdict of both sides" tabindex="0">\
<table class="facts"><thead><tr><td></td><th scope="col">Baseline</th><th scope="col">New</th></tr>\
</thead><tbody>
{page.facts}</tbody></table></div>
{page.remarks}</section>
<section aria-labelledby="prompt"><h2 id="prompt">Prompt</h2>
{page.prompt}
</section>
{page.findings}<section aria-labelledby="trace"><h2 id="trace">Traces, step by step</h2>
{page.steps}{page.answers}</section>
{page.actions}</main>
<footer><nav aria-label="Files"><ul class="files">{page.links}\
<li><a href="compare-report.json">compare-report.json</a></li></ul></nav></footer>
</body>
</html>""")


def _neighbours(previous: str, following: str) -> Html:
    links = NO_HTML
    if href := relative_href(previous):
        links = Html(f'<a rel="prev" href="{quoted_html(href)}">Previous case</a> ')
    if href := relative_href(following):
        links = Html(f'{links}<a rel="next" href="{quoted_html(href)}">Next case</a> ')
    return links


def _actions(rows: Html) -> Html:
    return Html(f"""<section aria-labelledby="actions"><h2 id="actions">Proposed actions</h2>
<div class="scroll" role="region" aria-label="Table of proposed actions" tabindex="0">\
<table class="wide"><thead><tr><th scope="col">Side</th><th scope="col">Action</th>\
<th scope="col">Risk</th><th scope="col">Parameters</th>\
<th scope="col">Evidence</th></tr></thead><tbody>
{rows}</tbody></table></div></section>
""")


_Fact: TypeAlias = Literal[
    "Result",
    "Root cause",
    "Trace integrity",
    "Governance preview",
    "Sources of nondeterminism",
    "Latency",
    "Cost",
    "Repeats",
]


def _facts(item: Item) -> Html:
    """The rows of the table that sets the two sides of a case beside each other."""
    integrity, governance = item.trace_integrity, item.governance_preview
    sources = item.nondeterminism_sources
    rows = [
        _known_row("Result", _result(item, item.baseline_pass), _result(item, item.new_pass)),
        _known_row("Root cause", item.baseline_root, item.new_root),
        _known_row("Trace integrity", integrity.baseline, integrity.new),
        _known_row("Governance preview", governance.baseline, governance.new),
        _known_row("Sources of nondeterminism", sources.baseline, sources.new),
    ]
    if latency := figures.latency(item.latency_ms):
        rows.append(_row("Latency", *map(text_html, latency)))
    if cost := figures.cost(item.cost_usd):
        rows.append(_row("Cost", *map(text_html, cost)))
    if item.repeats is not msgspec.UNSET:
        rows.append(_row("Repeats", _repeats(item.repeats.baseline), _repeats(item.repeats.new)))
    return Html("".join(rows))


def _result(item: Item, passed: bool) -> bool | None:  # noqa: FBT001 - one side of the item
    """Whether a side passed; what passes for want of anything expected did not."""
    return None if passed and item.expected is False else passed


@lru_cache(_KNOWN_ROWS)
def _known_row(name: _Fact, old: Hashable, new: Hashable) -> Html:
    """A row of codes, which are few: nearly every case has one that was written before."""
    return _row(name, _cell(old), _cell(new))


def _row(name: _Fact, old: Html, new: Html, change: Html = NO_HTML) -> Html:
    remark = Html(f' <span class="muted">({change})</span>' if change else "")
    return Html(f'<tr><th scope="row">{name}</th><td>{old}</td><td>{new}{remark}</td></tr>\n')


def _cell(fact: object) -> Html:
    """What is said of one side: a result, a root cause, sources of chance, or a judgement."""
    if fact is None:
        return Html(f"{badge_html(UNJUDGED)} ")
    if isinstance(fact, bool):
        return Html(f"{badge_html(RESULTS[fact])} ")
    if isinstance(fact, str):
        return _code(fact, ROOT_CAUSES)
    if isinstance(fact, tuple):
        return quoted_html(", ".join(map(in_words, fact)) or "none known")
    if isinstance(fact, Integrity):
        issues = Html("".join([_code(each, INTEGRITY_ISSUES) for each in fact.issues[:_MOST]]))
        return Html(f"{badge_html(INTEGRITIES[fact.status])} {issues}")
    if isinstance(fact, Governance):
        badge = badge_html(RECOMMENDATIONS[fact.recommendation])
        return Html(f"{badge} {quoted_html(fact.reason)}")
    assert fact is msgspec.UNSET  # a case that passed has no root cause
    return Html("none")


def _code(code: str, meanings: dict[str, str]) -> Html:
    meaning = quoted_html(meanings.get(code, ""))
    return Html(f'<div class="code"><code>{quoted_html(code)}</code> {meaning}</div>')


def _repeats(found: Repeats) -> Html:
    flaky = Html(", flaky" if found.flaky else "")
    return Html(f"{found.passed} of {found.runs} passed{flaky}")


def _remarks(item: Item, baseline: PageSide, new: PageSide) -> Html:
    """Where the sides diverge, why an answer is missing, and what is wrong with the input."""
    files = item.artifacts
    old_files = (files.baseline_failure_body_href, files.baseline_failure_meta_href)
    new_files = (files.new_failure_body_href, files.new_failure_meta_href)
    faults = NO_HTML
    if item.faults:
        entries = Html("".join([Html(f"<li>{quoted_html(each)}</li>") for each in item.faults]))
        title = Html("<strong>Problems with the input</strong>")
        faults = Html(f'<div class="note warn">{title}<ul>{entries}</ul></div>\n')
    failures = Html(_failure(baseline, *old_files) + _failure(new, *new_files))
    return Html(f"{_divergence(item)}{failures}{faults}")


def _divergence(item: Item) -> Html:
    found = item.first_divergence
    if found is msgspec.UNSET:
        return NO_HTML
    anchor = Html(
        f"b-{found.baseline_index}" if found.new_index is None else f"n-{found.new_index}"
    )
    old = QUOTED[shortened(found.baseline, 200) if found.baseline else "nothing"]
    new = QUOTED[shortened(found.new, 200) if found.new else "nothing"]
    both = Html(f"<code>{new}</code>")
    if old != new:
        both = Html(f"baseline: <code>{old}</code>, new: {both}")
    step = Html(f'<a href="#{anchor}">step {found.step + 1}</a>')
    return Html(f"<p>First divergence: {step}, {QUOTED[found.reason]} ({both}).</p>\n")


def _failure(side: PageSide, body: str | None, meta: str | None) -> Html:
    """Why a side has no answer, where it has none."""
    if side.trace.failure is None:
        return NO_HTML
    words = quoted_html(failure_words(side.trace.failure))
    links = NO_HTML
    if href := relative_href(body):
        links = Html(f' <a href="{quoted_html(href)}">Full body</a>')
    if href := relative_href(meta):
        links = Html(f'{links} <a href="{quoted_html(href)}">Metadata</a>')
    what = Html(f"<strong>{side.name}: the call to the agent failed.</strong> {words}{links}")
    return Html(f'<p class="note bad">{what}</p>\n')


def _prompt(prompt: str) -> Html:
    if not prompt:
        return _NO_PROMPT
    html = Html(f'<pre class="prompt">{quoted_html(prompt[:_PROMPT])}</pre>')
    if len(prompt) <= _PROMPT:
        return html
    size = Html(f"shortened, {_PROMPT:,} of {len(prompt):,} characters")
    full = Html('full: <a href="cases.json">cases.json</a>')
    return Html(f'{html}<p class="cut">[{size}; {full}]</p>')


def _answers(*sides: PageSide) -> Html:
    """Final outputs that no event shows."""
    answers = []
    for side in sides:
        if text := side.unrecorded_answer():
            title = Html(f"<h3>{side.name}: final output, not recorded as an event</h3>")
            body = Html(f"{title}<pre>{quoted_html(text)}</pre>")
            answers.append(Html(f'<div class="answer" id="{side.letter}-answer">{body}</div>\n'))
    return Html("".join(answers))


_LINK = Html('<li><a href="')
_FILES = {
    "baseline_case_response_href": Html('">Baseline response</a></li>'),
    "new_case_response_href": Html('">New response</a></li>'),
    "baseline_run_meta_href": Html('">Baseline run</a></li>'),
    "new_run_meta_href": Html('">New run</a></li>'),
    "baseline_failure_body_href": Html('">Baseline failure body</a></li>'),
    "baseline_failure_meta_href": Html('">Baseline failure metadata</a></li>'),
    "new_failure_body_href": Html('">New failure body</a></li>'),
    "new_failure_meta_href": Html('">New failure metadata</a></li>'),
}


def _links(item: Item) -> Html:
    """The files of a case, as far as they are in the report folder."""
    files, parts = item.artifacts, Parts()
    hrefs = [(getattr(files, field), name) for field, name in _FILES.items()]
    if item.repeats is not msgspec.UNSET:
        repeats = item.repeats
        hrefs += [
            (href, Html(f'">{side} run {number}</a></li>'))
            for side, found in ((Html("Baseline"), repeats.baseline), (Html("New"), repeats.new))
            for number, href in enumerate(found.response_hrefs[:_MOST], 1)
        ]
    for href, name in hrefs:
        if link := relative_href(href):
            parts += (_LINK, link, name, "")
    return parts_html(parts, quoted=True)
