"""Marks of runs whose agent may not have used the fixtures, and warnings about unread memory."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from builders import a_suite, a_task
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.isolation import (
    MEMORY_UNUSED,
    NOT_ISOLATED,
    isolation_marks,
    memory_warnings,
)
from evalwright.engine.plan import plan_run
from subjects.command import Evalwright

TOOLS = {"toolResponses": [{"tool": "shop:orders.get", "response": 1}]}
MEMORY = {"memorySeed": [{"id": "contact"}]}


def an_agent(*, is_outside: bool = False, reads_memory: bool = True) -> SimpleNamespace:
    named = {"agent_id": "local.a.b", "ref": "a.py:b", "model_class": None, "allowed_tools": None}
    return SimpleNamespace(**named, is_outside=is_outside, reads_memory=reads_memory)


def marks(agent, *fixtures, **options) -> list[str]:
    tasks = [a_task(f"task-{n}", fixtures=each) for n, each in enumerate(fixtures)]
    suite = a_suite(tasks, modes=["golden", "live-shadow"])
    plan = plan_run(suite, "suite", agent, RunOptions(**{"modes": ("golden",), **options}))
    return isolation_marks(plan, agent)


@pytest.mark.parametrize("fixtures", [TOOLS, MEMORY, TOOLS | MEMORY])
def test_an_outside_agent_with_fixtures_is_not_isolated(fixtures):
    assert marks(an_agent(is_outside=True), None, fixtures) == [NOT_ISOLATED]


def test_an_agent_that_sees_only_what_it_is_given_is_isolated():
    assert marks(an_agent(), TOOLS, MEMORY) == []
    assert marks(an_agent(is_outside=True), None, {}) == []
    assert marks(an_agent(is_outside=True), TOOLS, gateway=True) == []


def test_a_live_run_uses_no_fixtures_on_purpose():
    outside = an_agent(is_outside=True, reads_memory=False)
    assert marks(outside, TOOLS | MEMORY, modes=("live-shadow",)) == []


def test_memory_that_is_not_read_is_marked_and_named_once():
    forgetful = an_agent(reads_memory=False)
    assert marks(forgetful, None, MEMORY, MEMORY) == [MEMORY_UNUSED]
    assert marks(forgetful, TOOLS) == []
    suite = a_suite([a_task("a"), a_task("b", fixtures=MEMORY), a_task("c", fixtures=MEMORY)])
    [warning] = memory_warnings(suite, forgetful)
    assert str(warning) == (
        "$.tasks[1].fixtures.memorySeed: task 'b' has it, as do 1 other tasks, and agent "
        "'local.a.b' reads no memory (set memoryShape.longTerm in its manifest, or leave "
        "memorySeed out)"
    )
    one = replace(suite, tasks=suite.tasks[:2])
    assert "task 'b' has it, and agent" in str(memory_warnings(one, forgetful)[0])


def test_the_command_line_warns_of_memory_that_a_manifest_does_not_read(evalwright: Evalwright):
    manifest = (
        '{"agentId": "vendor.acme.desk", "persona": "Desk", "modelClass": "general",'
        ' "systemPrompt": "You work at a desk."%s}'
    )
    (evalwright.folder / "yes.json").write_text('[{"reply": "yes"}]')
    suite = evalwright.suite(a_suite([a_task(fixtures=MEMORY)]))
    for more, is_warned in (("", True), (', "memoryShape": {"longTerm": true}', False)):
        (evalwright.folder / "desk.json").write_text(manifest % more)
        done = evalwright("run", suite, "--agent", "desk.json", "--model", "scripted:yes.json")
        assert done.code == 0, done.err
        assert ("warning: suite.json: $.tasks[0].fixtures.memorySeed" in done.err) == is_warned
