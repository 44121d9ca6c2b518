"""Runs under schedules of crashes, duplicates and delays: in one process, and in pieces."""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from evalwright.contracts.errors import EvalwrightError, RunFailed
from evalwright.contracts.events import TERMINAL_TYPES, Event
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.clock import SystemClock
from evalwright.engine.continuation import fill_in
from evalwright.engine.history import History, history_of
from evalwright.engine.plan import Plan, plan_run
from evalwright.engine.runner import Runner
from evalwright.engine.single_task import AssembledRun, SingleTasks
from evalwright.store.protocol import NewEvent
from subjects.runs import as_agent
from subjects.schedules import FAILING, Scene, assert_nothing_is_broken

RUN_ID = "run_0"
SEEDS = range(200)
CLOCK = SystemClock()


class Crash(Exception):
    """The process is gone."""


class MemoryLog:
    """The log of a run as one process sees it: a crash loses what was not durable, or noted."""

    place = "memory"
    backlog = 0

    def __init__(self, kept: Sequence[Event] = ()) -> None:
        self._units: list[tuple[Sequence[Any], bool]] = [([each], False) for each in kept]
        self._durable = len(self._units)
        self.appends_left = 1 << 30  # until the crash

    def left_behind(self, scene: Scene) -> "MemoryLog":
        """What the next process finds: any part of what was about to be written may be there."""
        self.appends_left = 0
        cut = scene.random.randint(self._durable, len(self._units))
        noted = [unit for unit in self._units[cut:] if unit[1]]
        self._units = [*self._units[:cut], *noted]
        return MemoryLog(self.events)

    @property
    def events(self) -> list[Event]:
        new = [event for unit, _ in self._units for event in unit]
        return [Event(RUN_ID, n, e.type, e.task_id, e.at_us, e.body) for n, e in enumerate(new)]

    def append(self, _run_id: str, events: Sequence[NewEvent], changes: Any = ()) -> None:
        self._add(events, is_noted=False)

    def note(self, _run_id: str, events: Sequence[NewEvent]) -> None:
        self._add(events, is_noted=True)

    def _add(self, events: Sequence[NewEvent], *, is_noted: bool) -> None:
        self.appends_left -= 1
        if self.appends_left < 0:
            raise Crash
        self._units.append((events, is_noted))

    def flush(self, _run_id: str) -> "Future[None]":
        done: Future[None] = Future()
        if self.appends_left < 0:
            done.set_exception(Crash())
        else:
            self._durable = len(self._units)
            done.set_result(None)
        return done

    @contextmanager
    def claim(self, _run_id: str) -> Iterator[None]:
        yield


def planned(scene: Scene) -> Plan:
    return plan_run(scene.suite, "suite", as_agent(scene.answer), RunOptions(**scene.options))


async def one_life(scene: Scene, log: MemoryLog, history: History) -> None:
    """A process works on the run until it ends, or is stopped."""
    agent, resources = as_agent(scene.answer), scene.judge().panel()
    runner = Runner(log, agent, history, CLOCK, resources)  # type: ignore[arg-type]
    if history.is_new:
        runner.open()
    else:
        runner.close_interrupted()
    fate = scene.random.choice(("crash", "interrupt", "drain", "none"))
    if fate == "crash":
        log.appends_left = scene.random.randint(1, 25)
    work = asyncio.create_task(runner.run())
    if fate in ("interrupt", "drain"):
        for _ in range(scene.random.randint(1, 60)):
            await asyncio.sleep(0)
        work.cancel() if fate == "interrupt" else runner.drain()
    await asyncio.wait((work,))
    if not work.cancelled() and (error := work.exception()) is not None:
        assert isinstance(error, Crash | EvalwrightError), error


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_of_one_process_that_dies_and_goes_on(seed: int) -> None:
    scene, log = Scene(seed), MemoryLog()
    plan = planned(scene)

    async def lives(log: MemoryLog) -> list[Event]:
        while True:
            if log.events:
                history = history_of(RUN_ID, log.events, log.place)
                history.plan = plan
                fill_in(history, log.events, log.place)
            else:
                history = History(RUN_ID, plan, CLOCK.now_us())
            await one_life(scene, log, history)
            log = log.left_behind(scene)
            if log.events and log.events[-1].type in TERMINAL_TYPES:
                return log.events

    events = asyncio.run(lives(log))
    limit = plan.settings.max_cost_usd
    assert_nothing_is_broken(scene, events, limit)
    ended = events[-1].type
    nobody_answers = all(task.task_id.startswith(FAILING) for task in scene.suite.tasks)
    if limit is None:
        assert ended == ("run.failed" if nobody_answers else "run.completed")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_in_pieces_that_come_in_any_order_twice_or_cut_off(seed: int) -> None:
    scene, log = Scene(seed), MemoryLog()
    plan, order = planned(scene), scene.random
    is_whole = order.random() < 0.7

    async def pieces() -> tuple[list[NewEvent], list[tuple[str, list[NewEvent]]], RunFailed | None]:
        """What processes hand over that pytest gives tasks: some of them the same one."""
        made, opening, failure = [], [], None
        indexes = list(range(len(scene.suite.tasks)))
        indexes += [n for n in indexes if order.random() < 0.2 and not scene.has_budget]
        order.shuffle(indexes)
        work = SingleTasks(
            as_agent(scene.answer), History(RUN_ID, plan, CLOCK.now_us()), scene.judge().panel()
        )
        opening = work.opening_events()
        for index in indexes:
            try:
                await work.score(index)
            except RunFailed as failed:
                failure = failed
                break
            made.append((scene.suite.tasks[index].task_id, work.recorded()))
        work.end()
        return opening, made, failure

    opening, made, failure = asyncio.run(pieces())
    run = AssembledRun(log, RUN_ID, opening)  # type: ignore[arg-type]
    order.shuffle(made)
    cut_off = None if is_whole else made.pop() if made else None
    first: dict[str, bool] = {}
    for task_id, events in made:
        assert run.add_task(task_id, events) == (task_id not in first)
        first[task_id] = True
    if cut_off is not None and cut_off[0] not in first:
        run.add_cut_off(cut_off[1][: order.randint(0, 2)])
    if failure is not None:
        run.fail(failure.code, str(failure))
    outcome = run.end("it was stopped", is_cut_off=not is_whole)
    limit = plan.settings.max_cost_usd
    assert_nothing_is_broken(scene, log.events, limit)
    assert (outcome is not None) == (log.events[-1].type == "run.completed")
