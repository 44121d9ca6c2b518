"""Runs for pages: what a page is made of, in as few words as a test needs."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from builders import AGENT_ID, a_suite, as_log, closing, opening
from evalwright.contracts.events import (
    Checked,
    Decided,
    EvalScored,
    Event,
    Found,
    InvocationCompleted,
    InvocationStarted,
    Judged,
    Payload,
    Planned,
    Reasoned,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.run_plan import FIRST_RULE
from evalwright.contracts.suite import Expected, Task
from evalwright.contracts.summary import EvalSummary, SafetyFinding, TaskResult
from evalwright.contracts.verdicts import CheckResult, Verdict
from evalwright.reports.run.junit import ReportedRun
from evalwright.reports.run.page import render_html
from evalwright.reports.run.task_records import read_tasks
from evalwright.scoring.thresholds import mean


class Told:
    """How one task came out: its input, its answer, its checks, and the rest of its events."""

    def __init__(
        self,
        output: Any = "It is shipped.",
        *checks: CheckResult,
        question: Any = "Where is it?",
        tags: Sequence[str] = (),
        more: Sequence[Payload] = (),
        outcome: str = "completed",
        score: float | None = None,
    ) -> None:
        self.output, self.checks = output, list(checks)
        self.question, self.tags = question, list(tags)
        self.more, self.outcome = list(more), outcome
        self.score = float(self.passed) if score is None else score

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks) and self.outcome == "completed"

    def task(self, task_id: str) -> Task:
        return Task(task_id, self.question, Expected("checks", checks=[{}]), tags=self.tags)

    def payloads(self, task_id: str) -> list[Payload]:
        score = self.score
        return [
            InvocationStarted("inv-0001", AGENT_ID, "run-api"),
            *self.more,
            Decided(AGENT_ID, self.output),
            InvocationCompleted("inv-0001", AGENT_ID, self.outcome, latency_ms=7),
            Checked(self.checks, score, self.passed),
            EvalScored(task_id, score, self.passed, None, 7),
        ]


def ok(check: str = "contains", expected: Any = "shipped") -> CheckResult:
    return CheckResult(check, True, 1.0, expected, "It is shipped.")


def bad(check: str = "equals", expected: Any = "It is lost.", **fields: Any) -> CheckResult:
    known = {"actual": "It is shipped.", "reason": "the texts differ"} | fields
    return CheckResult(check, False, 0.0, expected, **known)


def a_trace(text: Any = "A-17", name: str = "shop:orders.get") -> list[Payload]:
    """A thought, a call and its result, what judges said, and a finding."""
    return [
        Reasoned(AGENT_ID, f"think of {text}"),
        ToolCalled(AGENT_ID, name, "c1", {"id": text}),
        ToolReturned(AGENT_ID, name, "c1", {"state": text}),
        Judged("rubric", "judge", 1, "v1", [Verdict("c1", f"because of {text}", False)]),
        Found("signals", [SafetyFinding("leak", "low")]),
    ]


def run_events(tasks: dict[str, Told], scoring: int = FIRST_RULE) -> list[Event]:
    """The log of a run."""
    suite = a_suite([told.task(task_id) for task_id, told in tasks.items()])
    entries = [
        (task_id, replace(each, scoring=scoring) if isinstance(each, Planned) else each)
        for task_id, each in opening(suite)
    ]
    for task_id, told in tasks.items():
        entries += [(task_id, payload) for payload in told.payloads(task_id)]
    return as_log([*entries, *closing(a_result(tasks))])


def a_result(tasks: dict[str, Told]) -> EvalSummary:
    results = [TaskResult(task_id, t.score, t.passed) for task_id, t in tasks.items()]
    passed = sum(each.passed for each in results)
    score = mean([each.score for each in results])
    return EvalSummary(
        "acme.shop.evals.refunds", "1.0.0", score, score >= 0.7, len(results), passed, results
    )


def a_page(
    tasks: dict[str, Told],
    *,
    show_secrets: bool = False,
    reasons: Sequence[str] = (),
    scoring: int = FIRST_RULE,
) -> bytes:
    """The page of a run."""
    log = run_events(tasks, scoring)
    run = ReportedRun(
        log[0].run_id,
        a_result(tasks),
        list(reasons),
        [],
        read=lambda: read_tasks(log, show_secrets=show_secrets),
    )
    return render_html([run])


def many(count: int) -> dict[str, Told]:
    """So many tasks, of which every tenth failed and every second has a tag."""
    return {
        f"task-{n:05d}": Told(
            f"answer {n} is shipped",
            *([bad()] if n % 10 == 0 else [ok()]),
            tags=["even"] if n % 2 == 0 else [],
        )
        for n in range(count)
    }
