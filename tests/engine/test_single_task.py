"""A run that is put together from tasks that were worked on one at a time."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.agents.python import PythonAgent
from evalwright.contracts.errors import RunFailed
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.clock import SystemClock, new_run_id
from evalwright.engine.history import History, read_history
from evalwright.engine.plan import plan_run
from evalwright.engine.single_task import AssembledRun, SingleTasks
from evalwright.engine.suites.validation import check_events
from evalwright.engine.task_work import RunResources
from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite.log import SqliteLog

TASKS = ("greeting", "farewell", "thanks")


def pieces(
    answer: Callable[[Any], Any], **options: Any
) -> tuple[str, list[NewEvent], dict[str, list[NewEvent]]]:
    """What a process hands over: the opening, and the events of each task."""
    agent = PythonAgent(answer, ref="here:answer", agent_id="acme.clerk", model_class=None)
    suite = a_suite([a_task(task_id) for task_id in TASKS])
    plan = plan_run(suite, "suite", agent, RunOptions(**options))
    run_id = new_run_id(SystemClock())

    async def work() -> tuple[list[NewEvent], dict[str, list[NewEvent]]]:
        run = SingleTasks(agent, History(run_id, plan, SystemClock().now_us()), RunResources())
        opening, recorded = run.opening_events(), {}
        for index, task_id in enumerate(TASKS):
            await run.score(index)
            recorded[task_id] = run.recorded()
        run.end()
        return opening, recorded

    return run_id, *asyncio.run(work())


@pytest.fixture
def log(tmp_path: Path) -> SqliteLog:
    return SqliteLog(tmp_path / "log.db")


def assert_valid(log: SqliteLog, run_id: str) -> None:
    assert check_events([event.to_json() for event in log.read(run_id)], "event") == []


def test_a_run_that_is_not_complete_is_cancelled_and_says_why(log: SqliteLog) -> None:
    run_id, opening, recorded = pieces(lambda _task: "Hello")
    run = AssembledRun(log, run_id, opening)
    run.add_task("thanks", recorded["thanks"])
    run.add_cut_off(recorded["greeting"][:1])
    assert run.end("it was stopped") is None
    history = read_history(log, run_id)
    assert (history.status, history.scored, history.open_invocations) == (
        "cancelled",
        {"thanks"},
        {},
    )
    assert not log.is_claimed(run_id)
    assert_valid(log, run_id)


def test_failures_count_as_answers_only_beside_one(log: SqliteLog) -> None:
    """As in any run: an agent that was never there is not scored."""

    def shaky(task: Any) -> str:
        if task.id != "farewell":
            raise OSError("away")
        return "Hello"

    run_id, opening, recorded = pieces(shaky)
    run = AssembledRun(log, run_id, opening)
    run.add_task("greeting", recorded["greeting"])
    assert read_history(log, run_id).scored == set()
    run.add_task("farewell", recorded["farewell"])
    run.add_task("thanks", recorded["thanks"])
    assert run.end("") is not None
    assert read_history(log, run_id).scored == set(TASKS)
    assert_valid(log, run_id)


def test_a_task_beyond_the_budget_is_not_worked_on() -> None:
    def dear(task: Any) -> str:
        task.report_usage(input_tokens=1, output_tokens=1, cost_usd=0.6)
        return "Hello"

    with pytest.raises(RunFailed, match=r"budget_exhausted.*\$0.6 was spent") as failed:
        pieces(dear, max_cost_usd=1)
    assert failed.value.code == "budget_exhausted"
