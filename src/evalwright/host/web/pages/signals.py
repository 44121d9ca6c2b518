"""Findings over all runs, by kind: so many runs at a time, the newest first."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from starlette.responses import Response

from evalwright.contracts.report import GRAVE
from evalwright.contracts.short_names import agent_id_of
from evalwright.host.web.filters import Filters
from evalwright.host.web.page import PageCall, in_time, page, part
from evalwright.host.web.recent_runs import RecentRun, RecentRuns, recent_runs
from evalwright.host.web.run_views import add_names
from evalwright.reports.formats.words import SEVERITIES, in_words
from evalwright.store.protocol import RunFilter

MOST_RUNS = 60  # that are looked at for a page
AT_ONCE = 40  # findings of a page


class SignalsAsked(Filters, frozen=True):
    """The filters in an address."""

    PATH = "/signals"
    CHOICES: ClassVar = {"severity": SEVERITIES}

    kind: str = ""
    severity: str = ""
    suite: str = ""
    agent: str = ""
    before: str = ""
    page: str = ""


class RunFinding(NamedTuple):
    """A finding, and where it was made."""

    kind: str
    severity: str
    task_id: str
    run: RecentRun


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
        **(values or {"asked": asked.values(), "kinds": None}),
    )


async def _read(call: PageCall, asked: SignalsAsked) -> dict[str, Any]:
    wanted = RunFilter(
        status="completed",
        suite=asked.suite or None,
        agent=agent_id_of(asked.agent) or None,
        is_evaluation=True,
    )
    recent = await recent_runs(call, wanted, MOST_RUNS, asked.before or None)
    shown = await call.in_reader(lambda: _listed(call, asked, recent))
    await add_names(call, shown["findings"])
    return shown


def _listed(call: PageCall, asked: SignalsAsked, recent: RecentRuns) -> dict[str, Any]:
    by_kind: dict[str, list[RunFinding]] = {}
    for run in recent.runs:
        for row in run.tasks.rows:
            for each in row.safety_findings or ():
                if asked.severity in ("", each.severity):
                    found = RunFinding(each.kind, each.severity, row.task_id, run)
                    by_kind.setdefault(each.kind, []).append(found)
    rank = list(SEVERITIES).index
    worst = {
        kind: min((each.severity for each in found), key=rank) for kind, found in by_kind.items()
    }
    if asked.kind:
        chosen = by_kind.get(asked.kind, [])
    else:
        chosen = [each for found in by_kind.values() for each in found]
    chosen = sorted(chosen, key=lambda each: rank(each.severity))  # the newest of each first
    shown, around = asked.page_of(chosen, AT_ONCE)
    looked_at = len(recent.runs) + recent.large + recent.unreadable
    oldest = recent.runs[-1].facts.run_id if recent.runs and looked_at == MOST_RUNS else ""
    return {
        "asked": asked.values(),
        "verdict": _verdict(by_kind, len(recent.runs)),
        "severities": list(SEVERITIES),
        "chips": [
            {
                "key": severity or "all",
                "words": severity.capitalize() or "All",
                "count": None,
                "shape": "",
                "icon": "flag" if severity in GRAVE else "",
                "address": asked.address(severity=severity, page=""),
                "chosen": severity == asked.severity,
            }
            for severity in ("", *SEVERITIES)
        ],
        "kinds": [
            {
                "kind": kind,
                "words": in_words(kind).capitalize(),
                "cells": [
                    (
                        severity,
                        sum(each.severity == severity for each in found),
                        asked.address(kind=kind, severity=severity, page=""),
                    )
                    for severity in SEVERITIES
                ],
                "findings": len(found),
                "tasks": len({(each.run.pair, each.task_id) for each in found}),
                "runs": len({each.run.facts.run_id for each in found}),
                "last_us": max(each.run.facts.started_us for each in found),
                "address": asked.address(kind=kind, page=""),
                "is_chosen": kind == asked.kind,
            }
            for kind, found in sorted(
                by_kind.items(), key=lambda each: (rank(worst[each[0]]), -len(each[1]))
            )
        ],
        "total": sum(map(len, by_kind.values())),
        "chosen_words": in_words(asked.kind) or "all findings",
        "findings": [
            {
                "severity": each.severity,
                "kind": in_words(each.kind),
                "task_id": each.task_id,
                "run_id": each.run.facts.run_id,
                "suite": each.run.facts.suite,
                "agent": call.host.figures.agent_of(call.log, each.run.facts),
                "started_us": each.run.facts.started_us,
            }
            for each in shown
        ],
        "chosen": len(chosen),
        "runs": len(recent.runs),
        "left_out": recent.left_out,
        "older": asked.address(before=oldest, page="") if oldest else "",
        "newest": asked.address(before="", page="") if asked.before else "",
        **around,
    }


def _verdict(by_kind: Mapping[str, Sequence[RunFinding]], runs: int) -> dict[str, str]:
    """How grave it is, in one sentence."""
    found = [(kind, each) for kind, all_of in by_kind.items() for each in all_of]
    grave = [kind for kind, each in found if each.severity in GRAVE]
    if not runs:
        return {"kind": "open", "heading": "No findings yet", "why": "No run has ended."}
    told = "in the latest run" if runs == 1 else f"in the latest {runs:,} runs"
    if grave:
        noun = "finding" if len(grave) == 1 else "findings"
        kinds = ", ".join(in_words(kind) for kind in list(dict.fromkeys(grave))[:3])
        why = f"{kinds[0].upper()}{kinds[1:]}, {told}."
        return {"kind": "fail", "heading": f"{len(grave):,} serious {noun}", "why": why}
    if found:
        noun = "finding" if len(found) == 1 else "findings"
        heading = f"{len(found):,} {noun}, none serious"
        return {"kind": "unsure", "heading": heading, "why": f"Seen {told}."}
    return {"kind": "pass", "heading": "No findings", "why": f"Nothing was found {told}."}
