"""An agent that raises, is too slow or answers rubbish fails its task; the run goes on."""

import asyncio
import enum
import inspect
import sys
import threading
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import pytest

from builders import a_suite, a_task
from subjects import logs
from subjects.runs import Recording, Workshop
from subjects.waiting import DEADLINE_SECONDS, TIME_LIMIT_S, eventually

Behaviour = Callable[[], Any]


class Stop(BaseException):
    """As test frameworks and cancel scopes have them."""


class Unspeakable(Exception):
    """An error that cannot be turned into words."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: BaseException) -> Behaviour:
    def behave() -> Any:
        raise error

    return behave


def a_cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


def a_deep_list(depth: int = 100_000) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def recur(depth: int) -> int:
    return recur(depth + 1)


def end_the_iteration() -> Any:
    return next(iter(()))


ERRORS: dict[str, Behaviour] = {
    "an exception": raising(ValueError("too hard")),
    "an exception without words": raising(ValueError()),
    "an exception that has no words": raising(Unspeakable()),
    "an exception with a lone surrogate": raising(ValueError("\ud800")),
    "an exception that is very long": raising(ValueError("x" * 1_000_000)),
    "a timeout of its own": raising(TimeoutError("the model was slow")),
    "a group of exceptions": raising(ExceptionGroup("both", [ValueError(), KeyError("k")])),
    "endless recursion": lambda: recur(0),
    "sys.exit()": sys.exit,
    "sys.exit(0)": lambda: sys.exit(0),
    "StopIteration": end_the_iteration,
    "StopAsyncIteration": raising(StopAsyncIteration()),
    "CancelledError": raising(asyncio.CancelledError()),
    "GeneratorExit": raising(GeneratorExit()),
    "an error that is no Exception": raising(Stop("over")),
}

RUBBISH: dict[str, Behaviour] = {
    "an object": object,
    "a class": lambda: dict,
    "NaN": lambda: float("nan"),
    "infinity within": lambda: {"a": [1, float("-inf")]},
    "a lone surrogate": lambda: "\ud800",
    "a lone surrogate as key": lambda: {"\udfff": 1},
    "bytes": lambda: b"yes",
    "a set": lambda: {"yes"},
    "a generator": lambda: (n for n in "yes"),
    "a list within itself": a_cycle,
    "a very deep list": a_deep_list,
    "a number as key": lambda: {1: "yes"},
    "a number of too many digits": lambda: 10**5000,
    "a complex number": lambda: 1j,
}


def failing_on_task_2(behave: Behaviour) -> Callable[[Any], Any]:
    def agent(task: Any) -> Any:
        return behave() if task.id == "task-2" else "yes"

    return agent


def failing_later_on_task_2(behave: Behaviour) -> Callable[[Any], Any]:
    async def agent(task: Any) -> Any:
        await asyncio.sleep(0)
        return behave() if task.id == "task-2" else "yes"

    return agent


def assert_only_task_2_failed(recording: Recording, code: str) -> dict[str, Any]:
    """The error that the log tells, after a look at everything else."""
    logs.assert_complete(recording.events)
    assert [result.passed for result in recording.summary.tasks] == [True, False, True]
    scored = recording.score("task-2")
    assert (scored["score"], scored["passed"]) == (0, False)
    assert "latencyMs" in scored
    ending = ["agent.decided", "agent.invocation.completed", "eval.scored"]
    assert logs.types(logs.of_task(recording.events, "task-2"))[-3:] == ending
    assert recording.outcome_of("task-2") == "failed"
    assert recording.outcome_of("task-1") == recording.outcome_of("task-3") == "completed"
    error = recording.decision("task-2")["error"]
    assert error["code"] == code
    assert 0 < len(error["message"]) < 5000
    return error


@pytest.mark.parametrize("make", [failing_on_task_2, failing_later_on_task_2], ids=["def", "async"])
@pytest.mark.parametrize("behaviour", ERRORS)
def test_an_agent_that_raises_fails_its_task(
    workshop: Workshop, behaviour: str, make: Callable[[Behaviour], Any]
) -> None:
    recording = workshop.run(a_suite(tasks=3), make(ERRORS[behaviour]))
    assert_only_task_2_failed(recording, "agent_error")


@pytest.mark.parametrize("make", [failing_on_task_2, failing_later_on_task_2], ids=["def", "async"])
@pytest.mark.parametrize("output", RUBBISH)
def test_an_agent_that_answers_rubbish_fails_its_task(
    workshop: Workshop, output: str, make: Callable[[Behaviour], Any]
) -> None:
    recording = workshop.run(a_suite(tasks=3), make(RUBBISH[output]))
    assert_only_task_2_failed(recording, "invalid_answer")


def test_a_sync_agent_that_raises_keyboard_interrupt_fails_its_task(workshop: Workshop) -> None:
    """In its thread it cannot come from a user's Ctrl-C."""
    recording = workshop.run(a_suite(tasks=3), failing_on_task_2(raising(KeyboardInterrupt())))
    assert_only_task_2_failed(recording, "agent_error")


def test_the_log_tells_what_the_agent_raised_and_where(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(tasks=3), failing_on_task_2(ERRORS["an exception"]))
    error = assert_only_task_2_failed(recording, "agent_error")
    assert error["message"] == "ValueError: too hard"
    assert "in behave" in error["details"]["traceback"]


def test_an_agent_that_returns_an_awaitable_is_awaited(workshop: Workshop) -> None:
    """As a sync wrapper around an async function does."""

    async def late() -> str:
        return "yes"

    assert workshop.run(a_suite(tasks=3), lambda _task: late()).summary.passed_count == 3


def test_an_agent_that_cancels_itself_fails_its_task(workshop: Workshop) -> None:
    async def agent(task: Any) -> str:
        if task.id == "task-2":
            current = asyncio.current_task()
            assert current is not None
            current.cancel()
            await asyncio.sleep(0)
        return "yes"

    assert_only_task_2_failed(workshop.run(a_suite(tasks=3), agent), "agent_error")


def test_an_agent_whose_own_child_is_cancelled_fails_its_task(workshop: Workshop) -> None:
    async def agent(task: Any) -> str:
        if task.id == "task-2":
            child = asyncio.create_task(asyncio.sleep(DEADLINE_SECONDS))
            child.cancel()
            await child
        return "yes"

    assert_only_task_2_failed(workshop.run(a_suite(tasks=3), agent), "agent_error")


class Text(str):
    """As libraries give them: markup, numpy strings, answers that carry their tokens."""

    __slots__ = ()


class Number(int):
    """A number with a unit."""


class Word(enum.StrEnum):
    """A choice."""

    YES = "yes"


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("output", "value"),
    [
        (Text("yes"), "yes"),
        (Number(3), 3),
        ({"a": Text("x")}, {"a": "x"}),
        ({Text("a"): 1}, {"a": 1}),
        (Word.YES, "yes"),
        (Pair(1, 2), [1, 2]),
        ((1, "two"), [1, "two"]),
        (OrderedDict(a=1), {"a": 1}),
        (2**70, 2**70),
        (10**400, 10**400),
        (-0.0, 0),
        (None, None),
        ("", ""),
        ("\x00\x1b\u2028\U0001f600", "\x00\x1b\u2028\U0001f600"),
    ],
    ids=repr,
)
def test_what_is_json_in_all_but_its_type_is_an_answer(
    workshop: Workshop, output: Any, value: Any
) -> None:
    suite = a_suite([a_task(strategy="json-match", value=value)])
    recording = workshop.run(suite, lambda _: output)
    assert recording.summary.passed_count == 1
    assert recording.decision("task-1") == value


# Timeouts.


def run_late(workshop: Workshop, agent: Callable[[Any], Any]) -> Recording:
    """A run of an agent that never answers task-2: time is up when the others have their scores."""
    begun = threading.Event()

    def watched(task: Any) -> Any:
        if task.id == "task-2":
            begun.set()
        return agent(task)

    async def watched_in_the_loop(task: Any) -> Any:
        return await watched(task)

    return workshop.run(
        a_suite(tasks=3),
        watched_in_the_loop if inspect.iscoroutinefunction(agent) else watched,
        task_timeout_s=TIME_LIMIT_S,
        time_is_up=lambda: begun.is_set() and workshop.scored_tasks() == {"task-1", "task-3"},
    )


def test_a_sync_agent_that_is_too_slow_fails_its_task(workshop: Workshop) -> None:
    release = threading.Event()
    recording = run_late(workshop, failing_on_task_2(release.wait))
    release.set()
    error = assert_only_task_2_failed(recording, "agent_timeout")
    assert error["message"] == f"no answer within {TIME_LIMIT_S:g} s"


def test_an_async_agent_that_is_too_slow_is_cancelled_and_fails_its_task(
    workshop: Workshop,
) -> None:
    ends: list[str] = []

    async def agent(task: Any) -> str:
        try:
            if task.id == "task-2":
                await asyncio.Event().wait()
        finally:
            ends.append(task.id)
        return "yes"

    recording = run_late(workshop, agent)
    assert_only_task_2_failed(recording, "agent_timeout")
    assert sorted(ends) == ["task-1", "task-2", "task-3"]


@pytest.mark.parametrize("late", ["yes", b"rubbish"], ids=["answers", "answers rubbish"])
def test_an_async_agent_that_swallows_its_cancellation_and_answers_is_too_slow(
    workshop: Workshop, late: Any
) -> None:
    async def agent(task: Any) -> Any:
        if task.id == "task-2":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return late
        return "yes"

    recording = run_late(workshop, agent)
    assert_only_task_2_failed(recording, "agent_timeout")


def test_an_async_agent_that_raises_when_cancelled_is_too_slow(workshop: Workshop) -> None:
    async def agent(task: Any) -> str:
        if task.id == "task-2":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ValueError("I did not expect that") from None
        return "yes"

    recording = run_late(workshop, agent)
    assert_only_task_2_failed(recording, "agent_timeout")


def test_a_sync_agent_that_goes_on_after_its_timeout_records_nothing_more(
    workshop: Workshop,
) -> None:
    begun, timed_out = threading.Event(), threading.Event()
    refusals: list[str] = []

    def agent(task: Any) -> str:
        if task.id != "task-1":
            return "yes"
        begun.set()
        timed_out.wait(DEADLINE_SECONDS)
        for deed in (
            lambda: task.call_tool("shop:orders.get"),
            lambda: task.report_usage(input_tokens=1, output_tokens=1, cost_usd=9.0),
        ):
            try:
                deed()
            except RuntimeError as refusal:
                refusals.append(str(refusal))
        return "yes"

    recording = workshop.run(
        a_suite(tasks=3),
        agent,
        task_timeout_s=TIME_LIMIT_S,
        time_is_up=lambda: begun.is_set() and workshop.scored_tasks() == {"task-2", "task-3"},
        concurrency=3,
    )
    timed_out.set()
    eventually(lambda: len(refusals) == 2)
    again = Recording(workshop.log, recording.outcome, None)
    assert again.events == recording.events
    assert recording.of("provider.usage") == recording.of("agent.toolCalled") == []
    assert "costUsd" not in recording.score("task-1")
    assert all("has ended" in refusal for refusal in refusals)


def test_an_async_agent_that_leaves_work_behind_records_nothing_more(workshop: Workshop) -> None:
    refusals: list[str] = []
    left_behind: set[asyncio.Task[None]] = set()

    async def go_on(task: Any, ended: asyncio.Event) -> None:
        await ended.wait()
        try:
            await task.call_tool("shop:orders.get")
        except RuntimeError as refusal:
            refusals.append(str(refusal))

    ended = asyncio.Event()

    async def agent(task: Any) -> str:
        if task.id == "task-1":
            left_behind.add(asyncio.create_task(go_on(task, ended)))
            return "yes"
        ended.set()
        await asyncio.gather(*left_behind)
        return "yes"

    recording = workshop.run(a_suite(tasks=2), agent, concurrency=1)
    logs.assert_complete(recording.events)
    assert recording.of("agent.toolCalled") == []
    assert len(refusals) == 1
