"""Live-shadow: fixtures are ignored, live tools are called, writing can be refused."""

from typing import Any

import msgspec

from builders import a_suite, a_task
from evalwright.agents.protocol import Surroundings, ToolError
from evalwright.agents.toolbox import LiveTool, Toolbox, ToolDescription, ToolFailed
from evalwright.contracts.redaction import Redactor
from evalwright.contracts.suite import Expected, Task, ToolFault, World, WorldTool
from evalwright.engine.task_work import RunResources
from subjects.runs import Recording, Workshop

CANNED = {
    "toolResponses": [{"tool": "clock.now", "response": "canned"}],
    "memorySeed": [{"id": "m-1", "content": "canned", "tags": []}],
}
SUITE = a_suite([a_task("task-1", value="live", fixtures=CANNED)], modes=["golden", "live-shadow"])


async def now(arguments: dict[str, Any]) -> str:
    return "live"


async def broken(arguments: dict[str, Any]) -> str:
    raise ToolFailed("tool_timeout", "no answer within 1 s")


def surroundings(**more: Any) -> Surroundings:
    tools = [
        LiveTool(ToolDescription("clock.now", writes=False), now),
        LiveTool(ToolDescription("mail.send"), now),
        LiveTool(ToolDescription("door.open", writes=False), broken),
        LiveTool(ToolDescription("only.described")),
    ]
    return Surroundings(Toolbox(tools), live=True, **more)


def live(workshop: Workshop, agent: Any, **more: Any) -> Recording:
    return workshop.run(
        SUITE, agent, modes=("live-shadow",), resources=RunResources(surroundings(**more))
    )


async def ask_the_time(task: Any) -> Any:
    assert not task.memory
    return await task.call_tool("clock.now")


def test_live_tools_answer_in_place_of_fixtures_and_memory_is_not_seeded(
    workshop: Workshop,
) -> None:
    recording = live(workshop, ask_the_time)
    assert recording.decision("task-1") == "live"
    (started,) = recording.of("agent.invocation.started")
    assert started["toolSurfaceCount"] == 4
    assert "memoryBound" not in started
    (returned,) = recording.of("agent.toolReturned")
    assert (returned["outcome"], returned["status"]) == ("live", "ok")


def test_an_agent_in_a_thread_calls_live_tools_too(workshop: Workshop) -> None:
    assert live(workshop, lambda task: task.call_tool("clock.now")).decision("task-1") == "live"


def trying(tool: str) -> Any:
    def agent(task: Any) -> str:
        try:
            return str(task.call_tool(tool))
        except ToolError as error:
            return str(error)

    return agent


def test_a_read_only_run_refuses_tools_that_may_write_and_records_it(workshop: Workshop) -> None:
    recording = live(workshop, trying("mail.send"), read_only=True)
    (returned,) = recording.of("agent.toolReturned")
    assert returned["status"] == "forbidden"
    assert returned["error"]["code"] == "read_only"
    assert "read-only" in recording.decision("task-1")


def test_a_read_only_run_lets_tools_read(workshop: Workshop) -> None:
    assert live(workshop, trying("clock.now"), read_only=True).decision("task-1") == "live"


def test_a_tool_that_fails_is_an_error_of_the_call(workshop: Workshop) -> None:
    recording = live(workshop, trying("door.open"))
    (returned,) = recording.of("agent.toolReturned")
    assert returned["error"] == {"code": "tool_timeout", "message": "no answer within 1 s"}


def test_a_tool_that_nobody_offers_live_is_never_answered_from_fixtures(
    workshop: Workshop,
) -> None:
    for tool in ("stock.check", "only.described"):
        (returned,) = live(workshop, trying(tool)).of("agent.toolReturned")
        assert returned["error"]["code"] == "no_such_tool"


def test_known_secrets_are_in_nothing_that_is_recorded(workshop: Workshop) -> None:
    secret = 'hunter2-"quoted"'
    redactor = Redactor({"DOOR_KEY": secret})

    def leaking(task: Any) -> str:
        return f"the key is {secret}"

    recording = live(workshop, leaking, redactor=redactor)
    assert recording.decision("task-1") == "the key is [REDACTED:DOOR_KEY]"
    assert "hunter2" not in str(recording.events)


def test_a_secret_that_is_a_word_of_ours_does_not_damage_the_log(workshop: Workshop) -> None:
    recording = live(workshop, ask_the_time, redactor=Redactor({"ODD": "completed"}))
    assert recording.outcome_of("task-1") == "completed"
    assert recording.summary.passed


def test_live_tools_leave_a_world_and_its_faults_out_and_its_state_unknown(
    workshop: Workshop,
) -> None:
    checks = [{"contains": "live"}, {"state": "unchanged"}, {"not": {"state": "unchanged"}}]
    task = Task(
        "task-1",
        "?",
        Expected("checks", checks=checks),
        world="w",
        faults=[ToolFault("error", "clock.now")],
    )
    world = World({"times": [{"id": 1}]}, {"clock.now": WorldTool(delete="times")})
    suite = msgspec.structs.replace(
        a_suite([task], modes=["golden", "live-shadow"]), worlds={"w": world}
    )
    resources = RunResources(surroundings())
    recording = workshop.run(suite, ask_the_time, modes=("live-shadow",), resources=resources)
    assert recording.decision("task-1") == "live"
    assert recording.of("evalwright.worldChanged") == []
    (returned,) = recording.of("agent.toolReturned")
    assert "fault" not in returned
    (checked,) = recording.of("evalwright.checked")
    assert [each["passed"] for each in checked["checks"]] == [True, False, False]
