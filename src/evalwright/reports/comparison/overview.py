"""The first page of a report, and the parts of its table."""

from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import msgspec

from evalwright.comparison.summary import blocks_shipping
from evalwright.contracts import amounts
from evalwright.contracts.report import (
    ROOT_CAUSES,
    SEVERITIES,
    Item,
    PolicyRule,
    QualityFlags,
    Summary,
)
from evalwright.reports.comparison.case_page import STYLE_SOURCES
from evalwright.reports.formats import figures, words
from evalwright.reports.formats.html import (
    STYLE_SHEET,
    as_markup,
    clipped,
    content_policy,
    display_text,
    own_file,
    relative_href,
    render,
    source_hash,
)

ASSETS: dict[str, bytes] = {"report.css": STYLE_SHEET.encode()}

_SCRIPT = own_file("comparison", "templates/overview.js")
# What the page's own script loads are the parts of its table.
_POLICY = content_policy(STYLE_SOURCES, f"{source_hash(_SCRIPT)} 'strict-dynamic'")
_LONG = 400
_REASON = 200
_MOST = 100  # entries of a list
_MOST_KINDS = 12  # of signals in one row
_BESIDES = ("baseline", "changed")  # parts of a snapshot that do not tell of the new run
_CHART_LABELS = 42  # percent of the width
_CHART_BARS = 46
_CHART_ROW = 34  # pixels

_TONES = {True: "bad", False: "good", None: "unknown"}
_Options: TypeAlias = list[tuple[str, str]]
# The selections above the table: name, label, and options with their words.
_FILTERS: list[tuple[str, str, _Options]] = [
    ("change", "Change", [(code, label.words) for code, label in words.CHANGES.items()]),
    ("root", "Root cause", [(code, words.in_words(code)) for code in ROOT_CAUSES]),
    ("kind", "Signal", []),
    (
        "severity",
        "Severity",
        [*((each, f"{each} or worse") for each in SEVERITIES[:-1]), (SEVERITIES[-1],) * 2],
    ),
    ("integrity", "Trace", [(code, label.words) for code, label in words.INTEGRITIES.items()]),
    ("gated", "Gate", [("yes", "gated"), ("no", "not gated")]),
]


class OverviewRow(msgspec.Struct, frozen=True, array_like=True):
    """One case in the table; `signals` are the kinds of the new side with their worst severity."""

    href: str
    case_id: str
    title: str
    change: str
    baseline_pass: bool
    new_pass: bool
    new_root: str
    gated: bool
    integrity_new: str
    signals: list[tuple[str, str]]
    recommendation: str
    reason: str = ""


class OverviewView(msgspec.Struct, frozen=True):
    """The whole report, with all that its first page needs.

    `rows` are the first of the table; the parts at `chunk_hrefs` hold all rows, these included.
    """

    report_id: str
    summary: Summary
    quality: QualityFlags
    env_snapshot: Mapping[str, Any]
    rows: Sequence[OverviewRow]
    total_rows: int
    chunk_hrefs: Sequence[str]
    policy: Mapping[str, PolicyRule]
    notes: Sequence[str]
    masked: bool
    is_same_run: bool = False  # on both sides
    subject: str = ""  # suite, agent and date


def overview_row(item: Item) -> OverviewRow:
    """The row of one case."""
    new = item.security.new
    worst: dict[str, str] = {}
    for signal in new.signals:
        known = worst.get(signal.kind)
        if known is None or _rank(signal.severity) > _rank(known):
            worst[signal.kind] = signal.severity
    return OverviewRow(
        href=item.artifacts.replay_diff_href,
        case_id=item.case_id,
        title=item.title,
        change=item.told_change,
        baseline_pass=item.baseline_pass,
        new_pass=item.new_pass,
        new_root=item.new_root if isinstance(item.new_root, str) else "",
        gated=new.requires_gate_recommendation,
        integrity_new=item.trace_integrity.new.status,
        signals=sorted(worst.items(), key=lambda pair: -_rank(pair[1])),
        recommendation=item.governance_preview.new.recommendation,
        reason=_reason(item),
    )


def _reason(item: Item) -> str:
    """In a few words: what failed on the new side, else what asks for a gate, else what failed."""
    failed, new = item.failed_assertions, item.security.new
    if failed.new or (failed.baseline and not new.requires_gate_recommendation):
        first = (failed.new or failed.baseline)[0]
        return f"{'' if failed.new else 'before: '}{first.name}: {first.message}"[:_REASON]
    if new.signals:
        return item.governance_preview.new.reason[:_REASON]
    return difference(item)


def difference(item: Item) -> str:
    """What is other than in the baseline, in a case of which nothing was expected."""
    if item.told_change != "differs":
        return ""
    if item.calls_differ is not True:
        return "another answer"
    return "another answer and other calls" if item.answer_differs is True else "other calls"


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else -1


def _shown_row(row: OverviewRow) -> OverviewRow:
    """The row as it may be shown: nothing hidden in its texts, no link out of the folder."""
    return msgspec.structs.replace(
        row,
        href=relative_href(row.href),
        case_id=clipped(row.case_id, _LONG),
        title=clipped(row.title or row.case_id, _LONG),
        reason=clipped(row.reason, _REASON) if row.reason else "",
        signals=[(display_text(kind), severity) for kind, severity in row.signals[:_MOST_KINDS]],
    )


def render_rows_chunk(rows: Sequence[OverviewRow], number: int) -> bytes:
    """A part of the overview's table, as the script file that brings it; numbers begin with 1."""
    data = msgspec.json.encode([_shown_row(row) for row in rows])
    data = data.replace(b"<", b"\\u003c").replace(b"\xe2\x80\xa8", b"\\u2028")
    return b"evalwrightRows(%d,%s)\n" % (number, data.replace(b"\xe2\x80\xa9", b"\\u2029"))


def render_overview(view: OverviewView) -> bytes:
    """The first page of the report, with the first rows of its table."""
    summary = view.summary
    rows = [_shown_row(row) for row in view.rows]
    quality = view.quality
    missing = [clipped(each, _LONG) for each in quality.missing_assets[:_MOST]]
    paths = [clipped(each, _LONG) for each in quality.path_violations[:_MOST]]
    lost, absolute = quality.missing_assets_count, quality.path_violations_count
    security = summary.security
    known = (
        ("New", security.top_signal_kinds_new, security.signal_kinds_new),
        ("Baseline", security.top_signal_kinds_baseline, security.signal_kinds_baseline),
    )
    found = []
    for side, kinds, counts in known:
        counted = [f"{kind} {counts[kind]:,}" if kind in counts else kind for kind in kinds]
        if counted:
            found.append((side, words.in_words(display_text(", ".join(counted)))))
    # What the script reads from the table's attributes, as JSON
    hrefs = [relative_href(href) for href in view.chunk_hrefs]
    labels = {
        "change": words.CHANGES,
        "severity": words.SEVERITIES,
        "integrity": words.INTEGRITIES,
        "recommendation": words.RECOMMENDATIONS,
    }
    shown = {
        name: {code: (label.words, unescape(label.sign), label.tone) for code, label in of.items()}
        for name, of in labels.items()
    }
    texts = {"rows": rows, "parts": hrefs, "words": shown}
    significance = "", ""  # whether the change is more than chance, and the figures behind that
    if (change := summary.significance) is not msgspec.UNSET:
        more = f"{figures.pass_rates(change)} The test is {change.test}."
        significance = display_text(change.sentence), more
    labelled = [  # in the form that the script gives the other rows
        (
            row.href,
            row.case_id,
            row.title,
            words.CHANGES[row.change],
            row.reason,
            words.in_words(row.new_root),
            [(words.SEVERITIES[severity], words.in_words(kind)) for kind, severity in row.signals],
            words.INTEGRITIES[row.integrity_new],
            words.RECOMMENDATIONS[row.recommendation],
            row.gated,
        )
        for row in rows
    ]
    page = render(
        "comparison",
        "overview.html",
        csp=_POLICY,
        script=as_markup(_SCRIPT),
        report_id=display_text(view.report_id),
        subject=display_text(view.subject),
        masked=view.masked,
        verdict=display_text(summary.verdict),
        tone="good" if view.is_same_run else _TONES[blocks_shipping(summary)],
        tiles=list(_tiles(summary)),
        significance=significance,
        notes=[clipped(note, 2_000) for note in view.notes[:_MOST]],
        notes_left_out=max(0, len(view.notes) - _MOST),
        charts=_charts(summary),
        kinds=found,
        rows=labelled,
        total_rows=view.total_rows,
        total_words=f"{view.total_rows:,}",
        table={name: msgspec.json.encode(value).decode() for name, value in texts.items()},
        filters=_FILTERS,
        policy=[
            tuple(map(display_text, (rule.id, rule.title, rule.rationale, rule.remedy)))
            for rule in view.policy.values()
        ],
        environment=_environment(view.env_snapshot),
        quality=[
            (
                "Self-contained",
                quality.self_contained,
                f"{lost:,} missing" if lost else "",
                missing,
            ),
            (
                "Portable paths",
                quality.portable_paths,
                f"{absolute:,} absolute" if absolute else "",
                paths,
            ),
            ("Secrets masked", quality.secrets_masked, "", []),
        ],
    )
    return page.encode()


def _tiles(summary: Summary) -> Iterator[tuple[str, str, str, str]]:
    """The key numbers: name, number, what it is set against, tone."""
    judged, unjudged = summary.judged, summary.total_cases - summary.judged.cases
    old, new, of = judged.baseline_pass, judged.new_pass, judged.cases
    yield "Cases", f"{summary.total_cases:,}", "", ""
    if of:
        against = f"baseline {amounts.percent(old, of)} ({old:,} of {of:,})"
        yield "Passed", amounts.percent(new, of), against, ""
    if unjudged:
        yield "Nothing expected", f"{unjudged:,}", f"of {summary.total_cases:,} cases", ""
        yield "Other answers", f"{summary.differing.answers:,}", "", ""
        yield "Other calls", f"{summary.differing.calls:,}", "", ""
    yield "Regressions", f"{summary.regressions:,}", "", "bad" if summary.regressions else ""
    yield "Improvements", f"{summary.improvements:,}", "", "good" if summary.improvements else ""
    yield "Gated cases", f"{summary.gated_cases:,}", "", "bad" if summary.gated_cases else ""
    if summary.unanswered_cases:
        yield "Unanswered", f"{summary.unanswered_cases:,}", "", "bad"
    security = summary.security
    against = f"baseline {security.cases_with_signals_baseline:,}"
    yield "Cases with signals", f"{security.cases_with_signals_new:,}", against, ""
    latency, cost = figures.latency(summary.latency_ms), figures.cost(summary.cost_usd)
    for name, values in (("Mean latency", latency), ("Mean cost", cost)):
        if values:
            yield name, values[1], f"baseline {values[0]}, {values[2]}", ""
    if summary.flaky_cases is not msgspec.UNSET:
        flaky = summary.flaky_cases
        yield "Flaky cases", f"{flaky.new:,}", f"baseline {flaky.baseline:,}", ""


class _Bar(NamedTuple):
    """A count on both sides."""

    label: str
    baseline: int
    new: int


def _charts(summary: Summary) -> list[dict[str, Any]]:
    """Root causes and severities on both sides."""
    old, new = summary.root_cause_breakdown_baseline, summary.root_cause_breakdown
    causes = dict.fromkeys([*ROOT_CAUSES, *old, *new])
    roots = [
        _Bar(words.in_words(display_text(each)), old.get(each, 0), new.get(each, 0))
        for each in causes
        if old.get(each) or new.get(each)
    ]
    security = summary.security
    before, after = security.signal_counts_baseline, security.signal_counts_new
    severities = [
        _Bar(each, getattr(before, each), getattr(after, each)) for each in reversed(SEVERITIES)
    ]
    # Bars for inline SVG, with the same said in words. Places are in percent and pixels: the chart
    # fits any width, and its text keeps its size.
    charts = []
    for name, title, bars in (
        ("roots", "Root causes of failed cases", roots),
        ("severities", "Security signals by severity", severities),
    ):
        most = max((max(bar.baseline, bar.new) for bar in bars), default=0)
        if not most:
            continue
        rows = []
        for top, bar in zip(count(0, _CHART_ROW), bars, strict=False):
            sides = [
                (side, y, f"{width:.2f}%", f"{_CHART_LABELS + width:.2f}%", number)
                for side, y, number in (("old", top + 3, bar.baseline), ("new", top + 16, bar.new))
                for width in (_CHART_BARS * number / most,)
            ]
            rows.append((bar.label, top + 19, sides))
        told = [f"{bar.label}: baseline {bar.baseline}, new {bar.new}" for bar in bars]
        charts.append(
            {
                "name": name,
                "title": title,
                "height": _CHART_ROW * len(bars) + 4,
                "left": f"{_CHART_LABELS}%",
                "rows": rows,
                "words": "; ".join(told),
            }
        )
    return charts


def _environment(snapshot: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What was compared: name, baseline, new. The snapshot is the new run's, the other's in it."""
    before = dict(_leaves(snapshot.get("baseline", {}), ()))
    after = dict(_leaves({k: v for k, v in snapshot.items() if k not in _BESIDES}, ()))
    rows = []
    for path in list({**after, **before})[:_MOST]:
        sides = [
            clipped(values[path], _LONG) if path in values else amounts.NOTHING
            for values in (before, after)
        ]
        if path:
            rows.append((display_text(".".join(path)), sides[0], sides[1]))
    return rows


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value and len(path) < 4:
        for key, each in value.items():
            yield from _leaves(each, (*path, str(key)))
    else:
        yield path, value
