"""How a suite came out over its runs: the figures of each with their noise, and its tasks."""

from collections.abc import Sequence
from math import hypot, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from evalwright.contracts.short_names import agent_id_of
from evalwright.host.web.recent_runs import KNOWN_FROM, RecentRun
from evalwright.host.web.run_views import RunSetup
from evalwright.scoring.statistics import Z, wilson
from evalwright.scoring.thresholds import p95
from evalwright.store.protocol import EventLog, RunFacts, RunFilter

MOST_RUNS = 50  # of a trend
MOST_VERSIONS = 10
LEAST_VALUES = 5  # whose spread says what chance explains

Band = tuple[float, float]


class TrendPoint(NamedTuple):
    """One run of a suite."""

    run: RecentRun
    score: float | None
    score_band: Band | None  # within which the score of other tasks of this kind would be
    rate: float | None
    rate_band: Band | None
    passed: int
    scored: int
    cost: float | None
    p95_ms: int | None

    @property
    def model(self) -> str:
        return self.run.setup.model

    @property
    def line(self) -> tuple[str, str]:
        """What it is one of a series of: an agent and its model."""
        return self.run.setup.agent, self.model


class TaskHistory(NamedTuple):
    """A task over the runs of a suite, oldest first; None where it was not scored."""

    task_id: str
    passed: list[bool | None]
    breaks: Sequence[int] = ()  # the runs in which it failed after it had passed in the one before
    is_flaky: bool = False  # it came out differently with the same version, agent, model and commit
    is_broken: bool = False  # it failed in the last run that it was in
    has_failed: bool = False


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


def point_of(run: RecentRun) -> TrendPoint:
    """The figures of a run."""
    rows = [row for row in run.tasks.rows if row.score is not None]
    scores = [row.score for row in rows if row.score is not None]
    passed = sum(row.passed is True for row in rows)
    totals = run.tasks.totals
    latencies = run.tasks.latencies
    return TrendPoint(
        run=run,
        score=run.facts.score,
        score_band=_around(run.facts.score, scores),
        rate=passed / len(rows) if rows else None,
        rate_band=wilson(passed, len(rows)) if rows else None,
        passed=passed,
        scored=len(rows),
        cost=totals.total_cost_usd if totals else None,
        p95_ms=p95(latencies) if latencies else None,
    )


def rates_by_chance(points: Sequence[TrendPoint]) -> Band | None:
    """The pass rates of the last of these runs that chance explains, by those before it.

    Both sides are uncertain, the runs before as well.
    """
    *before, last = points
    passed, scored = sum(each.passed for each in before), sum(each.scored for each in before)
    if not scored or not last.scored:
        return None
    rate = passed / scored
    (low, high), known = wilson(round(rate * last.scored), last.scored), wilson(passed, scored)
    return (
        max(0.0, rate - hypot(max(0.0, rate - low), rate - known[0])),
        min(1.0, rate + hypot(max(0.0, high - rate), known[1] - rate)),
    )


def values_by_chance(values: Sequence[float]) -> Band | None:
    """The same of a value that has no interval of its own, by how those before it spread."""
    before = values[:-1]
    if len(before) < LEAST_VALUES:
        return None
    half = Z * stdev(before) * sqrt(1 + 1 / len(before))
    return max(0.0, fmean(before) - half), fmean(before) + half


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


def task_histories(runs: Sequence[RecentRun]) -> list[TaskHistory]:
    """All tasks of runs, oldest first: those that are broken now at the top, then by their ids."""
    outcomes: dict[str, list[bool | None]] = {}
    for place, run in enumerate(runs):
        for row in run.tasks.rows:
            passed = outcomes.get(row.task_id)
            if passed is None:
                passed = outcomes[row.task_id] = [None] * len(runs)
            passed[place] = row.passed
    setups = [run.setup for run in runs]
    failed, others = list[TaskHistory](), list[TaskHistory]()
    for name, passed in outcomes.items():
        if False in passed:
            failed.append(_history(name, passed, setups))
        else:  # as most tasks of large suites
            others.append(TaskHistory(name, passed))
    failed.sort(key=lambda each: (not each.is_broken, -len(each.breaks), each.task_id))
    return failed + sorted(others)


def _history(task_id: str, passed: list[bool | None], setups: Sequence[RunSetup]) -> TaskHistory:
    breaks, last = list[int](), dict[str, bool]()
    by_setup: dict[RunSetup, set[bool]] = {}
    for place, (each, setup) in enumerate(zip(passed, setups, strict=True)):
        if each is None:
            continue
        by_setup.setdefault(setup, set()).add(each)
        if last.get(setup.agent) and not each:
            breaks.append(place)
        last[setup.agent] = each
    known = [each for each in passed if each is not None]
    is_flaky = any(len(outcomes) > 1 for outcomes in by_setup.values())
    return TaskHistory(task_id, passed, breaks, is_flaky, not known[-1], has_failed=True)
