"""Workers share the tasks of a run: every task is handed out once."""

from collections import Counter
from typing import Any

from builders import a_suite
from subjects.runs import Workshop


def test_every_task_is_handed_out_once_and_then_there_is_none(workshop: Workshop) -> None:
    asked: Counter[str] = Counter()

    async def answer(task: Any) -> str:
        asked[task.id] += 1
        return "yes"

    recording = workshop.run(a_suite(100), answer, concurrency=7)
    assert recording.summary.passed_count == 100
    assert asked == Counter(f"task-{n}" for n in range(1, 101))


def test_there_are_no_more_workers_than_tasks(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(2), lambda _: "yes", concurrency=10_000)
    assert recording.summary.passed_count == 2
