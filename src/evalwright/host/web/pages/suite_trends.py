"""How a suite came out over its runs: the figures of each with their noise, and its tasks."""

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import NamedTuple

from evalwright.contracts.short_names import agent_id_of
from evalwright.engine.runs import read_agent
from evalwright.host.web.page import PageCall
from evalwright.host.web.recent_runs import KNOWN_FROM, RecentRun
from evalwright.host.web.run_views import views_of
from evalwright.scoring.statistics import Z, wilson
from evalwright.scoring.thresholds import p95
from evalwright.store.protocol import EventLog, RunFacts, RunFilter

MOST_RUNS = 50  # of a trend
MOST_VERSIONS = 10

Band = tuple[float, float]


class TrendPoint(NamedTuple):
    """One run of a suite."""

    run: RecentRun
    model: str
    score: float | None
    score_band: Band | None  # within which the score of other tasks of this kind would be
    rate: float | None
    rate_band: Band | None
    cost: float | None
    p95_ms: int | None

    @property
    def line(self) -> tuple[str, str]:
        """What it is one of a series of: an agent and its model."""
        return self.run.facts.agent or "", self.model


class TaskHistory(NamedTuple):
    """A task over the runs of a suite, oldest first; None where it was not scored."""

    task_id: str
    passed: list[bool | None]
    breaks: list[int]  # the runs in which it failed after it had passed in the one before
    is_flaky: bool  # it came out differently with the same version, agent and model

    @property
    def is_broken(self) -> bool:
        """Whether it failed in the last run that it was in."""
        known = [each for each in self.passed if each is not None]
        return bool(known) and not known[-1]


def suite_id_of(suite: str) -> str:
    """A suite without its version."""
    return suite.rpartition("@")[0] or suite


def known_ids(log: EventLog) -> dict[str, list[str]]:
    """The suites of the latest runs with their versions, those that ran last first."""
    found: dict[str, list[str]] = {}
    for run in log.find_runs(RunFilter(is_evaluation=True, has_ended=True), KNOWN_FROM):
        versions = found.setdefault(suite_id_of(run.suite or ""), [])
        if run.suite and run.suite not in versions:
            versions.append(run.suite)
    return found


def runs_of(log: EventLog, versions: Sequence[str], agent: str, tag: str) -> list[RunFacts]:
    """The latest runs of a suite in these versions, newest first."""
    found = [
        run
        for version in versions[:MOST_VERSIONS]
        for run in log.find_runs(
            RunFilter(
                suite=version, agent=agent_id_of(agent) or None, tag=tag or None, status="completed"
            ),
            MOST_RUNS,
        )
    ]
    return sorted(found, key=lambda run: run.started_us, reverse=True)[:MOST_RUNS]


async def model_of(call: PageCall, facts: RunFacts) -> str:
    """The model of the agent of a run, or its class; empty where the run does not say."""
    key = call.principal.partition, facts.run_id

    async def make() -> tuple[int, str, bool]:
        return 1, await call.in_reader(lambda: _read_model(call.log, facts.run_id)), True

    return await views_of(call.host).models.get(key, make)


def _read_model(log: EventLog, run_id: str) -> str:
    agent = read_agent(log, run_id)
    if agent is None:
        return ""
    model = agent.model or agent.model_class or ""
    return f"{model} {agent.version or ''}".strip()


def point_of(run: RecentRun, model: str) -> TrendPoint:
    """The figures of a run."""
    rows = [row for row in run.tasks.rows if row.score is not None]
    scores = [row.score for row in rows if row.score is not None]
    passed = sum(row.passed is True for row in rows)
    totals = run.tasks.totals
    latencies = run.tasks.latencies
    return TrendPoint(
        run=run,
        model=model,
        score=run.facts.score,
        score_band=_around(run.facts.score, scores),
        rate=passed / len(rows) if rows else None,
        rate_band=wilson(passed, len(rows)) if rows else None,
        cost=totals.total_cost_usd if totals else None,
        p95_ms=p95(latencies) if latencies else None,
    )


def _around(middle: float | None, scores: Sequence[float]) -> Band | None:
    """The 95 % interval of a mean; that of a share where all scores are 0 or 1."""
    if middle is None or not scores:
        return None
    if all(score in (0, 1) for score in scores):
        return wilson(int(sum(scores)), len(scores))
    if len(scores) < 2:
        return None
    mean = sum(scores) / len(scores)
    spread = sum((score - mean) ** 2 for score in scores) / (len(scores) - 1)
    half = Z * sqrt(spread / len(scores))
    return max(0.0, middle - half), min(1.0, middle + half)


def histories(points: Sequence[TrendPoint]) -> list[TaskHistory]:
    """The tasks that ever broke or are flaky; points are oldest first."""
    lines = [(point.run.facts.suite, *point.line) for point in points]
    found = _histories([point.run for point in points], lines)
    return [each for each in found if each.breaks or each.is_flaky]


def task_histories(runs: Sequence[RecentRun]) -> list[TaskHistory]:
    """All tasks of runs, oldest first: those that broke at the top."""
    return _histories(runs, [(each.facts.suite, each.facts.agent or "", "") for each in runs])


def _histories(
    runs: Sequence[RecentRun], lines: Sequence[tuple[str | None, str, str]]
) -> list[TaskHistory]:
    outcomes: dict[str, list[bool | None]] = {}
    for place, run in enumerate(runs):
        for row in run.tasks.rows:
            outcomes.setdefault(row.task_id, [None] * len(runs))[place] = row.passed
    found = [_history(name, passed, lines) for name, passed in outcomes.items()]
    return sorted(found, key=lambda each: (not each.is_broken, -len(each.breaks), each.task_id))


def _history(
    task_id: str, passed: list[bool | None], lines: Sequence[tuple[str | None, str, str]]
) -> TaskHistory:
    by_line: dict[tuple[str | None, str, str], set[bool]] = {}
    for each, line in zip(passed, lines, strict=True):
        if each is not None:
            by_line.setdefault(line, set()).add(each)
    is_flaky = any(len(outcomes) > 1 for outcomes in by_line.values())
    return TaskHistory(task_id, passed, list(_breaks(passed, lines)), is_flaky)


def _breaks(
    passed: Sequence[bool | None], lines: Sequence[tuple[str | None, str, str]]
) -> Iterator[int]:
    """Where a task failed that had passed before, with the same agent."""
    last: dict[str, bool] = {}
    for place, (each, (_, agent, _)) in enumerate(zip(passed, lines, strict=True)):
        if each is None:
            continue
        if last.get(agent) and not each:
            yield place
        last[agent] = each
