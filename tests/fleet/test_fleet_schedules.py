"""Runs that workers share, under schedules of crashes, duplicates and delays."""

import asyncio
from typing import Any

import pytest

from evalwright.engine.fleet.queue import LeasedTask
from evalwright.engine.single_task import FinishedTask, TakenAway
from fleet.test_fencing import HandWorker
from fleet.workers_here import Fleet, GivenEquipment
from subjects.schedules import FAILING, Scene, assert_nothing_is_broken

STEPS = 40


async def disordered(fleet: Fleet, database: Any, scene: Scene, run_id: str) -> None:
    """Workers begin tasks, are given up for lost, and write what they have done late, or twice."""
    order, agent = scene.random, GivenEquipment(scene.answer, scene.judge().panel())
    task_ids = [task.task_id for task in scene.suite.tasks]
    workers = [HandWorker(database, agent) for _ in range(3)]
    done: list[tuple[HandWorker, FinishedTask]] = []
    for _ in range(STEPS):
        if not await fleet.runs(database).has(run_id):
            return
        if done and order.random() < 0.5:
            worker, finished = order.choice(done)
            await worker.end(finished)
            if order.random() < 0.7:
                done.remove((worker, finished))
            continue
        worker, task_id = order.choice(workers), order.choice(task_ids)
        row = await worker.begin(run_id, task_id)
        if row[0] != "go":
            continue
        run = await worker.runs.load(run_id)
        if run is None or order.random() < 0.2:  # it has ended, or its worker has
            continue
        taken = LeasedTask(run_id, task_id)
        if row[1] > 1 and not await worker.ending.lose(run.at_work, taken, row[1]):
            continue
        try:
            done.append((worker, await worker.work(run_id, task_id, row[1])))
        except (TakenAway, AssertionError):
            run.forget(task_id, row[1])


@pytest.mark.parametrize("seed", range(16))
def test_a_run_whose_workers_die_come_back_and_write_twice(fleet: Fleet, seed: int) -> None:
    scene = Scene(seed, repeats=False)
    plan = fleet.plan(scene.suite, scene.answer, **scene.options)

    async def work() -> str:
        async with fleet.database() as database:
            run_id = await fleet.hand_over(database, plan)
            await disordered(fleet, database, scene, run_id)
            agent = GivenEquipment(scene.answer, scene.judge().panel())
            async with fleet.workers(agent, 2, most_attempts=99):
                await fleet.ended(run_id)
            return run_id

    run_id = asyncio.run(work())
    events = list(fleet.log.for_tenant("local").read(run_id))
    assert_nothing_is_broken(scene, events, plan.settings.max_cost_usd)
    if plan.settings.max_cost_usd is None:
        failing = all(task.task_id.startswith(FAILING) for task in scene.suite.tasks)
        assert events[-1].type == ("run.failed" if failing else "run.completed")
