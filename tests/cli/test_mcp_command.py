"""`evalwright mcp`: the log for coding agents, asked by the real MCP client."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from subjects.command import Evalwright

SECRET = "sk-proj-" + "Ab3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5oQ7s"
AGENT = """
import os
def answer(task, question):
    task.call_tool("shop:orders.get", {"id": question})
    if question == "leak":
        return "the key is " + os.environ["LEAK"]
    return os.environ["ANSWER"] + " " + question
"""


@pytest.fixture
def recorded(evalwright: Evalwright, monkeypatch: pytest.MonkeyPatch) -> Evalwright:
    """A good run called `main`, and a worse one after it."""
    tasks = [
        {
            "id": name,
            "input": {"question": name},
            "checks": [{"contains": "hello"}],
            "fixtures": {"toolResponses": [{"tool": "shop:orders.get", "response": 1}]},
        }
        for name in ("first", "leak")
    ]
    folder = evalwright.folder
    (folder / "agent.py").write_text(AGENT)
    (folder / "desk.evals.json").write_text(
        json.dumps({"evalwright": 1, "name": "desk", "agent": "agent.py:answer", "tasks": tasks})
    )
    monkeypatch.setenv("LEAK", SECRET)
    monkeypatch.setenv("ANSWER", "hello")
    evalwright("run", "desk.evals.json")
    assert evalwright("baseline", "set", "main").code == 0
    monkeypatch.setenv("ANSWER", "x" * 5000)
    evalwright("run", "desk.evals.json")
    return evalwright


def asked(evalwright: Evalwright, ask: Callable[[Client], Awaitable[Any]]) -> Any:
    async def session() -> Any:
        program = StdioServerParameters(
            command=sys.executable,
            args=["-m", "evalwright", "mcp", "--db", str(evalwright.db)],
            cwd=evalwright.folder,
        )
        async with Client(stdio_client(program)) as client:
            return await ask(client)

    return asyncio.run(session())


async def told(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


def test_a_coding_agent_finds_what_got_worse_and_why_without_secrets(recorded: Evalwright) -> None:
    async def ask(client: Client) -> list[Any]:
        return [
            await told(client, "list_runs", limit=1),
            await told(client, "show_run"),
            await told(client, "list_failures"),
            await told(client, "show_task", task="first"),
            await told(client, "compare_runs", baseline="main"),
            await told(client, "list_baselines"),
            await told(client, "show_task", task="leak"),
        ]

    runs, run, failures, task, comparison, baselines, leak = answers = asked(recorded, ask)
    assert "the key is" in leak["output"]
    assert SECRET not in json.dumps(answers)
    assert (len(runs["runs"]), runs["total"]) == (1, 2)
    assert runs["runs"][0]["runId"] == run["runId"]
    assert run["failedTasks"] == ["first", "leak"]
    assert (runs["runs"][0]["result"], run["verdict"]) == ("failed", "failed")
    assert run["reasons"] == ["0 of 2 tasks passed, and every task must pass (default)"]
    assert [each["taskId"] for each in failures["failures"]] == ["first", "leak"]
    assert failures["failures"][0]["checks"][0]["expected"] == "hello"
    assert task["output"].endswith("more characters)")
    assert {event["type"] for event in task["trace"]} == {"agent.toolCalled", "agent.toolReturned"}
    assert [each["taskId"] for each in comparison["changed"]] == ["first"]
    assert comparison["changed"][0]["change"] == "regression"
    assert comparison["blocksShipping"]
    assert baselines["baselines"][0]["name"] == "main"


def test_tools_only_read_and_errors_name_the_remedy(recorded: Evalwright) -> None:
    async def ask(client: Client) -> tuple[Any, list[Any]]:
        tools = (await client.list_tools()).tools
        wrong = [
            await client.call_tool("show_task", {"task": "third"}),
            await client.call_tool("show_run", {"run": "run_nowhere"}),
            await client.call_tool("show_run", {"run": "elsewhere.jsonl"}),
            await client.call_tool("list_failures", {"run": "elsewhere.jsonl"}),
            await client.call_tool("compare_runs", {"baseline": "main", "new": "elsewhere.jsonl"}),
            await client.call_tool("compare_runs", {"baseline": "elsewhere.jsonl"}),
        ]
        return tools, wrong

    assert recorded("run", "desk.evals.json", "--out", "kept").code == 1
    before = recorded("runs", "--json").out
    events = (recorded.folder / "kept" / "events.jsonl").read_text()
    elsewhere = events.replace(json.loads(before)[0]["runId"], "run_elsewhere")
    (recorded.folder / "elsewhere.jsonl").write_text(elsewhere)
    tools, (no_task, no_run, *files) = asked(recorded, ask)
    for each in files:
        assert each.is_error
        assert "only runs in the log are read here" in each.content[0].text
    assert len(tools) == 6
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
    inputs = [each for tool in tools for each in tool.input_schema["properties"].values()]
    assert all(each["description"] for each in inputs)
    assert no_task.is_error
    assert "it has first, leak" in no_task.content[0].text
    assert no_run.is_error
    assert "`evalwright runs` lists them" in no_run.content[0].text
    assert recorded("runs", "--json").out == before
