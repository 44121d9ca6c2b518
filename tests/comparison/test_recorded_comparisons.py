"""Whole comparisons of invented runs, in every field, as they are recorded in JSON files.

How the files are written anew after an intended change is described in `snapshots`.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from builders import (
    AGENT_ID,
    Entry,
    a_log,
    a_rubric_task,
    a_suite,
    a_task,
    a_usage,
    an_error,
    as_log,
    opening,
)
from comparing import Pair, a_case, a_response, files_of
from comparison.varied_runs import varied_pair
from evalwright import __version__
from evalwright.comparison.case_plan import CasePlan
from evalwright.comparison.cases import parse_case
from evalwright.comparison.diff import diff_runs
from evalwright.comparison.gate import gate, governance, recommended_rules
from evalwright.comparison.inputs import open_inputs, open_runs
from evalwright.comparison.pipeline import Comparer
from evalwright.comparison.run_folder import Unreadable
from evalwright.comparison.side import check
from evalwright.contracts.events import (
    Decided,
    ErrorDetail,
    EvalScored,
    Event,
    InvocationCompleted,
    InvocationStarted,
    Payload,
    Reasoned,
    RunFailure,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.report import BothSides, Integrity, Signal, SignalDetails
from evalwright.reports.comparison.folder import ReportRequest, write_report
from evalwright.signals.suppression import Suppression, Suppressions
from evalwright.trace.model import ProposedAction
from reported import TODAY, no_own_run
from snapshots import check_snapshot

RECORDED = Path(__file__).parent / "recorded"
SUPPRESSED = (
    Suppression("secret_in_output", "a canary", date(2026, 6, 1), case="leak-suppressed"),
    Suppression("pii_in_output", "expired long ago", date(2025, 6, 1)),
    Suppression("policy_tampering", "never seen", date(2026, 6, 1), side="new"),
)


def compared(folder: Path, baseline: str, new: str, **more: Any) -> dict[str, Any]:
    """The machine report, the definitions and the names of all files of a comparison."""
    work, out = folder / "work", folder / "report"
    work.mkdir()
    open_log = more.pop("open_log", no_own_run)
    inputs = open_inputs(BothSides(baseline, new), more.pop("cases", None), open_log, work)
    entries = more.pop("suppressions", ())
    request = ReportRequest(inputs, out, Suppressions(entries), TODAY, "recorded", **more)
    progress: list[tuple[int, int]] = []
    try:
        written = write_report(request, lambda *done: progress.append(done))
    finally:
        inputs.close()
    text = (out / "compare-report.json").read_text().replace(f'"{__version__}"', '"VERSION"')
    report = json.loads(text.replace(str(folder), "FOLDER"))
    report.pop("policy_catalogue")
    return {
        "blocks_shipping": written.blocks_shipping,
        "cases": json.loads((out / "cases.json").read_bytes()),
        "files": [name for name in files_of(out) if not name.startswith("assets/rows")],
        "last_progress": progress[-1],
        "report": report,
    }


def test_a_comparison_of_varied_cases_is_as_recorded(tmp_path: Path) -> None:
    pair = varied_pair(tmp_path / "runs")
    found = compared(tmp_path, str(pair.baseline), str(pair.new), suppressions=SUPPRESSED)
    check_snapshot(RECORDED / "varied_cases.json", found)


def test_an_unmasked_comparison_without_cases_is_as_recorded(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "runs")
    for side, prompts in ((pair.baseline, ["", "Asked before"]), (pair.new, [None, "Asked now"])):
        for number, prompt in enumerate(prompts):
            response = a_response(case_id=f"c{number}", user_prompt=prompt, output=side.name)
            pair.write(side, f"c{number}", response)
    pair.write(pair.new, "run", b"[1]")
    pair.write(pair.baseline, "c2", a_response(case_id="c2", user_prompt="Only before"))
    (pair.baseline / "run.json").unlink()
    found = compared(tmp_path, str(pair.baseline), str(pair.new), masked=False)
    check_snapshot(RECORDED / "without_cases.json", found)


def test_a_comparison_of_selected_cases_is_as_recorded(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "runs")
    for name in ("one", "two", "three", "four"):
        pair.add(a_case(name), *([a_response(case_id=name)] * 2 if name == "one" else ()))
    for side, names in ((pair.baseline, ["one", 'tw"o', 3]), (pair.new, ["two", "five", "one"])):
        pair.write(side, "run", {"run_id": side.name, "selected_case_ids": names})
    found = compared(tmp_path, str(pair.baseline), str(pair.new))
    check_snapshot(RECORDED / "selected_cases.json", found)


def test_a_comparison_in_which_all_is_well_is_as_recorded(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "runs")
    pair.add(a_case("same"), a_response(case_id="same"), a_response(case_id="same"))
    wanted = a_case("better", must_include=["done"])
    pair.add(wanted, a_response(case_id="better", output="?"), a_response(case_id="better"))
    bad = a_response(case_id="fails", output="?")
    pair.add(a_case("fails", must_include=["done"]), bad, bad)
    found = compared(tmp_path, str(pair.baseline), str(pair.new))
    check_snapshot(RECORDED / "all_is_well.json", found)


TRACES = [
    {
        "id": "t1",
        "messages": [
            {"role": "user", "content": "How much is order ORD-1234?"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "k", "function": {"name": "look", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "k", "content": '{"total": 80}'},
            {"role": "assistant", "content": "80"},
        ],
    },
    {"neither": "this nor that"},
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]},
]


@pytest.mark.parametrize("packed", [False, True])
def test_a_comparison_of_files_of_traces_is_as_recorded(tmp_path: Path, packed: bool) -> None:  # noqa: FBT001
    lines = "\n".join(json.dumps(each) for each in TRACES).encode()
    before, after = tmp_path / "before.v1.jsonl", tmp_path / "after.jsonl"
    before.write_bytes(lines)
    changed = lines.replace(b'"content": "80"', b'"content": "90"')
    after.write_bytes(gzip.compress(changed) if packed else changed)
    found = compared(tmp_path, str(before), str(after))
    check_snapshot(RECORDED / "traces.json", found)


# Runs of the log.

FIXTURES = {"toolResponses": [{"tool": "b", "response": 1}, {"tool": "a", "response": 2}]}
SUITE = a_suite(
    [
        a_task("exact", fixtures=FIXTURES),
        a_task("object", input={"q": "w" * 90}, value={"n": 1}),
        a_task("broken"),
        a_task("slow"),
        a_task("silent", input=""),
        a_task("again"),
        a_rubric_task("rubric"),
        a_task("never"),
    ]
)


def own_log(run_id: str, *, worse: bool) -> list[Event]:
    """A run with tool calls, failures, a retry, a judge, and a task that never ended."""

    def started(number: int) -> Payload:
        return InvocationStarted(f"inv-{number}", AGENT_ID, "run-api")

    def ended(number: int, outcome: Any = "completed") -> Payload:
        return InvocationCompleted(f"inv-{number}", AGENT_ID, outcome)

    told = Decided(AGENT_ID, "no" if worse else "yes")
    steps: dict[str, list[Payload]] = {
        "exact": [
            started(1),
            Reasoned(AGENT_ID, "Think"),
            ToolCalled(AGENT_ID, "a", "k1", {"x": 1}),
            ToolReturned(AGENT_ID, "a", "k1", {"y": 2}, status="ok", duration_ms=7),
            ToolCalled(AGENT_ID, "b", "k2"),
            ToolReturned(AGENT_ID, "b", "k2", error=ErrorDetail("tool_timeout", "too slow"))
            if worse
            else ToolReturned(AGENT_ID, "b", "k2", "fine"),
            ToolCalled(AGENT_ID, "b", "k3", None),
            ToolReturned(AGENT_ID, "b", "k3", error=ErrorDetail("bad", "no"))
            if worse
            else ToolReturned(AGENT_ID, "b", "k3", 1, status="ok"),
            ToolCalled(AGENT_ID, "b", "k4", []),
            ToolReturned(AGENT_ID, "b", "k4", 0, status="error" if worse else "ok"),
            a_usage(0.5),
            a_usage(0.25 if worse else None),
            told,
            ended(1),
            EvalScored("exact", 0.0 if worse else 1.0, not worse, 0.75, 30),
        ],
        "object": [
            started(2),
            Decided(AGENT_ID, {"n": 2 if worse else 1}),
            ended(2),
            EvalScored("object", 0.5 if worse else 1.0, not worse),
        ],
        "broken": [
            started(3),
            Decided(
                AGENT_ID,
                {"error": {"code": "agent_unreachable", "message": "gone", "retryable": True}},
            ),
            ended(3, "failed"),
            EvalScored("broken", 0.0, False),
        ],
        "slow": [started(4), Decided(AGENT_ID, {"error": "late"}), ended(4, "failed")],
        "silent": [started(5), ended(5)],
        "again": [
            started(6),
            Reasoned(AGENT_ID, "First try"),
            ended(6, "failed"),
            started(7),
            Reasoned(AGENT_ID, "Second"),
            a_usage(0.125),
            told,
            ended(7),
        ],
        "rubric": [
            started(8),
            a_usage(0.5),
            told,
            ended(8),
            a_usage(4.0),
            EvalScored("rubric", 0.5, not worse, 4.5, 9),
        ],
        "never": [started(9), Reasoned(AGENT_ID, "Hm")],
    }
    entries: list[Entry] = opening(SUITE)
    entries += [(task_id, payload) for task_id, payloads in steps.items() for payload in payloads]
    if worse:
        entries.append((None, RunFailure(ErrorDetail("agent_unavailable", "nobody there"), 1)))
    return as_log(entries, run_id)


class TwoRuns:
    """A log that holds two runs."""

    place = "memory"

    def __init__(self) -> None:
        self._runs = {"run_a": own_log("run_a", worse=False), "run_b": own_log("run_b", worse=True)}

    def read(
        self, run_id: str, types: Sequence[str] = (), after: int = -1, limit: int | None = None
    ) -> Iterator[Event]:
        events = (each for each in self._runs[run_id] if not types or each.type in types)
        return islice((each for each in events if each.sequence > after), limit)

    def close(self) -> None: ...


def test_a_comparison_of_own_runs_is_as_recorded(tmp_path: Path) -> None:
    inputs = open_runs("run_a", "run_b", TwoRuns)  # type: ignore[arg-type]
    request = ReportRequest(inputs, tmp_path / "out", Suppressions(()), TODAY, "recorded")
    try:
        write_report(request, lambda _done, _total: None)
    finally:
        inputs.close()
    files = files_of(tmp_path / "out")
    texts = {name: data.decode() for name, data in files.items() if name.endswith(".json")}
    found = {
        name: json.loads(text.replace(f'"{__version__}"', '"VERSION"'))
        for name, text in texts.items()
    }
    found["compare-report.json"].pop("policy_catalogue")
    check_snapshot(RECORDED / "own_runs.json", found)


def test_the_difference_of_own_runs_is_as_recorded() -> None:
    log = TwoRuns()
    found = diff_runs("run_a", log.read("run_a"), "run_b", log.read("run_b"))
    whole = a_log(SUITE, {"exact": "no"}, run_id="run_c")
    failed = a_log(SUITE, {"object": an_error()}, run_id="run_d", ending="failed")
    both = {"open": found, "ended": diff_runs("run_c", whole, "run_d", failed)}
    both["same"] = diff_runs("run_c", whole, "run_c", whole)
    check_snapshot(RECORDED / "run_diff.json", both)


def test_long_tasks_are_compared_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    log = TwoRuns()
    monkeypatch.setattr("evalwright.comparison.diff.MOST_ALIGNED", 3)
    found = diff_runs("run_a", log.read("run_a"), "run_b", log.read("run_b"))
    check_snapshot(RECORDED / "run_diff_by_place.json", found)


# Parts of a comparison.


def test_compared_cases_carry_what_their_pages_show_as_recorded(tmp_path: Path) -> None:
    pair = varied_pair(tmp_path / "runs")
    inputs = open_inputs(
        BothSides(str(pair.baseline), str(pair.new)), None, no_own_run, tmp_path / "work"
    )
    plan = CasePlan(inputs.cases, inputs.baseline, inputs.new)
    comparer = Comparer(inputs, Suppressions(()), TODAY, masked=True)
    found = [
        [
            each.item.case_id,
            each.prompt,
            [step.state for step in each.steps],
            [len(side.events) for side in (each.traces.baseline, each.traces.new)],
            [side.prompt for side in (each.traces.baseline, each.traces.new)],
            [[file.href, len(file.data)] for file in each.files],
            each.missing_assets,
        ]
        for each in comparer.compare(plan)
    ]
    plan.close()
    inputs.close()
    check_snapshot(RECORDED / "compared_cases.json", found)


def test_gates_of_signals_and_actions_are_as_recorded() -> None:
    kinds = ("pii_in_output", "high_risk_action", "untrusted_url_input")
    signals = [
        Signal(kind, severity, "high", "T", SignalDetails(), ())
        for kind in kinds
        for severity in ("low", "medium", "high", "critical")
    ]
    found = []
    groups: list[list[Signal]] = [[], *([each] for each in signals), signals[:2], signals[2:5]]
    for chosen in (*groups, signals):
        for risk in ("low", "high"):
            for regression in (False, True):
                action = ProposedAction("a", "t", None, {}, risk, (), ())
                given = gate(chosen, [action], regression=regression)
                previews = [
                    governance(given, chosen, Integrity(status, ()), regression=regression)
                    for status in ("ok", "partial", "broken")
                ]
                rules = recommended_rules((), given.signals)
                found.append([len(chosen), risk, regression, given, previews, rules])
    check_snapshot(RECORDED / "gates.json", found)


def test_a_missed_score_quotes_the_response_unless_another_is_shown() -> None:
    score = {"passed": False, "score": 0.5, "threshold": 1, "strategy": "exact", "expected": "yes"}
    response = a_response(output="no", scored=score)
    case = parse_case({}, "one")
    found = [
        check(case, response).failures,
        check(case, response, a_response(output="[masked]", scored=score)).failures,
        check(case, response, Unreadable("it is gone")).failures,
        check(case, {**response, "scored": {"passed": False, "score": None}}).failures,
    ]
    check_snapshot(RECORDED / "missed_scores.json", found)
