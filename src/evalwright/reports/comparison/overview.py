"""The first page of a report, and the parts of its table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlencode

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
from evalwright.reports.design.files import sprite, text
from evalwright.reports.design.markup import (
    STYLE_BESIDE,
    as_markup,
    content_policy,
    mark,
    render,
    source_hash,
    style_sheet,
)
from evalwright.reports.formats import figures, words
from evalwright.reports.formats.text import clipped, display_text, relative_href, shortened
from evalwright.reports.formats.word_diff import marked_versions

_LONG = 400
_REASON = 200
_MOST = 100  # entries of a list
_MOST_WORSE = 20  # cases with both answers on the first page
_MOST_BETTER = 10
_MOST_KINDS = 12  # of signals in one row
_BESIDES = ("baseline", "changed")  # parts of a snapshot that do not tell of the new run
_ICONS = (
    *("i-arrow", "i-file", "i-flag", "i-folder", "i-right", "i-search", "i-shield"),
    *("s-error", "s-fail", "s-open", "s-pass", "v-go", "v-stop"),
)
_KINDS = {True: "fail", False: "pass", None: "unsure"}
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


def assets() -> dict[str, bytes]:
    """The files that all pages of a report share."""
    return {"report.css": style_sheet().encode()}


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
    # Of a case that got worse or better: where the sides part, and both answers.
    divergence: str = ""
    before: str = ""
    after: str = ""


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
        reason=reason_of(item)[:_REASON],
    )


def reason_of(item: Item) -> str:
    """In a few words: what failed on the new side, else what asks for a gate, else what failed."""
    failed, new = item.failed_assertions, item.security.new
    if failed.new or (failed.baseline and not new.requires_gate_recommendation):
        first = (failed.new or failed.baseline)[0]
        return shortened(f"{'' if failed.new else 'before: '}{first.name}: {first.message}", _LONG)
    if new.signals:
        return shortened(item.governance_preview.new.reason, _LONG)
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
        divergence="",
        before="",
        after="",
    )


def render_rows_chunk(rows: Sequence[OverviewRow], number: int) -> bytes:
    """A part of the overview's table, as the script file that brings it; numbers begin with 1."""
    data = msgspec.json.encode([_shown_row(row) for row in rows])
    data = data.replace(b"<", b"\\u003c").replace(b"\xe2\x80\xa8", b"\\u2028")
    return b"evalwrightRows(%d,%s)\n" % (number, data.replace(b"\xe2\x80\xa9", b"\\u2029"))


def render_overview(view: OverviewView) -> bytes:
    """The first page of the report, with the first rows of its table."""
    summary, quality = view.summary, view.quality
    rows = [_shown_row(row) for row in view.rows]
    script = text("overview.js", "comparison")
    missing = [clipped(each, _LONG) for each in quality.missing_assets[:_MOST]]
    paths = [clipped(each, _LONG) for each in quality.path_violations[:_MOST]]
    lost, absolute = quality.missing_assets_count, quality.path_violations_count
    # What the script reads from the table's attributes, as JSON
    shown = {
        "change": words.CHANGES,
        "severity": words.SEVERITIES,
        "integrity": words.INTEGRITIES,
        "recommendation": words.RECOMMENDATIONS,
    }
    hrefs = [relative_href(href) for href in view.chunk_hrefs]
    known = {"rows": rows, "parts": hrefs, "words": shown}
    significance = "", ""  # whether the change is more than chance, and the figures behind that
    if (change := summary.significance) is not msgspec.UNSET:
        more = f"{figures.pass_rates(change)} The test is {change.test}."
        significance = change.sentence, more
    page = render(
        "comparison",
        "overview.html",
        # What the page's own script loads are the parts of its table.
        csp=content_policy(STYLE_BESIDE, f"{source_hash(script)} 'strict-dynamic'"),
        script=as_markup(script),
        mark=as_markup(mark()),
        sprite=as_markup(sprite(*_ICONS)),
        report_id=view.report_id,
        subject=view.subject,
        masked=view.masked,
        verdict="pass" if view.is_same_run else _KINDS[blocks_shipping(summary)],
        heading=summary.verdict,
        significance=significance,
        sides=_sides(summary),
        difference=None
        if change is msgspec.UNSET
        else figures.change_scale(change.difference, change.confidence_interval),
        facts=list(_facts(summary)),
        notes=[clipped(note, 2_000) for note in view.notes[:_MOST]],
        notes_left_out=max(0, len(view.notes) - _MOST),
        worse=_changed(view.rows, "regression", _MOST_WORSE),
        better=_changed(view.rows, "improvement", _MOST_BETTER),
        summary=summary,
        charts=list(_charts(summary)),
        rows=[_labelled(row) for row in rows],
        total_rows=view.total_rows,
        table={name: msgspec.json.encode(value).decode() for name, value in known.items()},
        chips=list(_chips(summary)),
        filters=_FILTERS,
        policy=list(view.policy.values()),
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
    return display_text(page).encode()


def _labelled(row: OverviewRow) -> dict[str, Any]:
    """A row with the words of its codes, as the script makes the others."""
    return {
        "href": row.href,
        "case_id": row.case_id,
        "title": row.title,
        "change": words.CHANGES[row.change],
        "failed": not row.new_pass,
        "reason": row.reason,
        "root": words.in_words(row.new_root),
        "signals": [
            (words.SEVERITIES[severity], words.in_words(kind)) for kind, severity in row.signals
        ],
        "integrity": words.INTEGRITIES[row.integrity_new],
        "recommendation": words.RECOMMENDATIONS[row.recommendation],
    }


def _changed(rows: Sequence[OverviewRow], change: str, most: int) -> list[dict[str, Any]]:
    """Cases that got worse, or better, with both answers."""
    found = [row for row in rows if row.change == change][:most]
    return [
        {
            **_labelled(_shown_row(row)),
            "divergence": row.divergence,
            "versions": marked_versions(row.before, row.after),
        }
        for row in found
    ]


def _sides(summary: Summary) -> list[tuple[str, dict[str, Any]]]:
    """The pass rates of both sides, where anything was expected."""
    judged = summary.judged
    if not judged.cases:
        return []
    old, new = (
        figures.rate_gauge(passed, judged.cases, None)
        for passed in (judged.baseline_pass, judged.new_pass)
    )
    tone = "fail" if judged.new_pass < judged.baseline_pass else "pass"
    return [("Baseline", {**old, "tone": ""}), ("New", {**new, "tone": tone})]


def _chips(summary: Summary) -> Iterator[dict[str, Any]]:
    """Filters of the table that people want most; each is an address of this page."""
    for key, name, count, shape, icon, wanted in (
        ("all", "All", summary.total_cases, "", "", ""),
        ("worse", "Got worse", summary.regressions, "fail", "", "change=regression"),
        ("better", "Got better", summary.improvements, "pass", "", "change=improvement"),
        ("gated", "Gated", summary.gated_cases, "", "shield", "gated=yes"),
        (
            "findings",
            "With signals",
            summary.security.cases_with_signals_new,
            "",
            "flag",
            "severity=low",
        ),
    ):
        yield {
            "key": key,
            "words": name,
            "count": count,
            "shape": shape,
            "icon": icon,
            "address": f"#{wanted or 'cases'}",
            "chosen": key == "all",
        }


def _facts(summary: Summary) -> Iterator[tuple[str, str, str]]:
    """Further key numbers: name, number, what it is set against."""
    judged, unjudged = summary.judged, summary.total_cases - summary.judged.cases
    old, new, of = judged.baseline_pass, judged.new_pass, judged.cases
    yield "Cases", f"{summary.total_cases:,}", ""
    if of:
        yield "Passed", f"{new:,}", f"baseline {amounts.percent(old, of)} ({old:,} of {of:,})"
    if unjudged:
        yield "Nothing expected", f"{unjudged:,}", f"of {summary.total_cases:,} cases"
        yield "Other answers", f"{summary.differing.answers:,}", ""
        yield "Other calls", f"{summary.differing.calls:,}", ""
    yield "Gated cases", f"{summary.gated_cases:,}", ""
    if summary.unanswered_cases:
        yield "Unanswered", f"{summary.unanswered_cases:,}", ""
    security = summary.security
    against = f"baseline {security.cases_with_signals_baseline:,}"
    yield "Cases with signals", f"{security.cases_with_signals_new:,}", against
    latency, cost = figures.latency(summary.latency_ms), figures.cost(summary.cost_usd)
    for name, values in (("Mean latency", latency), ("Mean cost", cost)):
        if values:
            yield name, values[1], f"baseline {values[0]}, {values[2]}"
    if summary.flaky_cases is not msgspec.UNSET:
        flaky = summary.flaky_cases
        yield "Flaky cases", f"{flaky.new:,}", f"baseline {flaky.baseline:,}"


def _charts(summary: Summary) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Root causes and severities on both sides, as bars that lead to their cases."""
    old, new = summary.root_cause_breakdown_baseline, summary.root_cause_breakdown
    security = summary.security
    before, after = security.signal_counts_baseline, security.signal_counts_new
    causes = [
        (
            words.in_words(each),
            urlencode({"root": each}, errors="replace"),
            old.get(each, 0),
            new.get(each, 0),
        )
        for each in dict.fromkeys([*ROOT_CAUSES, *old, *new])
    ]
    severities = [
        (each, f"severity={each}", getattr(before, each), getattr(after, each))
        for each in reversed(SEVERITIES)
    ]
    for title, bars in (
        ("Root causes of failed cases", causes),
        ("Signals by severity", severities),
    ):
        most = max((max(bar[2:]) for bar in bars), default=0)
        if most:
            yield (
                title,
                [
                    {
                        "name": name,
                        "address": f"#{wanted}",
                        "baseline": was,
                        "new": now,
                        "old_share": was / most,
                        "new_share": now / most,
                    }
                    for name, wanted, was, now in bars
                    if was or now
                ],
            )


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
