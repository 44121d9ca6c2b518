"""Fixtures in a run: canned answers in order, seeded memory, and nothing shared between tasks."""

import asyncio
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.agents import ToolError
from evalwright.contracts.suite import parse_suite
from subjects import logs
from subjects.runs import AGENT_ID, Workshop

THREE_ANSWERS = {
    "toolResponses": [
        {"tool": "shop:orders.get", "response": {"n": 1}},
        {"tool": "shop:policy.get", "response": "be kind"},
        {"tool": "shop:orders.get", "response": {"n": 2}},
        {"tool": "shop:orders.get", "response": {"n": 3}},
    ]
}


def test_answers_of_a_tool_are_used_in_order_and_then_the_last_repeats(workshop: Workshop) -> None:
    heard = []

    def agent(task: Any) -> str:
        heard.extend(task.call_tool("shop:orders.get")["n"] for _ in range(5))
        heard.append(task.call_tool("shop:policy.get"))
        return "yes"

    workshop.run(a_suite([a_task(fixtures=THREE_ANSWERS)]), agent)
    assert heard == [1, 2, 3, 3, 3, "be kind"]


def test_every_task_begins_with_the_first_answer(workshop: Workshop) -> None:
    heard = []

    async def agent(task: Any) -> str:
        heard.append((await task.call_tool("shop:orders.get"))["n"])
        await asyncio.sleep(0)
        heard.append((await task.call_tool("shop:orders.get"))["n"])
        return "yes"

    tasks = [a_task(f"task-{n}", fixtures=THREE_ANSWERS) for n in range(3)]
    workshop.run(a_suite(tasks), agent, concurrency=3)
    assert heard == [1, 1, 1, 2, 2, 2]


def test_a_tool_that_answers_null_answers_none(workshop: Workshop) -> None:
    suite = a_suite([a_task(fixtures={"toolResponses": [{"tool": "t", "response": None}]})])
    recording = workshop.run(suite, lambda task: "yes" if task.call_tool("t") is None else "no")
    assert recording.summary.passed
    assert recording.of("agent.toolReturned")[0]["outcome"] is None


def test_calls_and_answers_are_recorded(workshop: Workshop) -> None:
    def agent(task: Any) -> str:
        task.call_tool("shop:orders.get", {"id": "A-17", "deep": [1, {"x": None}]})
        task.call_tool("shop:orders.get")
        return "yes"

    recording = workshop.run(a_suite([a_task(fixtures=THREE_ANSWERS)]), agent)
    called, again = recording.of("agent.toolCalled")
    assert called == {
        "agentId": AGENT_ID,
        "toolName": "shop:orders.get",
        "callId": "inv-0001:c1",
        "inputs": {"id": "A-17", "deep": [1, {"x": None}]},
    }
    assert again["inputs"] == {}
    returned = recording.of("agent.toolReturned")[0]
    assert returned["callId"] == "inv-0001:c1"
    assert (returned["outcome"], returned["status"]) == ({"n": 1}, "ok")


@pytest.mark.parametrize("fixtures", [None, THREE_ANSWERS], ids=["no fixtures", "other tools"])
def test_a_call_without_an_entry_is_a_recorded_error_and_never_goes_live(
    workshop: Workshop, fixtures: dict[str, Any] | None
) -> None:
    def agent(task: Any) -> str:
        with pytest.raises(ToolError, match="shop:refunds"):
            task.call_tool("shop:refunds.post", {"amount": 5})
        return "yes"

    recording = workshop.run(a_suite([a_task(fixtures=fixtures)]), agent)
    assert recording.summary.passed
    logs.assert_complete(recording.events)
    (called,) = recording.of("agent.toolCalled")
    (returned,) = recording.of("agent.toolReturned")
    assert called["inputs"] == {"amount": 5}
    assert returned["callId"] == called["callId"]
    assert (returned["status"], returned["error"]["code"]) == ("error", "no_fixture")
    assert "outcome" not in returned


def test_an_agent_that_does_not_catch_a_missing_answer_fails_its_task(workshop: Workshop) -> None:
    def agent(task: Any) -> str:
        return task.call_tool("shop:refunds.post") if task.id == "task-1" else "yes"

    recording = workshop.run(a_suite(tasks=2), agent)
    logs.assert_complete(recording.events)
    assert recording.outcome_of("task-1") == "failed"
    assert "ToolError" in recording.decision("task-1")["error"]["message"]


@pytest.mark.parametrize(
    "args",
    [{"n": float("nan")}, {"o": {1, 2}}, {1: 2}, {"s": "\ud800"}, 5, "text", [1]],
    ids=repr,
)
def test_a_call_with_arguments_that_are_no_json_is_a_recorded_error(
    workshop: Workshop, args: Any
) -> None:
    def agent(task: Any) -> str:
        with pytest.raises(ToolError):
            task.call_tool("shop:orders.get", args)
        return "yes" if task.call_tool("shop:orders.get") == {"n": 1} else "no"

    recording = workshop.run(a_suite([a_task(fixtures=THREE_ANSWERS)]), agent)
    assert recording.summary.passed
    logs.assert_complete(recording.events)
    assert recording.of("agent.toolReturned")[0]["error"]["code"] == "invalid_arguments"


@pytest.mark.parametrize("name", ["", None, 7, "\ud800"], ids=repr)
def test_a_call_without_a_proper_name_never_reaches_the_log_as_it_is(
    workshop: Workshop, name: Any
) -> None:
    def agent(task: Any) -> str:
        with pytest.raises(ToolError):
            task.call_tool(name)
        return "yes"

    recording = workshop.run(a_suite([a_task(fixtures=THREE_ANSWERS)]), agent)
    assert recording.summary.passed
    logs.assert_complete(recording.events)


def test_memory_is_seeded_before_the_agent_starts(workshop: Workshop) -> None:
    seed = [
        {"id": "m1", "content": "likes e-mail", "tags": ["contact"]},
        {"id": "m2", "content": {"plan": "gold"}},
    ]
    seen = []

    def agent(task: Any) -> str:
        seen.append((list(task.memory), task.memory.get("m2")["content"], task.memory.get("m3")))
        return "yes"

    workshop.run(a_suite([a_task(fixtures={"memorySeed": seed})]), agent)
    assert seen == [(seed, {"plan": "gold"}, None)]


def test_memory_without_a_seed_is_empty(workshop: Workshop) -> None:
    assert workshop.run(a_suite(1), lambda task: "no" if task.memory else "yes").summary.passed


SHARED_BY_ALIAS = b"""
suiteId: acme.shop.evals.refunds
version: 1.0.0
modes: [golden]
tasks:
  - taskId: task-1
    input: &request { items: [a, b] }
    expected: { kind: golden, match: { strategy: json-match, value: [a, b] } }
    fixtures: &fixtures
      toolResponses: [ { tool: t, response: &answer { n: [1] } } ]
      memorySeed: [ { id: m1, content: [old] } ]
  - taskId: task-2
    input: *request
    expected: { kind: golden, match: { strategy: json-match, value: [a, b] } }
    fixtures: *fixtures
  - taskId: task-3
    input: *request
    expected: { kind: golden, match: { strategy: json-match, value: *request } }
"""


def test_what_an_agent_does_to_input_answers_and_memory_stays_with_its_task(
    workshop: Workshop,
) -> None:
    """Even where the suite file writes a value once and refers to it three times."""

    def greedy(task: Any) -> Any:
        found = list(task.input["items"])
        task.input["items"].clear()
        task.input["stolen"] = True
        if task.id == "task-3":
            return {"items": found}
        for _ in range(2):
            answer = task.call_tool("t")
            assert answer == {"n": [1]}
            answer["n"].append(2)
        assert [entry["content"] for entry in task.memory] == [["old"]]
        task.memory[0]["content"].append("new")
        task.memory.clear()
        return found

    suite = parse_suite(SHARED_BY_ALIAS, "suite.yaml")
    recording = workshop.run(suite, greedy, concurrency=1)
    assert recording.summary.passed_count == 3
    assert recording.of("agent.toolReturned", "task-2")[0]["outcome"] == {"n": [1]}


def test_what_an_agent_does_to_its_arguments_later_does_not_change_the_record(
    workshop: Workshop,
) -> None:
    def agent(task: Any) -> str:
        args = {"ids": [1]}
        task.call_tool("shop:orders.get", args)
        args["ids"].append(2)
        return "yes"

    recording = workshop.run(a_suite([a_task(fixtures=THREE_ANSWERS)]), agent)
    assert recording.of("agent.toolCalled")[0]["inputs"] == {"ids": [1]}


def test_an_output_that_two_tasks_share_is_recorded_as_it_was(workshop: Workshop) -> None:
    shared: list[str] = []

    def agent(task: Any) -> list[str]:
        shared.append(task.id)
        return shared

    recording = workshop.run(a_suite(tasks=3), agent, concurrency=1)
    assert recording.decision("task-1") == ["task-1"]
    assert recording.decision("task-3") == ["task-1", "task-2", "task-3"]
