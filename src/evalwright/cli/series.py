"""A series of runs, one after the other: a single run, or its repeats."""

import shlex
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from evalwright.cli.crew import Crew
from evalwright.cli.exits import no_sudden_exit
from evalwright.cli.interrupt import run_until_interrupted
from evalwright.cli.output import say, stderr
from evalwright.contracts import errors
from evalwright.contracts.planning import Group
from evalwright.engine.execution import Means, Outcome
from evalwright.engine.history import History
from evalwright.engine.plan import Plan
from evalwright.engine.run import Announce, start_run
from evalwright.reports.progress import Progress, Standing, progress_for
from evalwright.store.protocol import EventLog

Go = Callable[[Announce, Means], Coroutine[Any, Any, Outcome]]  # executes one run


class Work(msgspec.Struct, frozen=True):
    """What there is to do: runs to execute, and outcomes that stand already."""

    crew: Crew | None
    runs: Sequence[Go]
    done: Sequence[Outcome] = ()
    live: bool = False


def starting(log: EventLog, crew: Crew, plan: Plan) -> Go:
    """A run that begins."""
    return lambda announce, means: start_run(log, crew.agent, plan, announce, means=means)


def repeat_of(plan: Plan, group: Group) -> Plan:
    """The plan of one repeat."""
    return msgspec.structs.replace(plan, group=group)


class Series:
    """Executes runs with progress on stderr; an interrupt leaves one that can be resumed."""

    def __init__(self, log: EventLog, crew: Crew, db: str | None, *, quiet: bool) -> None:
        self._log = log
        self._crew = crew
        self._where = f" --db {shlex.quote(db)}" if db else ""
        self._quiet = quiet
        self._shown = ExitStack()
        self._run_id: str | None = None  # of the run that is being executed

    def run(self, runs: Sequence[Go], *, live: bool) -> list[Outcome]:
        """Execute all of them; the first that fails ends the series."""
        with self._shown, no_sudden_exit():
            try:
                return run_until_interrupted(self._execute(runs, live=live))
            except (errors.Interrupted, errors.RunFailed, errors.StoreError) as error:
                if self._run_id is not None:
                    if isinstance(error, errors.RunFailed):
                        error.add_note(f"see why: evalwright show {self._run_id}{self._where}")
                    error.add_note(f"go on with: {self._resuming(error)}")
                raise

    def _resuming(self, error: errors.EvalwrightError) -> str:
        is_spent = isinstance(error, errors.RunFailed) and error.code == "budget_exhausted"
        more = " --max-cost MORE" if is_spent else ""
        return f"evalwright run --resume {self._run_id}{more}{self._where}"

    async def _execute(self, runs: Sequence[Go], *, live: bool) -> list[Outcome]:
        outcomes = []
        try:
            means = await self._crew.gather(live=live)
            for go in runs:
                outcomes.append(await go(self._announce, means))
                self._shown.close()
        finally:
            await self._crew.dismiss()
        return outcomes

    def _announce(self, history: History) -> None:
        self._run_id = history.run_id
        self._shown.enter_context(self._display(history))

    def _display(self, history: History) -> Progress:
        suite, done = history.plan.suite, len(history.scored)
        spent = history.tally.cost
        standing = Standing(len(suite.tasks), done, history.tally.passed_count, spent.total_usd)
        display = progress_for(standing, stderr(), quiet=self._quiet)
        self._log.watch(history.run_id, display.take)
        if not self._quiet:
            say(_opening(history))
        return display


def _opening(history: History) -> str:
    plan, suite, done = history.plan, history.plan.suite, len(history.scored)
    noun = "task" if len(suite.tasks) == 1 else "tasks"
    already = f", {done} already scored" if done else ""
    answered = f", {len(history.awaiting)} to be judged" if history.awaiting else ""
    repeat = f" ({plan.group.index} of {plan.group.size})" if plan.group else ""
    live = ", live-shadow: nondeterministic" if plan.is_live else ""
    return (
        f"{suite.suite_id}@{suite.version}: {len(suite.tasks)} {noun}{already}{answered} "
        f"against {plan.agent.agent_id}{live}, run {history.run_id}{repeat}"
    )
