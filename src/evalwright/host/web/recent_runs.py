"""The latest evaluations with their tasks, for pages about many runs: never more than a few."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from evalwright.contracts.errors import DamagedEventLog, RunNotFound
from evalwright.host.web.page import LIGHT, NotSoon, PageCall
from evalwright.host.web.run_views import RunSetup, RunViews, views_of
from evalwright.reports.run.task_list import TaskList
from evalwright.store.protocol import RunFacts, RunFilter

MOST_EVENTS = 2_500_000  # of all runs that a page looks at
KNOWN_FROM = 300  # runs whose suites and agents are suggested


class RecentRun(NamedTuple):
    """A run that has ended, with its tasks."""

    facts: RunFacts
    tasks: TaskList
    setup: RunSetup = RunSetup()

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
            told.append(f"{self.large:,} beyond {MOST_EVENTS:,} events in all")
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
) -> RecentRuns:
    """The newest of the runs that a filter finds, older than one."""
    try:
        facts = await call.in_reader(lambda: call.log.find_runs(wanted, most, before))
    except RunNotFound:  # the one that the address names; it may have been deleted
        facts = []
    return await with_tasks(call, facts)


async def with_tasks(call: PageCall, facts: Sequence[RunFacts]) -> RecentRuns:
    """Runs with their tasks, as far as there is room; raises `NotSoon` if that takes long."""
    views = views_of(call.host)
    found, large, unreadable, room = list[RecentRun](), 0, 0, MOST_EVENTS
    refuse_slow(call, views, facts)
    for each in facts:
        room -= each.events
        if room < 0 and found:
            large += 1
            continue
        run = await _read(call, views, each)
        if run is None:
            unreadable += 1
        else:
            found.append(run)
    return RecentRuns(found, large, unreadable)


def refuse_slow(call: PageCall, views: RunViews, runs: Sequence[RunFacts]) -> None:
    """Weigh runs; raises `NotSoon` where much is to be read, unless the visitor waits."""
    call.weight = max(call.weight, sum(run.events for run in runs))  # they may be weighed twice
    unread = [run.events for run in runs if not views.has_tasks(call.run_with(run.run_id))]
    if sum(unread) > LIGHT and not call.is_patient:
        raise NotSoon


async def _read(call: PageCall, views: RunViews, facts: RunFacts) -> RecentRun | None:
    try:
        run = call.run_with(facts.run_id)
        return RecentRun(facts, await views.tasks(run, facts), await views.setup(run, facts))
    except (RunNotFound, DamagedEventLog, msgspec.MsgspecError):
        return None  # deleted a moment ago, or damaged: the others are shown
