"""A comparison whose every text is written to break out of the form it is shown in."""

from pathlib import Path

from comparing import Pair, a_call, a_case, a_failure, a_response, a_result, an_action
from evalwright.reports.comparison.machine import MachineReport, read_machine_report
from reported import report_of

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
BREAKING = (
    "]]></failure>\n| `x` | <script>alert(1)</script> [a](javascript:b) \x00\x1b[31m\ufffe #1 @all"
)


def a_hostile_report(folder: Path) -> MachineReport:
    """Regressions, a gated case, a case without an answer, one that fails as before, one well."""
    pair = Pair(folder / "runs")
    wanting = {"must_include": [BREAKING]}
    told = a_response(case_id=f"worse{BREAKING}", output=BREAKING)
    pair.cases = [
        a_case(f"worse{BREAKING}", user=BREAKING, must_not_include=["never"]),
        a_case("gated", must_not_include=["never"]),
        a_case("lost", must_not_include=["never"]),
        a_case("as-before", **wanting),
        a_case("well", must_not_include=["never"]),
    ]
    pair.cases[0]["title"] = BREAKING
    pair.save()
    pair.write(pair.baseline, "0", told)
    pair.write(pair.new, "0", {**told, "final_output": f"never {BREAKING}"})
    leak = a_response(
        a_call("delete_all", note=BREAKING),
        a_result(),
        case_id="gated",
        output=f"use {SECRET}",
        actions=[an_action(BREAKING, risk_level="high")],
    )
    pair.write(pair.baseline, "gated", a_response(case_id="gated"))
    pair.write(pair.new, "gated", leak)
    pair.write(pair.baseline, "lost", a_response(case_id="lost"))
    pair.write(pair.new, "lost", a_failure(case_id="lost", error_message=BREAKING))
    for name in ("as-before", "well"):
        for side in (pair.baseline, pair.new):
            pair.write(side, name, a_response(case_id=name))
    return read_machine_report(report_of(pair))
