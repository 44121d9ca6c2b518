"""A clock that is set back, a server with a statement timeout, a run that is deleted while read."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite
from evalwright.contracts.errors import RunPruned
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.clock import SystemClock
from evalwright.engine.plan import plan_run
from evalwright.engine.replay import replay_run
from evalwright.engine.runner import start_run
from evalwright.store.inspection import find_problems
from evalwright.store.postgres.log import PostgresLog
from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite.log import SqliteLog
from postgres_server import PostgresServer, database_of, execute, in_a_loop
from subjects.runs import as_agent

HOUR_US = 3_600_000_000


class ClockSetBack(SystemClock):
    """The clock of a machine that is set back by an hour while a run is executed."""

    def __init__(self) -> None:
        self.asked = 0

    def now_us(self) -> int:
        self.asked += 1
        return super().now_us() - (HOUR_US if self.asked > 12 else 0)


async def answer(_task: Any) -> str:
    return "yes"


def a_recorded_run(log: SqliteLog, clock: SystemClock | None = None, tasks: int = 8) -> Any:
    agent, suite = as_agent(answer), a_suite(tasks)
    plan = plan_run(suite, "suite.json", agent, RunOptions())
    return asyncio.run(start_run(log, agent, plan, clock=clock))


def test_a_run_whose_clock_is_set_back_has_its_result_and_no_time_below_zero(
    tmp_path: Path,
) -> None:
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        outcome = a_recorded_run(log, ClockSetBack())
        times = [event.at_us for event in log.read(outcome.run_id)]
        assert times != sorted(times), "the clock was set back"
        assert replay_run(log, outcome.run_id).summary == outcome.summary
        assert all((task.latency_ms or 0) >= 0 for task in outcome.summary.tasks)
        assert log.find_runs()[0].status == "completed"
    assert list(find_problems(tmp_path / "log.db")) == []


def test_a_run_that_is_deleted_while_it_is_read_is_never_read_in_part(tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        run_id = a_recorded_run(log, tasks=40).run_id  # more than a page
        reading: Iterator[Any] = log.read(run_id)
        next(reading)
        log.upkeep.prune([run_id], "retention", ())
        with pytest.raises(RunPruned, match="retention"):
            list(reading)
        with pytest.raises(RunPruned):
            log.verify(run_id)


def test_an_append_that_a_statement_timeout_ends_is_written_once_it_can_be(
    postgres: PostgresServer,
) -> None:
    address = postgres.new_database()
    PostgresLog(address).close()
    name = database_of(address)
    execute(address, f'ALTER DATABASE "{name}" SET statement_timeout = 100')

    async def work() -> None:
        import asyncpg

        with closing(PostgresLog(address)) as log:
            blocking = await asyncpg.connect(address)
            log.append("run", [NewEvent("run.started", None, 1, b"{}")])
            await asyncio.wrap_future(log.flush("run"))
            transaction = blocking.transaction()
            await transaction.start()
            await blocking.execute("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
            log.append("run", [NewEvent("agent.decided", None, 2, b"{}")])
            while log.fault is None:  # noqa: ASYNC110 - a thread of the log finds it out
                await asyncio.sleep(0.01)
            assert "timeout" in log.fault
            await transaction.rollback()
            await blocking.close()
            await asyncio.wrap_future(log.flush("run"))
            await asyncio.to_thread(log.verify, "run")

    in_a_loop(work)
    assert execute(address, "SELECT count(*) FROM events")[0][0] == 2
