"""Figures of a run for lists: how many tasks passed, and what they cost; kept once it has ended."""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts import amounts
from evalwright.contracts.errors import DamagedEventLog, RunNotFound
from evalwright.contracts.events import (
    EvalCompleted,
    Planned,
    RunCompleted,
    RunStarted,
    recorded_summary,
)
from evalwright.contracts.report import GRAVE
from evalwright.contracts.run_plan import AgentFacts
from evalwright.contracts.suite import Thresholds
from evalwright.contracts.summary import SafetyFinding
from evalwright.engine.baselines import list_baselines
from evalwright.engine.provenance import Provenance, recorded_provenance
from evalwright.engine.runs import agent_called, let_through_by, may_be_held, reasons_held
from evalwright.reports.formats.figures import rate_gauge
from evalwright.reports.run.bars import rate_bar
from evalwright.scoring.thresholds import p95
from evalwright.store.protocol import EventLog, RunFacts

MOST_KEPT = 20_000
LONG = 200_000  # bytes of a summary, from which on only its end is looked at
TAIL = 1000
_COST = re.compile(rb'"totalCostUsd":([0-9.eE+-]{1,32})[,}]')


class RunFigures(NamedTuple):
    """What the summary and the plan of a completed run say."""

    tasks: int
    passed: int
    cost_usd: float | None
    held: Sequence[str] = ()  # why it must not ship though it met its bars
    words: str = ""  # by what it met them though tasks failed
    p95_ms: float | None = None
    bar: float | None = None  # the share of tasks that must pass; None: another bar, or no plan
    model: str = ""
    version: str = ""  # of the agent, where it is an installed one
    baseline: str = ""  # the run that it was compared with
    baseline_passed: int | None = None  # of the same tasks
    provenance: Provenance = Provenance()  # where it was started
    unsafe: int = 0  # tasks with high or critical findings, as far as the summary is read

    @property
    def gauge(self) -> dict[str, Any]:
        """The share with its interval and its bar, as pages draw it."""
        return rate_gauge(self.passed, self.tasks, self.bar)


class _FiguredTask(msgspec.Struct, rename="camel"):
    latency_ms: int | None = None
    safety_findings: list[SafetyFinding] | None = None


class _Figures(msgspec.Struct, rename="camel"):
    task_count: int
    passed_count: int
    total_cost_usd: float | None = None
    tasks: list[_FiguredTask] = []


class _PassedTask(msgspec.Struct):
    passed: bool


class _BaselinePasses(msgspec.Struct, rename="camel"):
    run_id: str
    tasks: list[_PassedTask] = []
    left_out: Any = None


class _PlannedBars(msgspec.Struct):
    thresholds: Thresholds = Thresholds()


class _FiguredPlan(msgspec.Struct):
    suite: _PlannedBars
    agent: AgentFacts
    baseline: _BaselinePasses | None = None


class FiguresCache:
    """Figures of runs that have ended, the last that were asked for."""

    def __init__(self) -> None:
        self._kept: dict[str, RunFigures | None] = {}
        self._agents: dict[str, str] = {}

    def knows(self, run: RunFacts) -> bool:
        """Whether nothing has to be read for the figures of a run."""
        return run.ended_us is None or run.score is None or _key(run) in self._kept

    def of(self, log: EventLog, run: RunFacts) -> RunFigures | None:
        """The figures of a run; None if it has no summary."""
        if run.ended_us is None or run.score is None:
            return None
        key = _key(run)
        if key not in self._kept:
            found = None
            with suppress(DamagedEventLog, msgspec.MsgspecError):  # it does not hide the others
                found = _read(log, run)
            self._kept[key] = found
            if len(self._kept) > MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
        return self._kept.get(key)

    def agent_of(self, log: EventLog, run: RunFacts) -> str:
        key = _key(run)
        if key not in self._agents:
            self._agents[key] = agent_called(log, run.run_id, run.agent or "")
            if len(self._agents) > MOST_KEPT:
                self._agents.pop(next(iter(self._agents)))
        return self._agents[key]

    def has_passed(self, log: EventLog, run: RunFacts) -> bool | None:
        """Whether a run met its bars and its gates; None if nothing says so."""
        if not may_be_held(run):
            return run.passed
        figures = self.of(log, run)
        return None if figures is None else not figures.held

    def verdict(self, log: EventLog, run: RunFacts) -> tuple[str, str]:
        """Whether a completed run met its bars and its gates: a tone, and words with a sign."""
        return verdict_words(run, self.of(log, run))

    def change(self, log: EventLog, run: RunFacts, named: str | None) -> int | None:
        """How many more tasks passed than in the baseline, where both are of the same ones.

        `named` is the run that is the baseline now, for one that was compared with none.
        """
        figures = self.of(log, run)
        if figures is None:
            return None
        before = figures.baseline_passed
        if before is None and named is not None and named != run.run_id:
            try:
                baseline = self.of(log, log.facts(named))
            except RunNotFound:
                return None
            before = baseline.passed if baseline and baseline.tasks == figures.tasks else None
        return None if before is None else figures.passed - before


def change_in_words(change: int) -> str:
    """A change of how many tasks passed, with its sign."""
    if not change:
        return "no change"
    sign = "+" if change > 0 else amounts.MINUS
    return f"{sign}{abs(change):,} {'task' if abs(change) == 1 else 'tasks'}"


def provenance_of(log: EventLog, run_id: str) -> Provenance:
    """Where a run was started, by its first event."""
    with suppress(RunNotFound, DamagedEventLog, msgspec.MsgspecError, StopIteration):
        first = next(log.read(run_id, limit=1)).decode(RunStarted)
        return recorded_provenance(first.metadata) or Provenance()
    return Provenance()


def baselines_of(log: EventLog) -> dict[tuple[str, str], str]:
    """The runs that were set as baselines, by suite and agent; `main` before others."""
    ordered = sorted(list_baselines(log), key=lambda each: each.name == "main")
    return {(each.suite_id, each.agent_id): each.run_id for each in ordered}


def suite_id(run: RunFacts) -> str:
    """The suite of a run, without its version."""
    return (run.suite or run.workflow).partition("@")[0]


def verdict_words(run: RunFacts, figures: RunFigures | None) -> tuple[str, str]:
    """The verdict on a run with these figures: a tone, and words with a sign."""
    if run.passed and figures is None:  # nobody knows its gates
        return "bad", "! Cannot be read"
    if not run.passed or (figures and figures.held):
        return "bad", "\N{BALLOT X} Failed"
    words = ("\N{CHECK MARK} Passed", figures.words if figures else "")
    return "good", " ".join(filter(None, words))


def _key(run: RunFacts) -> str:
    return f"{run.tenant} {run.run_id}"


def _read(log: EventLog, run: RunFacts) -> RunFigures | None:
    first, *_, before, last = log.edges(run.run_id)
    if last.type != RunCompleted.TYPE:
        return None
    counts = before.decode(EvalCompleted) if before.type == EvalCompleted.TYPE else None
    told = reasons_held(log, run), let_through_by(log, run)
    started = recorded_provenance(first.decode(RunStarted).metadata) or Provenance()
    if len(last.body) > LONG and counts is not None:
        cost = _COST.search(last.body[-TAIL:])
        cost_usd = float(cost[1]) if cost else None
        known = counts.task_count, counts.passed_count, cost_usd
        return RunFigures(*known, *told, provenance=started)
    found = recorded_summary(last, _Figures)
    latencies = sorted(each.latency_ms for each in found.tasks if each.latency_ms is not None)
    figures = RunFigures(
        found.task_count,
        found.passed_count,
        found.total_cost_usd,
        *told,
        p95_ms=p95(latencies) if latencies else None,
        provenance=started,
        unsafe=sum(
            any(finding.severity in GRAVE for finding in each.safety_findings or ())
            for each in found.tasks
        ),
    )
    planned = next(log.read(run.run_id, (Planned.TYPE,), limit=1), None)
    if planned is None or len(planned.body) > LONG:
        return figures
    try:
        plan = msgspec.json.decode(planned.body, type=_FiguredPlan)
    except msgspec.MsgspecError:  # the summary says whether it passed
        return figures
    figures = figures._replace(
        bar=rate_bar(plan.suite.thresholds),
        model=plan.agent.model or str(plan.agent.model_class or ""),
        version=plan.agent.version or "",
    )
    if plan.baseline is None:
        return figures
    is_same = plan.baseline.left_out is None
    passed = sum(each.passed for each in plan.baseline.tasks)
    return figures._replace(
        baseline=plan.baseline.run_id, baseline_passed=passed if is_same else None
    )


def spark(
    scores: Sequence[float], bar: float | None = None, kind: str = "pass"
) -> dict[str, Any] | None:
    """A line of scores, oldest first, from 0 to 1, with the last one marked, for `parts.spark`."""
    if len(scores) < 2:
        return None
    step = 92 / (len(scores) - 1)
    heights = [f"{2 + 20 * (1 - score):.1f}" for score in scores]
    return {
        "words": ", ".join(f"{score:.2f}" for score in scores),
        "points": " ".join(f"{2 + n * step:.1f},{y}" for n, y in enumerate(heights)),
        "bar": "" if bar is None else f"{2 + 20 * (1 - bar):.1f}",
        "end": heights[-1],
        "kind": kind,
    }
