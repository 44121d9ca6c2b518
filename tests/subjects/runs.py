"""The engine in this process: a suite and a function go in, a log comes out."""

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from evalwright.agents.protocol import Agent
from evalwright.agents.python import PythonAgent
from evalwright.contracts import errors
from evalwright.contracts.run_plan import Group, RunOptions, TaskSelection
from evalwright.contracts.suite import Suite
from evalwright.contracts.summary import EvalSummary
from evalwright.engine.baselines import read_baseline
from evalwright.engine.clock import Clock
from evalwright.engine.continuation import resume_run
from evalwright.engine.history import read_history
from evalwright.engine.plan import merged, plan_run
from evalwright.engine.runner import Runner, start_run
from evalwright.engine.task_work import RunResources
from evalwright.engine.verdict import Outcome
from evalwright.store.sqlite.log import SqliteLog
from subjects import logs
from subjects.waiting import POLL_SECONDS, TIME_LIMIT_S, let_time_pass

AGENT_ID = "acme.clerk"


class Recording:
    """One run as it can be read back from the log."""

    def __init__(
        self, log: SqliteLog, outcome: Outcome | None, failure: errors.RunFailed | None
    ) -> None:
        self.run_id = log.run_ids()[0]
        self.outcome = outcome
        self.failure = failure
        self.events: list[dict[str, Any]] = [
            msgspec.json.decode(event.to_json()) for event in log.read(self.run_id)
        ]

    @property
    def summary(self) -> EvalSummary:
        """The summary; there must be one."""
        assert self.outcome is not None, self.failure
        return self.outcome.summary

    def of(self, kind: str, task_id: str | None = None) -> list[dict[str, Any]]:
        """The payloads of one type, of all tasks or of one."""
        events = self.events if task_id is None else logs.of_task(self.events, task_id)
        return logs.of_type(events, kind)

    def score(self, task_id: str) -> dict[str, Any]:
        """The one `eval.scored` of a task."""
        (scored,) = self.of("eval.scored", task_id)
        return scored

    def decision(self, task_id: str) -> Any:
        """What the agent decided on a task."""
        return self.of("agent.decided", task_id)[-1]["decision"]

    def outcome_of(self, task_id: str) -> str:
        """The outcome of the last invocation for a task."""
        return str(self.of("agent.invocation.completed", task_id)[-1]["outcome"])


class Workshop:
    """A log, and the ways to fill it."""

    def __init__(self, path: Path) -> None:
        self.log = SqliteLog(path)

    def close(self) -> None:
        """Let go of the log."""
        self.log.close()

    def run(
        self,
        suite: Suite,
        agent: Agent | Callable[[Any], Any],
        *,
        clock: Clock | None = None,
        model_class: str | None = None,
        baseline: str | None = None,
        resources: RunResources | None = None,
        group: Group | None = None,
        selection: TaskSelection | None = None,
        time_is_up: Callable[[], bool] | None = None,
        **options: Any,
    ) -> Recording:
        """Execute a new run; its judges are those of `resources`.

        Once `time_is_up`, limits of `TIME_LIMIT_S` have been reached."""
        subject = as_agent(agent, model_class)
        compared = read_baseline(self.log, baseline, suite) if baseline else None
        plan = plan_run(suite, "suite.json", subject, RunOptions(**options), compared, group)
        plan = msgspec.structs.replace(plan, selection=selection)
        return self._recorded(
            subject,
            lambda: start_run(self.log, subject, plan, lambda _: None, clock, resources),
            time_is_up,
        )

    def stop(self, suite: Suite, agent: Callable[[Any], Any], **options: Any) -> str:
        """Begin a run whose process is stopped before its first task, and return its id."""

        async def stopped(runner: Runner) -> Outcome:
            await runner.settle()
            raise ConnectionAbortedError

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Runner, "run", stopped)
            with pytest.raises(ConnectionAbortedError):
                self.run(suite, agent, **options)
        return self.log.run_ids()[0]

    def resume(
        self,
        run_id: str,
        agent: Agent | Callable[[Any], Any],
        resources: RunResources | None = None,
        **settings: Any,
    ) -> Recording:
        """Go on with a run, with other settings where they are given."""
        subject = as_agent(agent)
        history = read_history(self.log, run_id)
        changed = merged(RunOptions(**settings), history.plan.settings)
        history.plan = msgspec.structs.replace(history.plan, settings=changed)
        return self._recorded(
            subject, lambda: resume_run(self.log, subject, history, resources=resources)
        )

    def scored_tasks(self) -> set[str | None]:
        """The tasks of the newest run whose scores are in the log."""
        return {event.task_id for event in self.log.read(self.log.run_ids()[0], ("eval.scored",))}

    def _recorded(
        self, agent: Agent, go: Callable[[], Any], time_is_up: Callable[[], bool] | None = None
    ) -> Recording:
        async def watch_the_time(is_up: Callable[[], bool]) -> None:
            while not is_up():  # noqa: ASYNC110 - it may come true in any thread
                await asyncio.sleep(POLL_SECONDS)
            let_time_pass(2 * TIME_LIMIT_S)

        async def main() -> Outcome:
            watching = asyncio.create_task(watch_the_time(time_is_up)) if time_is_up else None
            try:
                return await go()
            finally:
                if watching is not None:
                    watching.cancel()
                await agent.close()

        try:
            return Recording(self.log, asyncio.run(main()), None)
        except errors.RunFailed as failure:
            return Recording(self.log, None, failure)
        except BaseException as escaped:
            gc.collect()  # what a crash leaves behind complains now, not while pytest reports
            if isinstance(escaped, Exception):
                raise
            pytest.fail(f"{type(escaped).__name__} of an agent came out of the run")


def as_agent(agent: Agent | Callable[[Any], Any], model_class: str | None = None) -> Agent:
    """A function as an agent; an agent as it is."""
    if hasattr(agent, "invoke"):
        return agent  # type: ignore[return-value]
    return PythonAgent(agent, ref="test:agent", agent_id=AGENT_ID, model_class=model_class)
