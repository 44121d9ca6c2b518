"""What the overview shows, as plain values for its template, and the parts of its table."""

from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import Any

import msgspec

from evalwright.comparison.summary import speaks_against
from evalwright.contracts.report import (
    ROOT_CAUSES,
    SEVERITIES,
    Item,
    PolicyRule,
    QualityFlags,
    SeverityCounts,
    Summary,
)
from evalwright.reports import figures as numbers
from evalwright.reports.html import words
from evalwright.reports.html.charts import Bar, chart
from evalwright.reports.html.display_text import clipped, display_text, relative_href

_LONG = 400
_MOST = 100  # entries of a list
_MOST_KINDS = 12  # of signals in one row
_BESIDES = ("baseline", "changed")  # parts of a snapshot that do not tell of the new run


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
        change=item.change,
        baseline_pass=item.baseline_pass,
        new_pass=item.new_pass,
        new_root=item.new_root if isinstance(item.new_root, str) else "",
        gated=new.requires_gate_recommendation,
        integrity_new=item.trace_integrity.new.status,
        signals=sorted(worst.items(), key=lambda pair: -_rank(pair[1])),
        recommendation=item.governance_preview.new.recommendation,
    )


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else -1


def safe_row(row: OverviewRow) -> OverviewRow:
    """The row as it may be shown: nothing hidden in its texts, no link out of the folder."""
    return msgspec.structs.replace(
        row,
        href=relative_href(row.href),
        case_id=clipped(row.case_id, _LONG),
        title=clipped(row.title or row.case_id, _LONG),
        signals=[(display_text(kind), severity) for kind, severity in row.signals[:_MOST_KINDS]],
    )


def overview_context(view: OverviewView) -> dict[str, Any]:
    """The values of the template `overview.html`."""
    summary = view.summary
    rows = [safe_row(row) for row in view.rows]
    return {
        "report_id": display_text(view.report_id),
        "masked": view.masked,
        "verdict": display_text(summary.verdict),
        "tone": "bad" if speaks_against(summary) else "good",
        "tiles": list(_tiles(summary)),
        "significance": numbers.significance(summary.significance),
        "notes": [clipped(note, 2_000) for note in view.notes[:_MOST]],
        "notes_left_out": max(0, len(view.notes) - _MOST),
        "charts": [_root_chart(summary), _signal_chart(summary)],
        "kinds": _top_kinds(summary),
        "rows": [_shown_row(row) for row in rows],
        "total_rows": view.total_rows,
        "total_words": f"{view.total_rows:,}",
        "table": _table_data(view, rows),
        "filters": _filters(),
        "policy": [_rule(rule) for rule in view.policy.values()],
        "environment": _environment(view.env_snapshot),
        "quality": _quality(view.quality),
    }


def _tiles(summary: Summary) -> Iterator[tuple[str, str, str, str]]:
    """The key numbers: name, number, what it is set against, tone."""
    total = summary.total_cases
    old, new = summary.baseline_pass, summary.new_pass
    yield "Cases", f"{total:,}", "", ""
    against = f"baseline {numbers.percent(old, total)} ({old:,} of {total:,})"
    yield "Passed", numbers.percent(new, total), against, ""
    yield "Regressions", f"{summary.regressions:,}", "", "bad" if summary.regressions else ""
    yield "Improvements", f"{summary.improvements:,}", "", "good" if summary.improvements else ""
    yield "Gated cases", f"{summary.gated_cases:,}", "", "bad" if summary.gated_cases else ""
    if summary.unanswered_cases:
        yield "Without an answer", f"{summary.unanswered_cases:,}", "", "bad"
    security = summary.security
    against = f"baseline {security.cases_with_signals_baseline:,}"
    yield "Cases with signals", f"{security.cases_with_signals_new:,}", against, ""
    latency, cost = numbers.latency(summary.latency_ms), numbers.cost(summary.cost_usd)
    for name, values in (("Mean latency", latency), ("Mean cost", cost)):
        if values:
            yield name, values[1], f"baseline {values[0]}, {values[2]}", ""
    if summary.flaky_cases is not msgspec.UNSET:
        flaky = summary.flaky_cases
        yield "Flaky cases", f"{flaky.new:,}", f"baseline {flaky.baseline:,}", ""


def _root_chart(summary: Summary) -> dict[str, Any]:
    old, new = summary.root_cause_breakdown_baseline, summary.root_cause_breakdown
    causes = list(ROOT_CAUSES) + [cause for cause in {**old, **new} if cause not in ROOT_CAUSES]
    found = [cause for cause in causes if old.get(cause) or new.get(cause)]
    bars = [Bar(words.spoken(display_text(c)), old.get(c, 0), new.get(c, 0)) for c in found]
    return chart("roots", "Root causes of failed cases", bars)


def _signal_chart(summary: Summary) -> dict[str, Any]:
    def count(counts: SeverityCounts, severity: str) -> int:
        return int(getattr(counts, severity))

    old, new = summary.security.signal_counts_baseline, summary.security.signal_counts_new
    bars = [Bar(each, count(old, each), count(new, each)) for each in reversed(SEVERITIES)]
    return chart("severities", "Security signals by severity", bars)


def _top_kinds(summary: Summary) -> list[tuple[str, str]]:
    security = summary.security
    known = (
        ("New", security.top_signal_kinds_new, security.signal_kinds_new),
        ("Baseline", security.top_signal_kinds_baseline, security.signal_kinds_baseline),
    )
    return [
        (side, ", ".join(_counted(kind, counts) for kind in kinds))
        for side, kinds, counts in known
        if kinds
    ]


def _counted(kind: str, counts: Mapping[str, int]) -> str:
    number = f" {counts[kind]:,}" if kind in counts else ""
    return words.spoken(display_text(kind)) + number


def _shown_row(row: OverviewRow) -> tuple[Any, ...]:
    """A row for the template, in the form that the script gives the other rows."""
    return (
        row.href,
        row.case_id,
        row.title,
        words.CHANGES[row.change],
        words.spoken(row.new_root),
        [(words.SEVERITIES[severity], words.spoken(kind)) for kind, severity in row.signals],
        words.INTEGRITIES[row.integrity_new],
        words.RECOMMENDATIONS[row.recommendation],
        row.gated,
    )


def _table_data(view: OverviewView, rows: Sequence[OverviewRow]) -> dict[str, str]:
    """What the script reads from the table's attributes, as JSON."""
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
    return {name: msgspec.json.encode(value).decode() for name, value in texts.items()}


def _filters() -> list[tuple[str, str, list[tuple[str, str]]]]:
    """The selections above the table: name, label, and options with their words."""
    severities: list[tuple[str, str]] = [(each, f"{each} or worse") for each in SEVERITIES[:-1]]
    severities += [(SEVERITIES[-1], SEVERITIES[-1])]
    return [
        ("change", "Change", [(code, label.words) for code, label in words.CHANGES.items()]),
        ("root", "Root cause", [(code, words.spoken(code)) for code in ROOT_CAUSES]),
        ("kind", "Signal", []),
        ("severity", "Severity", severities),
        ("integrity", "Trace", [(code, label.words) for code, label in words.INTEGRITIES.items()]),
        ("gated", "Gate", [("yes", "gated"), ("no", "not gated")]),
    ]


def _rule(rule: PolicyRule) -> tuple[str, str, str, str]:
    return (
        display_text(rule.id),
        display_text(rule.title),
        display_text(rule.rationale),
        display_text(rule.remedy),
    )


def _environment(snapshot: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What was compared: name, baseline, new. The snapshot is the new run's, the other's in it."""
    before = dict(_leaves(snapshot.get("baseline", {}), ()))
    after = dict(_leaves({k: v for k, v in snapshot.items() if k not in _BESIDES}, ()))
    return [
        (display_text(".".join(path)), _known(before, path), _known(after, path))
        for path in list({**after, **before})[:_MOST]
        if path
    ]


def _known(values: Mapping[tuple[str, ...], Any], path: tuple[str, ...]) -> str:
    return clipped(values[path], _LONG) if path in values else numbers.NOTHING


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value and len(path) < 4:
        for key, each in value.items():
            yield from _leaves(each, (*path, str(key)))
    else:
        yield path, value


def _quality(flags: QualityFlags) -> list[tuple[str, bool, str, list[str]]]:
    """Each promise of the folder: its name, whether it is kept, a number, and what breaks it."""
    missing = [clipped(each, _LONG) for each in flags.missing_assets[:_MOST]]
    paths = [clipped(each, _LONG) for each in flags.path_violations[:_MOST]]
    return [
        (
            "Self-contained",
            flags.self_contained,
            _broken(flags.missing_assets_count, "missing"),
            missing,
        ),
        (
            "Portable paths",
            flags.portable_paths,
            _broken(flags.path_violations_count, "absolute"),
            paths,
        ),
        ("Secrets masked", flags.secrets_masked, "", []),
    ]


def _broken(count: int, what: str) -> str:
    return f"{count:,} {what}" if count else ""
