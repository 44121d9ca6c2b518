"""The latest evaluations with their tasks, for pages about many runs: never more than a few."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from evalwright.contracts.errors import DamagedEventLog, RunNotFound
from evalwright.host.web.page import PageCall
from evalwright.host.web.run_views import RunViews, views_of
from evalwright.reports.run.task_list import TaskList
from evalwright.store.protocol import RunFacts, RunFilter

LARGE = 20_000  # events of a run whose tasks are not read for a page about many runs
KNOWN_FROM = 300  # runs whose suites and agents are suggested


class RecentRun(NamedTuple):
    """A run that has ended, with its tasks."""

    facts: RunFacts
    tasks: TaskList

    @property
    def pair(self) -> tuple[str, str]:
        """What it is compared with: runs of the same suite and agent."""
        return self.facts.suite or "", self.facts.agent or ""


class RecentRuns(NamedTuple):
    """Runs, newest first, and how many could not be looked at."""

    runs: list[RecentRun]
    large: int = 0
    unreadable: int = 0

    @property
    def left_out(self) -> str:
        """What was not looked at, in words; empty if all was."""
        told = []
        if self.large:
            told.append(f"{self.large:,} with more than {LARGE:,} events")
        if self.unreadable:
            told.append(f"{self.unreadable:,} that cannot be read")
        return " and ".join(told)

    @property
    def latest(self) -> list[RecentRun]:
        """Of each suite and agent the newest run."""
        seen: dict[tuple[str, str], RecentRun] = {}
        for run in self.runs:
            seen.setdefault(run.pair, run)
        return list(seen.values())


async def recent_runs(
    call: PageCall,
    wanted: RunFilter,
    most: int,
    before: str | None = None,
    *,
    reads_large: bool = False,
) -> RecentRuns:
    """The newest of the runs that a filter finds, older than one."""
    try:
        facts = await call.beside(lambda: call.log.find_runs(wanted, most, before))
    except RunNotFound:  # the one that the address names; it may have been deleted
        facts = []
    return await with_tasks(call, facts, reads_large=reads_large)


async def with_tasks(
    call: PageCall, facts: Sequence[RunFacts], *, reads_large: bool = False
) -> RecentRuns:
    """Runs with their tasks, as far as that does not take long."""
    views = views_of(call.host)
    found, large, unreadable = list[RecentRun](), 0, 0
    for each in facts:
        is_passed_over = each.events > LARGE and not reads_large
        if is_passed_over and not views.knows(call.run_with(each.run_id)):
            large += 1
            continue
        run = await _read(call, views, each)
        if run is None:
            unreadable += 1
        else:
            found.append(run)
    return RecentRuns(found, large, unreadable)


async def _read(call: PageCall, views: RunViews, facts: RunFacts) -> RecentRun | None:
    try:
        return RecentRun(facts, await views.tasks(call.run_with(facts.run_id), facts))
    except (RunNotFound, DamagedEventLog, msgspec.MsgspecError):
        return None  # deleted a moment ago, or damaged: the others are shown


async def known_suites(call: PageCall) -> list[str]:
    """The suites of the latest runs, for fields of filters."""
    runs = await call.beside(lambda: call.log.find_runs(RunFilter(is_evaluation=True), KNOWN_FROM))
    return sorted({run.suite for run in runs if run.suite})[:50]
