"""The rows of the table that sets the two sides of a case beside each other, as HTML."""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from evalwright.contracts.report import Governance, Integrity, Item, Repeats
from evalwright.reports import figures as numbers
from evalwright.reports.html.markup import badge_html, quoted_html
from evalwright.reports.html.words import (
    INTEGRITIES,
    INTEGRITY_ISSUES,
    RECOMMENDATIONS,
    RESULTS,
    ROOT_CAUSES,
    spoken,
)

_MOST = 200  # codes in a cell
_KNOWN_ROWS = 512


def facts_html(item: Item) -> str:
    """All rows for one case."""
    integrity, governance = item.trace_integrity, item.governance_preview
    sources = item.nondeterminism_sources
    rows = [
        _known_row("Result", _result, item.baseline_pass, item.new_pass),
        _known_row("Root cause", _root, item.baseline_root, item.new_root),
        _known_row("Trace integrity", _integrity, integrity.baseline, integrity.new),
        _known_row("Governance preview", _governance, governance.baseline, governance.new),
        _known_row("Sources of chance", _sources, sources.baseline, sources.new),
    ]
    if latency := numbers.latency(item.latency_ms):
        rows.append(_row("Latency", *latency))
    if cost := numbers.cost(item.cost_usd):
        rows.append(_row("Cost", *cost))
    if item.repeats is not msgspec.UNSET:
        rows.append(_row("Repeats", _repeats(item.repeats.baseline), _repeats(item.repeats.new)))
    return "".join(rows)


@lru_cache(_KNOWN_ROWS)
def _known_row(name: str, cell: Callable[[Any], str], old: Hashable, new: Hashable) -> str:
    """A row of codes, which are few: nearly every case has one that was written before."""
    return _row(name, cell(old), cell(new))


def _row(name: str, old: str, new: str, change: str = "") -> str:
    remark = f' <span class="muted">({change})</span>' if change else ""
    return f'<tr><th scope="row">{name}</th><td>{old}</td><td>{new}{remark}</td></tr>\n'


def _result(passed: bool) -> str:  # noqa: FBT001 - the one thing it is about
    return f"{badge_html(RESULTS[passed])} "


def _root(root: str | msgspec.UnsetType) -> str:
    return "none" if root is msgspec.UNSET else _code(root, ROOT_CAUSES)


def _integrity(found: Integrity) -> str:
    issues = [_code(code, INTEGRITY_ISSUES) for code in found.issues[:_MOST]]
    return f"{badge_html(INTEGRITIES[found.status])} {''.join(issues)}"


def _code(code: str, meanings: dict[str, str]) -> str:
    meaning = quoted_html(meanings.get(code, ""))
    return f'<div class="code"><code>{quoted_html(code)}</code> {meaning}</div>'


def _governance(found: Governance) -> str:
    return f"{badge_html(RECOMMENDATIONS[found.recommendation])} {quoted_html(found.reason)}"


def _sources(found: Sequence[str]) -> str:
    return quoted_html(", ".join(map(spoken, found)) or "none known")


def _repeats(found: Repeats) -> str:
    flaky = ", flaky" if found.flaky else ""
    return f"{found.passed} of {found.runs} passed{flaky}"
