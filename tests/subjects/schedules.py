"""Schedules of crashes, duplicates and delays, made from seeds, and what no run may break."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from builders import a_rubric_task, a_suite, a_task
from evalwright.contracts.events import TERMINAL_TYPES, Event
from evalwright.contracts.suite import Expected, Suite, Task
from evalwright.engine.suites.validation import check_events
from subjects.judges import JUDGE, Judge

PRICE = 0.4
FAILING = "failing"


class Scene:
    """A suite with tasks of every kind, and an agent that answers each the same way every time."""

    def __init__(self, seed: int, *, repeats: bool = True) -> None:
        self.random = random.Random(seed)
        self.has_budget = self.random.random() < 0.4
        kinds = ["right", "wrong", FAILING, "often", "judged"]
        if not repeats and self.has_budget:
            kinds.remove("often")
        if self.random.random() < 0.15:
            kinds = [FAILING]
        names = [f"{self.random.choice(kinds)}-{n}" for n in range(self.random.randint(2, 7))]
        self.suite: Suite = a_suite([_task(name) for name in names], modes=["golden", "rubric"])
        self.asked: Counter[str] = Counter()
        self.is_slow = self.random.random() < 0.5

    @property
    def options(self) -> dict[str, Any]:
        """How the run is asked for."""
        options: dict[str, Any] = {"concurrency": self.random.randint(1, 4)}
        if any(task.expected.kind == "rubric" for task in self.suite.tasks):
            options["judges"] = (JUDGE,)
        if self.has_budget:
            options["max_cost_usd"] = PRICE * self.random.randint(2, 12)
        return options

    def judge(self) -> Judge:
        return Judge(lambda _name, _shown: True)

    async def answer(self, task: Any) -> str:
        """What the agent says; a call is paid for when it begins, and told of when it ends."""
        self.asked[task.id] += 1
        for _ in range(self.random.randint(0, 3) if self.is_slow else 0):
            await asyncio.sleep(0)
        task.report_usage(model="small-1", input_tokens=1, output_tokens=1, cost_usd=PRICE)
        if task.id.startswith(FAILING):
            raise RuntimeError("not today")
        return "no" if task.id.startswith("wrong") else "yes"

    @property
    def paid(self) -> float:
        """What the agent's calls really cost, recorded or not."""
        return PRICE * sum(self.asked.values())


def _task(name: str) -> Task:
    if name.startswith("often"):
        return Task(name, "Hi", Expected("checks", checks=[{"equals": "yes"}]), repeat=3)
    if name.startswith("judged"):
        return a_rubric_task(name, [0.7, 0.3])
    return a_task(name)


def assert_nothing_is_broken(scene: Scene, events: Sequence[Event], limit: float | None) -> None:
    """What holds of every run that has ended, however it came about."""
    assert check_events([event.to_json() for event in events], "event") == []
    kinds = [event.type for event in events]
    assert sum(kind in TERMINAL_TYPES for kind in kinds) == 1
    assert kinds[-1] in TERMINAL_TYPES
    scored: set[str] = set()
    answers: Counter[tuple[str, str]] = Counter()
    last: dict[str, str] = {}
    for event in events:
        task_id, body = event.task_id or "", msgspec.json.decode(event.body)
        if event.type == "agent.invocation.started":
            assert task_id not in scored, "it was scored already"
        elif event.type == "agent.invocation.completed":
            last[task_id] = body["outcome"]
            if body["outcome"] != "failed":
                answers[task_id, body["invocationId"].partition(".")[0]] += 1
        elif event.type == "eval.scored":
            assert task_id not in scored, "it was scored twice"
            scored.add(task_id)
            assert not (last[task_id] == "failed" and body["passed"]), "an error passed"
            assert body["passed"] == task_id.startswith(("right", "often", "judged"))
    assert all(count == 1 for count in answers.values()), "an answer was asked for twice"
    if limit is not None:
        assert scene.paid <= limit + 1e-9, "it cost more than it may"
    if kinds[-1] == "run.completed":
        assert scored == {task.task_id for task in scene.suite.tasks}
