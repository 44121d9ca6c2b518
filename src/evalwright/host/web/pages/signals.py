"""Findings over all runs, by kind: so many runs at a time, the newest first."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from evalwright.contracts.short_names import agent_id_of
from evalwright.host.web.page import PageCall, in_time, page, part
from evalwright.host.web.pages.scorecard import number_of
from evalwright.host.web.recent_runs import RecentRun, RecentRuns, known_suites, recent_runs
from evalwright.host.web.run_views import add_names
from evalwright.reports.formats.html import as_markup
from evalwright.reports.formats.words import SEVERITIES, badge_html, in_words
from evalwright.store.protocol import RunFilter

MOST_RUNS = 60  # that are looked at for a page
AT_ONCE = 40  # findings of a page


class SignalsAsked(NamedTuple):
    """The filters in an address."""

    kind: str = ""
    severity: str = ""
    suite: str = ""
    agent: str = ""
    before: str = ""
    page: str = ""

    @classmethod
    def of(cls, call: PageCall) -> "SignalsAsked":
        """Those of a request; what is not known counts as not given."""
        asked = cls(*map(call.asked, cls._fields))
        return asked._replace(severity=asked.severity if asked.severity in SEVERITIES else "")

    def address(self, **changed: str) -> str:
        """The address of the same filters, but for what is changed."""
        given = {name: value for name, value in (self._asdict() | changed).items() if value}
        return f"/signals?{urlencode(given)}" if given else "/signals"


class RunFinding(NamedTuple):
    """A finding, and where it was made."""

    kind: str
    severity: str
    task_id: str
    run: RecentRun


class KindCount(NamedTuple):
    """All findings of a kind."""

    kind: str
    findings: list[RunFinding]

    @property
    def worst(self) -> str:
        """The highest severity among them."""
        return min((each.severity for each in self.findings), key=list(SEVERITIES).index)


async def show(call: PageCall) -> Response:
    """The kinds, and the findings of one of them; only that when the filters change."""
    asked = SignalsAsked.of(call)
    values = await in_time(call, _read(call, asked))
    if call.is_part:
        return part(call, "signals_list.html", **(values or {}))
    return page(
        call,
        "signals.html",
        title="Signals",
        suites=await known_suites(call),
        severities=list(SEVERITIES),
        **(values or {"asked": asked._asdict(), "kinds": None}),
    )


async def _read(call: PageCall, asked: SignalsAsked) -> dict[str, Any]:
    wanted = RunFilter(
        status="completed",
        suite=asked.suite or None,
        agent=agent_id_of(asked.agent) or None,
        is_evaluation=True,
    )
    recent = await recent_runs(call, wanted, MOST_RUNS, asked.before or None)
    told = await call.in_reader(lambda: _listed(call, asked, recent))
    await add_names(call, told["findings"])
    return told


def _found(recent: RecentRuns, severity: str) -> Iterator[RunFinding]:
    for run in recent.runs:
        for row in run.tasks.rows:
            for each in row.safety_findings or ():
                if not severity or each.severity == severity:
                    yield RunFinding(each.kind, each.severity, row.task_id, run)


def _listed(call: PageCall, asked: SignalsAsked, recent: RecentRuns) -> dict[str, Any]:
    by_kind: dict[str, KindCount] = {}
    for each in _found(recent, asked.severity):
        by_kind.setdefault(each.kind, KindCount(each.kind, [])).findings.append(each)
    severities = list(SEVERITIES)
    counts = sorted(
        by_kind.values(), key=lambda each: (severities.index(each.worst), -len(each.findings))
    )
    chosen = by_kind[asked.kind].findings if asked.kind in by_kind else []
    pages = max(1, -(-len(chosen) // AT_ONCE))
    number = min(max(1, int(number_of(asked.page) or 1)), pages)
    shown = chosen[(number - 1) * AT_ONCE : number * AT_ONCE]
    looked_at = len(recent.runs) + recent.large + recent.unreadable
    oldest = recent.runs[-1].facts.run_id if recent.runs and looked_at == MOST_RUNS else ""
    return {
        "asked": asked._asdict(),
        "kinds": [_kind(asked, each) for each in counts],
        "total": sum(len(each.findings) for each in counts),
        "chosen_words": in_words(asked.kind),
        "findings": [_finding(call, each) for each in shown],
        "chosen": len(chosen),
        "number": number,
        "last_page": pages,
        "previous": asked.address(page=str(number - 1)) if number > 1 else "",
        "next": asked.address(page=str(number + 1)) if number < pages else "",
        "runs": len(recent.runs),
        "left_out": recent.left_out,
        "older": asked.address(before=oldest, page="") if oldest else "",
        "newest": asked.address(before="", page="") if asked.before else "",
    }


def _badge(severity: str) -> object:
    return as_markup(badge_html(SEVERITIES[severity]))


def _kind(asked: SignalsAsked, count: KindCount) -> dict[str, Any]:
    runs = {each.run.facts.run_id for each in count.findings}
    return {
        "kind": count.kind,
        "words": in_words(count.kind),
        "badge": _badge(count.worst),
        "findings": len(count.findings),
        "tasks": len({(each.run.pair, each.task_id) for each in count.findings}),
        "runs": len(runs),
        "last_us": max(each.run.facts.started_us for each in count.findings),
        "address": asked.address(kind=count.kind, page=""),
        "is_chosen": count.kind == asked.kind,
    }


def _finding(call: PageCall, found: RunFinding) -> dict[str, Any]:
    facts = found.run.facts
    return {
        "badge": _badge(found.severity),
        "task_id": found.task_id,
        "run_id": facts.run_id,
        "suite": facts.suite,
        "agent": call.host.figures.agent_of(call.log, facts),
        "started_us": facts.started_us,
    }
