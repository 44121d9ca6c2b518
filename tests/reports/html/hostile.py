"""Data that tries to become markup, script or a link, in every field that a page shows."""

from typing import Any

import msgspec

from evalwright.contracts.report import (
    BothSides,
    Divergence,
    EvidenceRef,
    FailedAssertion,
    Governance,
    Integrity,
    PolicyRule,
    QualityFlags,
    Repeats,
    Security,
    SecuritySummary,
    SeverityCounts,
    SignalDetails,
    Suppressed,
)
from evalwright.reports.comparison.case_page import CaseView
from evalwright.reports.comparison.overview import OverviewRow, OverviewView
from reports.html.samples import (
    a_case,
    a_row,
    a_signal,
    a_summary,
    an_overview,
    call,
    output,
    response,
    result,
)

HOSTILE = (
    "<script>window.__pwned=1;alert(1)</script>",
    '"><img src=x onerror="window.__pwned=1;alert(1)">',
    "'><svg onload='window.__pwned=1;alert(1)'>",
    "javascript:alert(1)//",
    "</script><script>alert(1)</script>",
    "</title></textarea></style><iframe srcdoc='<script>parent.__pwned=1</script>'>",
    "a\u202eb\u200bc\u2028d\u2029e\x00f\x1bg\x7fh",
    "{{ 7 * 7 }}{% for x in y %}",
    "https://attacker.example/collect?x=<b>",
    "<!--",
    "]]>",
    "&lt;script&gt;",
    "\ud800",
)
EVIL = " ".join(HOSTILE)


def hostile_case(case_id: str = "case_1") -> CaseView:
    """Every text of a case is hostile."""
    old = response(
        call(EVIL, {EVIL: EVIL, "a": 1}, EVIL), result({EVIL: [EVIL]}, EVIL, status=EVIL)
    )
    new = response(
        call(EVIL, {EVIL: EVIL[::-1], "a": 2}, EVIL),
        result(f"x {EVIL}", EVIL, error_message=EVIL),
        {"type": "retrieval", "query": EVIL, "doc_ids": [EVIL], "content": EVIL},
        {"type": "message", "role": EVIL, "content": EVIL},
        {"type": EVIL, EVIL: EVIL},
        EVIL,
        output(EVIL),
        runner_failure={"class": EVIL, "error_message": EVIL},
        final_output={"content_type": EVIL, "content": EVIL * 2},
        proposed_actions=[_action()],
    )
    failed = [FailedAssertion(EVIL, EVIL, {EVIL: EVIL}, EVIL)]
    signal = hostile_signal()
    item: dict[str, Any] = {
        "title": EVIL,
        "new_root": "unknown",
        "faults": (EVIL,),
        "recommended_policy_rules": ("Rule1", EVIL),
        "trace_integrity": BothSides(Integrity("ok", ()), Integrity("broken", (EVIL,))),
        "security": BothSides(
            Security((signal,), False), Security((signal,), True, (Suppressed(signal, EVIL, EVIL),))
        ),
        "governance_preview": BothSides(Governance("none", EVIL), Governance("block", EVIL)),
        "nondeterminism_sources": BothSides((EVIL,), (EVIL,)),
        "first_divergence": Divergence(0, EVIL, 0, 0, EVIL, EVIL),
        "repeats": BothSides(Repeats(2, 1, True, ("javascript:alert(1)",)), Repeats(1, 1, False)),
    }
    view = a_case(old, new, case_id=EVIL, failed=failed, prompt=EVIL, report_id=EVIL, **item)
    links = dict.fromkeys(view.item.artifacts.__struct_fields__, "javascript:alert(1)")
    files = type(view.item.artifacts)(**{**links, "replay_diff_href": f"case-{case_id}.html"})
    return msgspec.structs.replace(view, item=msgspec.structs.replace(view.item, artifacts=files))


def _action() -> dict[str, Any]:
    refs = [{"kind": EVIL, "call_id": EVIL}, {"kind": "tool_result", "call_id": EVIL}]
    return {"action_type": EVIL, "params": {EVIL: EVIL}, "evidence_refs": refs}


def hostile_signal() -> Any:
    refs = (
        EvidenceRef("tool_result", call_id=EVIL, index=1),
        EvidenceRef("retrieval_doc", id=EVIL),
        EvidenceRef("message", index=-5),
        EvidenceRef("final_output"),
    )
    details = SignalDetails(EVIL, EVIL, EVIL, (EVIL,), (EVIL,), {EVIL: EVIL}, EVIL, EVIL)
    return a_signal(title=EVIL, kind=EVIL, details=details, evidence_refs=refs)


def hostile_rows(count: int = 3) -> list[OverviewRow]:
    return [
        a_row(
            number, case_id=f"{number} {EVIL}", title=EVIL, signals=[(EVIL, "critical")], gated=True
        )
        for number in range(count)
    ]


def hostile_overview(**more: Any) -> OverviewView:
    """Every text of an overview is hostile."""
    security = SecuritySummary(1, 1, 1, SeverityCounts(), SeverityCounts(), (EVIL,), (EVIL,))
    known: dict[str, Any] = {
        "report_id": EVIL,
        "summary": a_summary(
            verdict=EVIL, security=security, root_cause_breakdown={EVIL: 3, "unknown": 1}
        ),
        "quality": QualityFlags(False, False, 1, 1, (EVIL,), (EVIL,), False),
        "env_snapshot": {EVIL: {EVIL: EVIL}, "baseline": {EVIL: EVIL}},
        "policy": {"Rule1": PolicyRule("Rule1", EVIL, EVIL, EVIL)},
        "notes": [EVIL],
        "masked": False,
    }
    return an_overview(**{"rows": hostile_rows(), **known, **more})
