"""Live-shadow runs on a host: offered only with tools, which answer in place of fixtures."""

import json
from pathlib import Path
from typing import Any

from builders import a_suite, a_task
from host.server import RIGHT, ServedHost, running_host

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
