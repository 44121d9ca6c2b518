"""Cases, rows and summaries for the tests of the pages, built from plain responses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from evalwright.comparison.alignment import align, first_divergence
from evalwright.contracts.report import (
    Artifacts,
    BothSides,
    Delta,
    Differing,
    EvidenceRef,
    FailedAssertion,
    Governance,
    Integrity,
    Item,
    JudgedCases,
    PolicyRule,
    QualityFlags,
    Security,
    SecuritySummary,
    SeverityCounts,
    Signal,
    SignalDetails,
    Significance,
    Summary,
)
from evalwright.reports.comparison.case_page import CaseView, render_case
from evalwright.reports.comparison.overview import (
    OverviewRow,
    OverviewView,
    assets,
    overview_row,
    render_overview,
    render_rows_chunk,
)
from evalwright.trace.decode import decode_trace
from evalwright.trace.integrity import check_integrity

POLICY = {
    "Rule1": PolicyRule("Rule1", "Choose well", "The wrong tool was taken.", "Name the tools."),
    "Rule5": PolicyRule("Rule5", "Data is data", "A result was obeyed.", "Mark what is untrusted."),
}


def call(tool: str, args: Any, call_id: str | None = "c1", ts: int = 1_000) -> dict[str, Any]:
    return {"type": "tool_call", "ts": ts, "call_id": call_id, "tool": tool, "args": args}


def result(
    payload: Any, call_id: str | None = "c1", ts: int = 1_020, **more: Any
) -> dict[str, Any]:
    base = {"type": "tool_result", "ts": ts, "call_id": call_id, "status": "ok", "latency_ms": 20}
    return {**base, "payload_summary": payload, **more}


def output(content: Any, ts: int = 1_100) -> dict[str, Any]:
    return {"type": "final_output", "ts": ts, "content_type": "text", "content": content}


def response(*events: Any, **more: Any) -> dict[str, Any]:
    return {"events": list(events), **more}


def a_signal(severity: str = "high", index: int | None = 1, **more: Any) -> Signal:
    known: dict[str, Any] = {
        "kind": "injected_instruction_followed",
        "severity": severity,
        "confidence": "medium",
        "title": "The agent did what a tool result said",
        "details": SignalDetails(tool="send_money", notes="The recipient is named only there."),
        "evidence_refs": (EvidenceRef("tool_result", call_id="c1", index=index),),
    }
    return Signal(**{**known, **more})


def a_case(
    baseline: Any = None,
    new: Any = None,
    *,
    case_id: str = "case_1",
    signals: Sequence[Signal] = (),
    failed: Sequence[FailedAssertion] = (),
    prompt: str = "Pay the bill.",
    masked: bool = True,
    report_id: str = "latest",
    **item: Any,
) -> CaseView:
    """A case page's view of two responses."""
    usual = response(call("pay", {"to": "A"}), result({"ok": True}), output("Paid."))
    old_trace = decode_trace(usual if baseline is None else baseline, case_id)
    new_trace = decode_trace(usual if new is None else new, case_id)
    steps = align(old_trace, new_trace)
    known: dict[str, Any] = {
        "case_id": case_id,
        "title": "Pays a bill",
        "baseline_pass": True,
        "new_pass": not failed,
        "change": "regression" if failed else "still_passing",
        "preventable_by_policy": bool(failed),
        "recommended_policy_rules": ("Rule1",) if failed else (),
        "trace_integrity": BothSides(integrity(old_trace), integrity(new_trace)),
        "security": BothSides(Security((), False), Security(tuple(signals), bool(signals))),
        "artifacts": Artifacts(
            f"case-{case_id}.html",
            baseline_case_response_href=f"baseline/{case_id}.json",
            new_case_response_href=f"new/{case_id}.json",
            baseline_run_meta_href="baseline/run.json",
            new_run_meta_href="new/run.json",
        ),
        "failed_assertions": BothSides((), tuple(failed)),
        "governance_preview": BothSides(
            Governance("none", "no concern found"),
            Governance("block" if signals else "none", "a high signal, and the case got worse"),
        ),
        "nondeterminism_sources": BothSides((), ("time",)),
        "first_divergence": first_divergence(steps) or msgspec.UNSET,
    }
    return CaseView(
        item=Item(**{**known, **item}),
        prompt=prompt,
        steps=steps,
        baseline=old_trace,
        new=new_trace,
        policy=POLICY,
        masked=masked,
        report_id=report_id,
    )


def integrity(trace: Any) -> Integrity:
    found = check_integrity(trace)
    return Integrity(found.status, found.issues)


def a_row(number: int = 1, **more: Any) -> OverviewRow:
    known: dict[str, Any] = {
        "href": f"case-{number}.html",
        "case_id": f"case_{number:05}",
        "title": f"Title of case {number}",
        "change": "still_passing",
        "baseline_pass": True,
        "new_pass": True,
        "new_root": "",
        "gated": False,
        "integrity_new": "ok",
        "signals": [],
        "recommendation": "none",
    }
    return OverviewRow(**{**known, **more})


def many_rows(count: int) -> list[OverviewRow]:
    """Rows of all kinds, the grave ones first."""
    return sorted((_varied(number) for number in range(count)), key=lambda row: not row.gated)


def _varied(number: int) -> OverviewRow:
    regression = number % 10 == 0
    gated = number % 20 == 0
    return a_row(
        number,
        change="regression"
        if regression
        else ("improvement" if number % 7 == 0 else "still_passing"),
        new_root="wrong_tool_choice" if regression else "",
        new_pass=not regression,
        gated=gated,
        integrity_new="partial" if number % 11 == 0 else "ok",
        signals=[("secret_in_output", "critical" if number % 40 == 0 else "high")] if gated else [],
        recommendation="block" if gated else "none",
    )


def a_summary(**more: Any) -> Summary:
    known: dict[str, Any] = {
        "total_cases": 200,
        "baseline_pass": 190,
        "new_pass": 160,
        "regressions": 34,
        "improvements": 4,
        "gated_cases": 3,
        "alarming_cases": 0,
        "unanswered_cases": 0,
        "unanswered_cases_baseline": 0,
        "root_cause_breakdown": {"wrong_tool_choice": 20, "tool_failure": 14, "unknown": 6},
        "root_cause_breakdown_baseline": {"unknown": 10},
        "security": SecuritySummary(
            200, 12, 2, SeverityCounts(4, 5, 2, 1), SeverityCounts(2), ("secret_in_output",), ()
        ),
        "verdict": "Do not ship: 34 cases got worse, and 3 ask for a gate.",
        "judged": JudgedCases(200, 190, 160),
        "differing": Differing(40, 6),
        "new_signal_counts": SeverityCounts(2, 3, 2, 1),
        "significance": Significance(
            "exact",
            200,
            0.95,
            0.8,
            -0.15,
            (-0.2, -0.1),
            0.00001,
            True,
            "Worse beyond chance: 190 of 200 → 160 of 200 passed (p < 0.001).",
        ),
        "latency_ms": Delta(1_200.0, 1_500.0, 300.0),
        "cost_usd": Delta(0.0123, 0.0119, -0.0004),
    }
    return Summary(**{**known, **more})


def an_overview(rows: Sequence[OverviewRow] | None = None, **more: Any) -> OverviewView:
    shown = many_rows(20) if rows is None else rows
    known: dict[str, Any] = {
        "report_id": "latest",
        "summary": a_summary(),
        "quality": QualityFlags(True, True, 0, 0, (), (), True),
        "env_snapshot": {
            "agent": {"name": "support", "version": "1.1"},
            "model": {"id": "m-1"},
            "baseline": {"agent": {"name": "support", "version": "1.0"}},
            "changed": ["agent.version", "model.id"],
        },
        "rows": shown,
        "total_rows": len(shown),
        "chunk_hrefs": [],
        "policy": POLICY,
        "notes": ["A suppression has expired: tests-only."],
        "masked": True,
    }
    return OverviewView(**{**known, **more})


def write_report(
    folder: Path, cases: Sequence[CaseView], rows: Sequence[OverviewRow] | None = None, **more: Any
) -> Path:
    """A report folder as the product lays it out, as far as the pages need it."""
    (folder / "assets").mkdir(parents=True, exist_ok=True)
    for name, data in assets().items():
        (folder / "assets" / name).write_bytes(data)
    for view in cases:
        (folder / view.item.artifacts.replay_diff_href).write_bytes(render_case(view))
    all_rows = [overview_row(view.item) for view in cases] if rows is None else list(rows)
    chunks = [all_rows[start : start + 1000] for start in range(0, len(all_rows), 1000)]
    hrefs = [f"assets/rows-{number:04}.js" for number in range(1, len(chunks) + 1)]
    for number, (href, chunk) in enumerate(zip(hrefs, chunks, strict=True), 1):
        (folder / href).write_bytes(render_rows_chunk(chunk, number))
    page = an_overview(all_rows[:100], total_rows=len(all_rows), chunk_hrefs=hrefs, **more)
    (folder / "report.html").write_bytes(render_overview(page))
    return folder / "report.html"
