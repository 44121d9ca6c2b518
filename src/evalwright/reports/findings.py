"""Why tasks failed: what was expected and what the agent said, read from the log."""

from collections.abc import Iterable
from typing import Any

import msgspec

from evalwright.contracts.events import Decided, EvalScored, Event, InvocationCompleted
from evalwright.contracts.suite import Suite, Task


class TaskStory(msgspec.Struct, frozen=True):
    """One task with what the agent decided, and its score where it has one."""

    task: Task
    scored: EvalScored | None
    decision: Any
    answered: bool

    @property
    def error(self) -> dict[str, Any] | None:
        """The error that stands for an answer, where there was none."""
        return self.decision.get("error") if not self.answered else None


def task_stories(
    suite: Suite, events: Iterable[Event], wanted: set[str] | None = None
) -> list[TaskStory]:
    """The tasks that did not pass or were not answered, or those asked for, in suite order."""
    decisions: dict[str, bytes] = {}
    outcomes: dict[str, str] = {}
    scores: dict[str, EvalScored] = {}
    for event in events:
        task_id = event.task_id or ""
        if wanted is not None and task_id not in wanted:
            continue
        match event.type:
            case Decided.TYPE:
                decisions[task_id] = event.body
            case InvocationCompleted.TYPE:
                outcomes[task_id] = event.decode(InvocationCompleted).outcome
            case EvalScored.TYPE:
                scores[task_id] = event.decode(EvalScored)
                if wanted is None and scores[task_id].passed:
                    decisions.pop(task_id, None)
    ended = decisions.keys() & outcomes.keys()
    return [
        TaskStory(
            task=task,
            scored=scores.get(task.task_id),
            decision=_decision(decisions[task.task_id]),
            answered=outcomes[task.task_id] != "failed",
        )
        for task in suite.tasks
        if task.task_id in ended
    ]


STORY_TYPES = (Decided.TYPE, InvocationCompleted.TYPE, EvalScored.TYPE)


def _decision(body: bytes) -> Any:
    return msgspec.json.decode(body, type=Decided).decision
