"""Runs by a fleet of workers: the log cannot tell them from runs of one process."""

from typing import Any

import msgspec
import pytest

from builders import a_rubric_task, a_suite, a_task
from evalwright.agents.protocol import Surroundings
from evalwright.agents.toolbox import LiveTool, Toolbox, ToolDescription
from evalwright.contracts.suite import Expected, Task, ToolFault, World, WorldTool
from evalwright.engine.task_work import RunResources
from fleet.workers_here import Fleet, kinds_by_task, without_times
from subjects.judges import JUDGE, Judge, a_judge
from subjects.runs import Workshop


def right(_task: Any) -> str:
    return "yes"


def half_right(task: Any) -> str:
    if task.id.endswith(("1", "4")):
        raise RuntimeError("not today")
    return "yes" if task.id.endswith(("2", "5")) else "no"


def costing(task: Any) -> str:
    task.report_usage(model="small-1", input_tokens=1, output_tokens=1, cost_usd=0.4)
    return "yes"


def broken(_task: Any) -> str:
    raise RuntimeError("nobody is here")


def obedient(task: Any) -> str:
    return f"of course: {task.input}"


async def ask_the_time(task: Any) -> Any:
    return await task.call_tool("clock.now")


async def now(_arguments: dict[str, Any]) -> str:
    return "yes"


LIVE = a_suite(4, modes=["golden", "live-shadow"])
RUBRICS = a_suite([a_rubric_task(f"task-{n}", [0.7, 0.3]) for n in range(1, 5)], modes=["rubric"])
ATTACKS = a_suite([a_task(f"task-{n}") for n in range(1, 5)], modes=["golden", "adversarial"])


def create(task: Any) -> str:
    task.call_tool("refunds.create", {"order": task.id})
    return "yes"


WORLD = World({"refunds": []}, {"refunds.create": WorldTool(create="refunds")})
FAULT = ToolFault("slow", seconds=0.01)
IN_A_WORLD = msgspec.structs.replace(
    a_suite(
        [msgspec.structs.replace(a_task(f"task-{n}"), world="w", faults=[FAULT]) for n in (1, 2)]
    ),
    worlds={"w": WORLD},
)

MODES = {
    "world": (IN_A_WORLD, create, {"seed": 2}),
    "golden": (a_suite(7), right, {}),
    "failing": (a_suite(7), half_right, {"concurrency": 2}),
    "priced": (a_suite(5), costing, {"max_cost_usd": 9.0}),
    "judged": (RUBRICS, obedient, {"judges": (JUDGE,)}),
    "live": (LIVE, ask_the_time, {"modes": ("golden", "live-shadow")}),
    "adversarial": (ATTACKS, obedient, {"judges": (JUDGE,), "modes": ("golden", "adversarial")}),
}


def resources_of(options: dict[str, Any]) -> RunResources:
    if "live-shadow" in options.get("modes", ()):
        clock = LiveTool(ToolDescription("clock.now", writes=False), now)
        return RunResources(Surroundings(Toolbox([clock]), live=True))
    return a_judge(c1=True).panel() if "judges" in options else RunResources()


@pytest.mark.parametrize("mode", MODES)
def test_a_fleet_gives_the_same_summary_as_one_process(
    fleet: Fleet, workshop: Workshop, mode: str
) -> None:
    suite, agent, options = MODES[mode]
    alone = workshop.run(suite, agent, resources=resources_of(options), **options)
    together = fleet.run(suite, agent, resources_of(options), **options)

    assert without_times(together.summary) == without_times(alone.summary)
    assert kinds_by_task(together) == kinds_by_task(alone)
    assert [event["sequence"] for event in together.events] == list(range(len(together.events)))


def test_a_run_in_which_nobody_answers_has_no_scores(fleet: Fleet, workshop: Workshop) -> None:
    alone, together = workshop.run(a_suite(3), broken), fleet.run(a_suite(3), broken)

    assert alone.failure is not None
    assert together.failure is not None
    assert together.failure.code == "agent_unavailable"
    assert str(together.failure).split(": ", 1)[1] == str(alone.failure).split(": ", 1)[1]
    assert together.of("eval.scored") == []


def test_scores_that_were_held_back_come_with_the_first_answer(fleet: Fleet) -> None:
    def late(task: Any) -> str:
        if task.id != "task-5":
            raise RuntimeError("not today")
        return "yes"

    together = fleet.run(a_suite(5), late, workers=1, concurrency=1)
    assert together.summary.passed_count == 1
    assert len(together.of("eval.scored")) == 5


def test_a_run_without_a_verdict_fails_and_names_the_tasks(fleet: Fleet) -> None:
    judge = Judge(lambda _name, _shown: True)
    judge.broken = True
    together = fleet.run(RUBRICS, obedient, judge.panel(), judges=(JUDGE,))

    assert together.failure is not None
    assert together.failure.code == "judge_failed"
    assert "4 of 4 tasks have no verdict" in str(together.failure)
    assert len(together.of("agent.invocation.completed")) == 4


@pytest.mark.parametrize("budget", [{"max_cost_usd": 1.0}, {"max_tokens_total": 5}], ids=str)
def test_a_budget_holds_across_workers(
    fleet: Fleet, workshop: Workshop, budget: dict[str, Any]
) -> None:
    alone = workshop.run(a_suite(10), costing, concurrency=4, **budget)
    together = fleet.run(a_suite(10), costing, workers=3, concurrency=4, **budget)

    assert together.failure is not None
    assert together.of("run.failed")[0]["error"] == alone.of("run.failed")[0]["error"]
    assert len(together.of("eval.scored")) == 2
    assert together.of("cap.breached") == alone.of("cap.breached")


def test_a_repeated_task_is_asked_as_often_as_it_says(fleet: Fleet, workshop: Workshop) -> None:
    expected = Expected("checks", checks=[{"equals": "yes"}])
    tasks = [Task("often", "Hi", expected, repeat=3), Task("once", "Hi", expected)]
    suite = a_suite(tasks)
    alone, together = workshop.run(suite, right), fleet.run(suite, right)

    assert without_times(together.summary) == without_times(alone.summary)
    assert kinds_by_task(together) == kinds_by_task(alone)
    ids = [each["invocationId"] for each in together.of("agent.invocation.started", "often")]
    assert ids == ["inv-0001", "inv-0001-r2", "inv-0001-r3"]


def test_a_run_is_compared_with_its_baseline(fleet: Fleet) -> None:
    suite = a_suite(4, modes=["golden", "regression"])
    before = fleet.run(suite, right)
    after = fleet.run(suite, half_right, baseline=before.run_id)

    regression = after.summary.regression
    assert regression is not None
    assert (regression.baseline_run_id, regression.score_delta) == (before.run_id, -0.75)
