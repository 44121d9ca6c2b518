"""The log of a run: its frame, the bracket of every task, and the shapes of the protocol."""

import asyncio
import json
import sqlite3
import threading
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from builders import a_suite, a_task
from evalwright.agents import ToolError
from evalwright.engine import runner
from evalwright.engine.recorder import Recorder
from evalwright.engine.suites.validation import check_events
from subjects import logs
from subjects.runs import AGENT_ID, Recording, Workshop, as_agent
from subjects.waiting import TIME_LIMIT_S, eventually

SCHEMAS = Path(__file__).parents[2].parent / "shared" / "openwop" / "schemas"

ORDERS = {
    "toolResponses": [
        {"tool": "shop:orders.get", "response": {"status": "packed"}},
        {"tool": "shop:orders.get", "response": {"status": "shipped"}},
    ],
    "memorySeed": [{"id": "m1", "content": "likes e-mail"}],
}


def everything(tasks: int = 12) -> Any:
    """A suite in which every kind of event occurs."""
    return a_suite([a_task(f"task-{n}", fixtures=ORDERS) for n in range(1, tasks + 1)])


async def busy(task: Any) -> str:
    """Does all that an agent can do, with pauses in which other tasks have their turn."""
    number = int(task.id.removeprefix("task-"))
    await asyncio.sleep(0)
    await task.call_tool("shop:orders.get", {"id": number})
    task.report_usage(provider="acme", model="m-1", input_tokens=number, output_tokens=2)
    for _ in range(number % 4):
        await asyncio.sleep(0)
    await task.call_tool("shop:orders.get")
    if number % 3 == 0:
        try:
            await task.call_tool("shop:refunds.post", {"amount": 5})
        except ToolError:
            task.report_usage(input_tokens=1, output_tokens=1, cost_usd=0.25)
    if number % 5 == 0:
        raise RuntimeError("this one is too hard")
    return "yes" if number % 2 else "no"


@pytest.fixture
def busy_run(workshop: Workshop) -> Recording:
    return workshop.run(everything(), busy, concurrency=5, tags=("nightly", "ci"))


def test_a_run_is_framed_and_every_task_is_bracketed_in_order(busy_run: Recording) -> None:
    logs.assert_complete(busy_run.events)
    assert logs.scored_tasks(busy_run.events) == {f"task-{n}" for n in range(1, 13)}
    assert logs.task_shape(busy_run.events, "task-3") == "stautataudcS"


def test_events_of_tasks_that_run_at_once_are_interleaved(busy_run: Recording) -> None:
    order = [event["nodeId"] for event in busy_run.events if "nodeId" in event]
    changes = sum(before != after for before, after in pairwise(order))
    assert changes > 12  # one after the other there would be 11


def test_the_frame_tells_what_is_evaluated(busy_run: Recording) -> None:
    (started,) = busy_run.of("run.started")
    assert started["workflowId"] == "acme.shop.evals.refunds"
    assert started["inputs"] == {
        "evalSuiteRef": "acme.shop.evals.refunds@1.0.0",
        "agentId": AGENT_ID,
        "evalModes": ["golden"],
    }
    assert started["tags"] == ["nightly", "ci"]
    assert busy_run.of("eval.started") == [
        {
            "suiteId": "acme.shop.evals.refunds",
            "suiteVersion": "1.0.0",
            "taskCount": 12,
            "modes": ["golden"],
        }
    ]


def test_the_frame_ends_with_the_result(busy_run: Recording) -> None:
    (completed,) = busy_run.of("eval.completed")
    (ended,) = busy_run.of("run.completed")
    assert completed == {
        "aggregateScore": busy_run.summary.aggregate_score,
        "passed": False,
        "taskCount": 12,
        "passedCount": 5,
    }
    summary = ended["outputs"]["evalSummary"]
    assert {key: summary[key] for key in completed} == completed
    assert [task["taskId"] for task in summary["tasks"]] == [f"task-{n}" for n in range(1, 13)]


def test_an_invocation_tells_who_was_asked_and_how(workshop: Workshop) -> None:
    recording = workshop.run(everything(1), busy, model_class="reasoning")
    (started,) = recording.of("agent.invocation.started")
    assert started == {
        "invocationId": "inv-0001",
        "agentId": AGENT_ID,
        "source": "run-api",
        "modelClass": "reasoning",
        "toolSurfaceCount": 1,
        "memoryBound": True,
    }
    (completed,) = recording.of("agent.invocation.completed")
    assert completed == {
        "invocationId": "inv-0001",
        "agentId": AGENT_ID,
        "outcome": "completed",
        "latencyMs": recording.score("task-1")["latencyMs"],
        "coverage": {"calls": "fixtures", "usage": "reported"},
    }


def test_ids_do_not_depend_on_the_run(workshop: Workshop) -> None:
    def ids(recording: Recording) -> set[tuple[str, str]]:
        return {
            (event["nodeId"], event["payload"][key])
            for event in recording.events
            for key in ("invocationId", "callId")
            if key in event["payload"]
        }

    first = workshop.run(everything(), busy, concurrency=7)
    second = workshop.run(everything(), busy, concurrency=2)
    assert first.run_id != second.run_id
    assert ids(first) == ids(second)
    assert ("task-12", "inv-0012") in ids(first)
    assert ("task-12", "inv-0012:c3") in ids(first)


def test_eval_events_and_the_summary_hold_no_content(workshop: Workshop) -> None:
    secret = "the-customer-lives-in-Elm-Street"
    suite = a_suite([a_task(input=secret, value=secret), a_task("task-2", value=secret)])

    def tell(task: Any) -> str:
        if task.id == "task-1":
            raise ValueError(secret)
        return f"{secret}!"

    recording = workshop.run(suite, tell)
    content_free = [
        event["payload"] for event in recording.events if event["type"].startswith("eval.")
    ] + [recording.of("run.completed")[0]["outputs"]["evalSummary"]]
    assert len(content_free) == 5
    assert secret not in json.dumps(content_free)
    assert secret in json.dumps(recording.of("agent.decided"))


@pytest.mark.parametrize(("is_outside", "price"), [(True, None), (False, 0.01), (False, 0.0)])
def test_what_may_have_been_paid_for_is_durable_before_the_next_task_begins(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, is_outside: Any, price: float | None
) -> None:
    """Another program holds the file until the run waits for what it has written."""
    seen: list[set[str | None]] = []
    waited = Recorder.flush

    async def flush(recorder: Recorder, *payloads: Any) -> None:
        if other.in_transaction:
            other.rollback()
        await waited(recorder, *payloads)

    def answer(task: Any) -> str:
        seen.append(workshop.scored_tasks())
        if price is not None:
            task.report_usage(model="m", input_tokens=1, output_tokens=1, cost_usd=price)
        if not other.in_transaction:
            other.execute("BEGIN IMMEDIATE")
        return "yes"

    monkeypatch.setattr(Recorder, "flush", flush)
    monkeypatch.setattr(runner, "AT_RISK_S", float("inf"))
    agent = as_agent(answer)
    agent.is_outside = is_outside
    with closing(sqlite3.connect(workshop.log.place, check_same_thread=False)) as other:
        workshop.run(a_suite(3), agent, concurrency=1)
    assert seen == [set(), {"task-1"}, {"task-1", "task-2"}]


@pytest.fixture
def every_kind_of_log(workshop: Workshop) -> list[list[dict[str, Any]]]:
    """Completed, failed, out of time, and continued after it failed."""
    release = threading.Event()

    def stuck(task: Any) -> str:
        if task.id != "task-1":
            release.wait()
        return "yes"

    def broken(task: Any) -> None:
        raise ConnectionError("nobody there")

    limit: dict[str, Any] = {
        "run_timeout_s": TIME_LIMIT_S,
        "time_is_up": lambda: workshop.scored_tasks() == {"task-1"},
    }
    try:
        return [
            workshop.run(everything(), busy, concurrency=5, tags=("ci",)).events,
            (failed := workshop.run(everything(2), broken)).events,
            workshop.resume(failed.run_id, busy).events,
            (late := workshop.run(everything(3), stuck, **limit)).events,
            workshop.resume(late.run_id, busy).events,
        ]
    finally:
        release.set()


def schema(name: str) -> dict[str, Any]:
    path = SCHEMAS / f"{name}.schema.json"
    if not path.is_file():
        pytest.skip(f"the schemas of OpenWOP are not here: {path} is missing")
    return json.loads(path.read_bytes())


def neighbour(uri: str) -> dict[str, Any]:
    """Another schema of the protocol; those that are not here belong to events we never write."""
    path = SCHEMAS / uri.rpartition("/")[2]
    return json.loads(path.read_bytes()) if path.is_file() else {"not": {}}


def test_every_event_is_one_of_the_protocol(
    every_kind_of_log: list[list[dict[str, Any]]],
) -> None:
    validator = jsonschema_rs.Draft202012Validator(schema("run-event"), validate_formats=True)
    problems = [
        f"{event['type']}: {error.message}"
        for events in every_kind_of_log
        for event in events
        for error in validator.iter_errors(event)
    ]
    assert problems == []


def test_every_payload_is_one_of_the_protocol(
    every_kind_of_log: list[list[dict[str, Any]]],
) -> None:
    payloads = schema("run-event-payloads")
    index = payloads["$defs"]["_typeIndex"]["properties"]
    seen = {event["type"] for events in every_kind_of_log for event in events}
    known = seen & index.keys()
    assert seen - known == {"evalwright.planned"}
    assert known >= {"cap.breached", "run.failed", "agent.toolReturned", "provider.usage"}
    problems = []
    for kind in known:
        validator = jsonschema_rs.Draft202012Validator(
            {**payloads, **index[kind]}, retriever=neighbour
        )
        problems += [
            f"{kind}: {error.message}"
            for events in every_kind_of_log
            for payload in logs.of_type(events, kind)
            for error in validator.iter_errors(payload)
        ]
    assert problems == []


def test_every_log_passes_our_own_validation(
    every_kind_of_log: list[list[dict[str, Any]]],
) -> None:
    for events in every_kind_of_log:
        assert check_events([json.dumps(event).encode() for event in events], "line") == []


def test_every_log_is_gap_free_and_ends_once(
    every_kind_of_log: list[list[dict[str, Any]]],
) -> None:
    for events in every_kind_of_log:
        logs.assert_gap_free(events)
        ends = [n for n, kind in enumerate(logs.types(events)) if kind in logs.TERMINAL]
        assert ends == [len(events) - 1]


def test_every_bracket_is_closed_before_a_run_ends(
    every_kind_of_log: list[list[dict[str, Any]]],
) -> None:
    for events in every_kind_of_log:
        logs.assert_brackets_closed(events)


def test_the_start_of_a_long_invocation_is_in_the_log_while_it_lasts(workshop: Workshop) -> None:
    seen: list[list[str]] = []

    def answer(task: Any) -> str:
        run_id = task._invocation.run_id

        def types() -> list[str]:
            return [event.type for event in workshop.log.read(run_id)]

        eventually(lambda: "agent.invocation.started" in types(), "the start")
        seen.append(types())
        return "yes"

    assert workshop.run(a_suite(), answer).summary.passed
    assert seen[0][-1] == "agent.invocation.started"


def test_the_start_of_an_invocation_comes_before_what_the_agent_does_in_it(
    workshop: Workshop,
) -> None:
    def answer(task: Any) -> str:
        task.report_usage(provider="acme", model="m", input_tokens=1, output_tokens=1, cost_usd=0)
        return "yes"

    recording = workshop.run(a_suite(tasks=20), answer, concurrency=4)
    for task in recording.summary.tasks:
        types = [event["type"] for event in logs.of_task(recording.events, task.task_id)]
        assert types[:2] == ["agent.invocation.started", "provider.usage"]
        assert types[-1] == "eval.scored"
