"""Live-shadow runs on a host: offered only with tools, which answer in place of fixtures."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.agents.python import PythonAgent
from evalwright.agents.toolbox import Toolbox
from evalwright.contracts.errors import StoreError
from evalwright.host.runs.executor import EvaluationExecutor
from host.server import RIGHT, ServedHost, running_host
from subjects.waiting import eventually

AGENT = """
async def ask(task):
    return (await task.call_tool("shop:clock", {}))["now"]
"""
TOOLS = {"tools": [{"name": "shop:clock", "description": "tells", "python": "clock.py:now"}]}
FIXTURE = {"toolResponses": [{"tool": "shop:clock", "response": {"now": "fixture"}}]}
SUITE = a_suite([a_task(value="live", fixtures=FIXTURE)], modes=["golden", "live-shadow"])


def modes(served: ServedHost) -> list[str]:
    told: dict[str, Any] = served.nobody().get("/.well-known/openwop").json()
    return list(told["agents"]["evalSuite"]["modes"])


def test_without_tools_the_mode_is_neither_offered_nor_run(lasting: ServedHost):
    caller = lasting.caller("no-tools")
    refused = caller.create(SUITE, RIGHT, configurable={"evalModes": ["live-shadow"]})
    assert "live-shadow" not in modes(lasting)
    assert refused.refusal == (400, "validation_error")


def test_the_operators_tools_answer_in_place_of_fixtures_and_no_log_tells_where_they_are(
    tmp_path: Path,
):
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "clock.py").write_text('def now():\n    return {"now": "live"}\n')
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    settings = {
        "tools": str(tmp_path / "tools.json"),
        "agents": {"acme.asking": {"ref": f"{tmp_path / 'agent.py'}:ask"}},
    }
    with running_host(tmp_path / "host.db", settings=settings) as served:
        caller = served.caller()
        live = caller.evaluate(SUITE, "acme.asking", configurable={"evalModes": ["live-shadow"]})
        golden = caller.evaluate(SUITE, "acme.asking", configurable={"evalModes": ["golden"]})
        passed = [
            caller.get(f"/v1/runs/{run_id}/eval-summary").json()["passed"]
            for run_id in (live, golden)
        ]
        assert passed == [True, False]
        assert "live-shadow" in modes(served)
        told = caller.get(f"/v1/runs/{live}/events/poll").body
        assert str(tmp_path).encode() not in told


# Tools that are closed, whatever happens to the run.


@pytest.fixture
def closed() -> list[str]:
    """What was closed."""
    return []


@pytest.fixture
def with_tools(
    tmp_path: Path, closed: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServedHost]:
    """A host whose tools, and whose agents, note that they are closed."""

    async def close_tools() -> None:
        closed.append("tools")

    async def load(*_: object, **__: object) -> Toolbox:
        return Toolbox(close=[close_tools])

    async def close_agent(_: PythonAgent) -> None:
        closed.append("agent")

    monkeypatch.setattr("evalwright.agents.tool_files.load_tools", load)
    monkeypatch.setattr(PythonAgent, "close", close_agent)
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    settings = {"tools": str(tmp_path / "tools.json")}
    with running_host(tmp_path / "host.db", settings=settings) as served:
        yield served


LIVE = {"evalModes": ["live-shadow"]}


def test_a_run_that_cannot_be_created_leaves_no_tools_open(
    with_tools: ServedHost, closed: list[str], monkeypatch: pytest.MonkeyPatch
):
    async def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(EvaluationExecutor, "open", fail)
    refused = with_tools.caller().create(SUITE, RIGHT, configurable=LIVE)
    assert refused.refusal == (503, "service_unavailable")
    assert closed == ["agent", "tools"]


def test_a_run_that_is_one_too_many_leaves_its_agent_closed_once(
    with_tools: ServedHost, closed: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(with_tools.host.runs, "_is_stopping", True)
    refused = with_tools.caller().create(SUITE, RIGHT, configurable=LIVE)
    assert refused.refusal == (503, "service_unavailable")
    assert closed == ["agent"]


def test_tools_are_closed_though_the_agent_fails_to_close(
    with_tools: ServedHost, closed: list[str], monkeypatch: pytest.MonkeyPatch
):
    async def fail(_: PythonAgent) -> None:
        raise OSError("gone")

    monkeypatch.setattr(PythonAgent, "close", fail)
    with_tools.caller().evaluate(SUITE, RIGHT, configurable=LIVE)
    eventually(lambda: closed == ["tools"], "closed tools")
