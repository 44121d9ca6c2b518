"""The tool gateway: agents that are black boxes get their tools over MCP, from the fixtures."""

import asyncio
import json
import os
import shlex
import sys
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.agents.gateway import Gateway
from evalwright.agents.load import load_agent
from evalwright.agents.protocol import Agent, Surroundings
from evalwright.agents.wire import encode_request
from evalwright.contracts.suite import Suite
from subjects import logs
from subjects.command import SUBJECTS
from subjects.endpoint import Reply, Request, answer, serving
from subjects.gateways import an_open_gateway
from subjects.mcp_client import ask
from subjects.runs import Recording, Workshop

FIXTURES = {
    "toolResponses": [
        {"tool": "shop:orders.get", "response": {"status": "shipped"}},
        {"tool": "shop:orders.get", "response": {"status": "delivered"}},
        {"tool": "policy", "response": "be kind"},
    ],
    "memorySeed": [{"id": "m1", "content": "likes e-mail"}],
}
ORDER = ["shop_orders_get", {"id": "A-17"}]
EXPECTED = [{"status": "shipped"}, {"status": "delivered"}, {"status": "delivered"}, "be kind"]


def a_suite_of_calls(calls: list[Any], value: Any, *, tasks: int = 1) -> Suite:
    return a_suite(
        [
            a_task(f"task-{n}", input=calls, value=value, fixtures=FIXTURES)
            for n in range(1, tasks + 1)
        ]
    )


def a_program() -> Agent:
    """A command agent with a gateway."""
    command = shlex.join([sys.executable, str(SUBJECTS / "mcp_client.py")])
    return load_agent(f"cmd:{command}", "acme.clerk", gateway=Gateway())


def behind(url: str) -> Agent:
    """An HTTP agent with a gateway."""
    return load_agent(url, "acme.clerk", gateway=Gateway())


def by_client(request: Request) -> Reply:
    return answer(ask(request.body))


def run_behind_an_address(
    workshop: Workshop, suite: Suite, respond: Any = by_client, **options: Any
) -> Recording:
    with serving(respond) as endpoint:
        return workshop.run(suite, behind(endpoint.url), **options)


def assert_orders_recorded(recording: Recording) -> None:
    logs.assert_complete(recording.events)
    calls, returns = recording.of("agent.toolCalled"), recording.of("agent.toolReturned")
    assert [call["callId"] for call in calls] == [f"inv-0001:c{n}" for n in (1, 2, 3, 4)]
    assert [call["toolName"] for call in calls] == ["shop:orders.get"] * 3 + ["policy"]
    assert [call["inputs"] for call in calls] == [{"id": "A-17"}] * 3 + [{}]
    assert [answer["outcome"] for answer in returns] == EXPECTED


def test_a_program_gets_its_fixtures_through_an_mcp_client(workshop: Workshop) -> None:
    suite = a_suite_of_calls([ORDER, ORDER, ORDER, ["policy", None]], EXPECTED)
    recording = workshop.run(suite, a_program())
    assert recording.summary.passed
    assert_orders_recorded(recording)


def test_an_agent_behind_an_address_gets_its_fixtures_through_an_mcp_client(
    workshop: Workshop,
) -> None:
    suite = a_suite_of_calls([ORDER, ORDER, ORDER, ["policy", None]], EXPECTED)
    recording = run_behind_an_address(workshop, suite)
    assert recording.summary.passed
    assert_orders_recorded(recording)


def test_two_runs_record_the_same(workshop: Workshop) -> None:
    suite = a_suite_of_calls([ORDER, ["nothing", {}], ORDER], "no matter", tasks=2)
    kinds = ("agent.toolCalled", "agent.toolReturned", "agent.decided")
    with serving(by_client) as endpoint:
        first, second = (
            [workshop.run(suite, behind(endpoint.url)).of(kind, "task-2") for kind in kinds]
            for _ in range(2)
        )
    assert first == second


def test_many_tasks_at_once_keep_their_answers_apart(workshop: Workshop) -> None:
    tasks = [
        a_task(
            f"task-{n}",
            input=[["number", {"n": n}], ["number", {"n": n}]],
            value=[{"n": n}, {"n": -n}],
            fixtures={
                "toolResponses": [
                    {"tool": "number", "response": {"n": n}},
                    {"tool": "number", "response": {"n": -n}},
                ]
            },
        )
        for n in range(1, 13)
    ]
    recording = run_behind_an_address(workshop, a_suite(tasks), concurrency=6)
    assert recording.summary.passed_count == 12
    for n in range(1, 13):
        calls = recording.of("agent.toolCalled", f"task-{n}")
        assert [call["inputs"] for call in calls] == [{"n": n}] * 2


def test_a_tool_without_a_fixture_is_an_error_the_agent_sees_and_the_log_keeps(
    workshop: Workshop,
) -> None:
    recording = run_behind_an_address(workshop, a_suite_of_calls([["shop:refund", {}]], []))
    (said,) = recording.decision("task-1")
    assert "the tool has no result for this call" in said["error"]
    (returned,) = recording.of("agent.toolReturned")
    assert (returned["toolName"], returned["status"]) == ("shop:refund", "error")
    assert returned["error"]["code"] == "no_fixture"


def test_the_request_carries_the_gateway_and_leaves_its_answers_to_it(workshop: Workshop) -> None:
    with serving(lambda _: answer("yes")) as endpoint:
        workshop.run(a_suite([a_task(fixtures=FIXTURES)]), behind(endpoint.url))
        workshop.run(a_suite([a_task(fixtures=FIXTURES)]), load_agent(endpoint.url))
    with_gateway, without = (request.body for request in endpoint.requests)
    gateway = with_gateway["toolGateway"]
    assert gateway["transport"] == "streamable-http"
    assert gateway["url"].startswith("http://127.0.0.1:")
    assert with_gateway["fixtures"] == {"memorySeed": FIXTURES["memorySeed"]}
    assert "toolGateway" not in without
    assert without["fixtures"] == FIXTURES


def test_live_tools_leave_no_fixtures_to_be_sent() -> None:
    async def request() -> Any:
        async with an_open_gateway(surroundings=Surroundings(live=True)) as scene:
            return json.loads(encode_request(scene.invocation))

    assert "fixtures" not in asyncio.run(request())


def test_the_address_of_an_invocation_is_in_no_event(workshop: Workshop) -> None:
    tokens: list[str] = []

    def respond(request: Request) -> Reply:
        tokens.append(request.body["toolGateway"]["url"].rpartition("/")[2])
        return by_client(request)

    recording = run_behind_an_address(workshop, a_suite_of_calls([ORDER], [], tasks=2), respond)
    assert len(set(tokens)) == 2
    assert not any(token in str(recording.events) for token in tokens)


def test_the_environment_of_a_program_without_a_gateway_is_left_alone(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALWRIGHT_TOOL_GATEWAY", "http://elsewhere.example/")
    script = "import json, os; print(json.dumps({'output': os.environ['EVALWRIGHT_TOOL_GATEWAY']}))"
    command = shlex.join([sys.executable, "-c", script])
    recording = workshop.run(a_suite(1), load_agent(f"cmd:{command}"))
    assert recording.decision("task-1") == os.environ["EVALWRIGHT_TOOL_GATEWAY"]


# What an agent also reports.


def reporting(*events: dict[str, Any]) -> Any:
    def respond(request: Request) -> Reply:
        return answer(ask(request.body), events=list(events))

    return respond


def a_report(name: str, call_id: str, **fields: Any) -> list[dict[str, Any]]:
    """A call and its return, as an agent reports them."""
    called = {"type": "agent.toolCalled", "toolName": name, "callId": call_id, **fields}
    returned = {"type": "agent.toolReturned", "toolName": name, "callId": call_id, "outcome": 0}
    return [called, returned]


@pytest.mark.parametrize(
    "report",
    [
        a_report("shop:orders.get", "x", inputs={"id": "A-17"}),
        a_report("shop_orders_get", "x", inputs={"id": "A-17"}),
        a_report("shop_orders_get", "x"),
    ],
    ids=["by its own name", "by the listed name", "without inputs"],
)
def test_a_call_through_the_gateway_is_recorded_once_though_the_agent_reports_it(
    workshop: Workshop, report: list[dict[str, Any]]
) -> None:
    reasoned = {"type": "agent.reasoned", "reasoning": "look it up"}
    respond = reporting(reasoned, *report)
    recording = run_behind_an_address(workshop, a_suite_of_calls([ORDER], []), respond)
    assert logs.task_shape(recording.events, "task-1") == "stardcS"
    (returned,) = recording.of("agent.toolReturned")
    assert returned["outcome"] == {"status": "shipped"}


@pytest.mark.parametrize(
    "report",
    [
        a_report("calculator", "x"),
        a_report("shop_orders_get", "x", inputs={"id": "B-4"}),
        a_report("shop_orders_get", "a") + a_report("shop_orders_get", "a"),
    ],
    ids=["another tool", "other inputs", "once more"],
)
def test_a_reported_call_that_did_not_go_through_the_gateway_is_recorded(
    workshop: Workshop, report: list[dict[str, Any]]
) -> None:
    suite = a_suite_of_calls([ORDER], [])
    recording = run_behind_an_address(workshop, suite, reporting(*report))
    logs.assert_complete(recording.events)
    assert [each["outcome"] for each in recording.of("agent.toolReturned")] == [
        {"status": "shipped"},
        0,
    ]


# The end.


def test_the_gateway_ends_with_its_agent(workshop: Workshop) -> None:
    urls: list[str] = []

    def respond(request: Request) -> Reply:
        urls.append(request.body["toolGateway"]["url"])
        return answer("yes")

    run_behind_an_address(workshop, a_suite(1), respond)
    host, port = urls[0].split("/")[2].split(":")
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(asyncio.open_connection(host, int(port)))


def test_an_agent_whose_calls_went_well_but_that_fails_has_failed(workshop: Workshop) -> None:
    def respond(request: Request) -> Reply:
        output = ask(request.body)
        works = request.body["taskId"] != "task-1"
        return answer(output) if works else Reply(b"out of order", status=500)

    suite = a_suite_of_calls([ORDER], [{"status": "shipped"}], tasks=2)
    recording = run_behind_an_address(workshop, suite, respond)
    logs.assert_complete(recording.events)
    assert recording.outcome_of("task-1") == "failed"
    assert recording.decision("task-1")["error"]["code"] == "agent_error"
    assert (recording.score("task-1")["score"], recording.score("task-2")["score"]) == (0, 1)
    assert len(recording.of("agent.toolReturned")) == 2
