"""From a suite to one whose tools fail: its tasks as they are, and each again with every fault."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import get_args

import msgspec

from evalwright.attacks.derive import Derived
from evalwright.attacks.seeded_choice import Chance
from evalwright.contracts.errors import BadInput
from evalwright.contracts.suite import MAX_TASK_ID, FaultKind, Suite, Task, ToolFault

FAULTS: tuple[FaultKind, ...] = get_args(FaultKind)
_HASH = 8  # hex digits
_DERIVED = re.compile(rf"-faulty(?:-[0-9a-f]{{{_HASH}}})?\Z")


def has_derived_faults(suite_id: str) -> bool:
    """Whether the faults of a suite were derived from another one."""
    return _DERIVED.search(suite_id) is not None


def derive_faults(
    suite: Suite, kinds: Sequence[str] = (), seed: int = 0, per_task: int | None = None
) -> Derived:
    """The suite with its tasks again for each fault of each of their tools.

    A fault strikes the first call of its tool; a stale one strikes all, since at first nothing is.
    All kinds are used unless some are named; `per_task` is the most that one task is given, chosen
    by the seed. Tasks that have faults already are left alone. Raises `BadInput` where the suite
    answers no tool.
    """
    tasks: list[Task] = []
    taken = {task.task_id for task in suite.tasks}
    for task in suite.tasks:
        tasks.append(task)
        made = [] if task.faults else list(_faulty(suite, task, kinds or FAULTS))
        if per_task is not None:
            ranked = sorted(made, key=lambda each: Chance(seed, each.task_id).rank())[:per_task]
            made = [each for each in made if each in ranked]
        for each in made:
            task_id = each.task_id
            if len(task_id) > MAX_TASK_ID or task_id in taken:
                ending = f"-{_digest(task_id)}"
                task_id = f"{task_id[: MAX_TASK_ID - len(ending)]}{ending}"
            taken.add(task_id)
            tasks.append(msgspec.structs.replace(each, task_id=task_id))
    count = len(tasks) - len(suite.tasks)
    if not count:
        raise BadInput(
            f"{suite.suite_id}: no task has tools that could fail: faults strike tools that a "
            "world or toolResponses answer"
        )
    is_usual = not kinds and not seed and per_task is None
    options = "" if is_usual else f"-{_digest(f'{sorted(kinds)};{seed};{per_task}')}"
    suite_id = f"{suite.suite_id}-faulty{options}"
    return Derived(msgspec.structs.replace(suite, suite_id=suite_id, tasks=tasks), count, [])


def _faulty(suite: Suite, task: Task, kinds: Sequence[str]) -> Iterator[Task]:
    tools = [each.tool for each in task.fixtures.tool_responses] if task.fixtures else []
    if task.world:
        tools += suite.worlds[task.world].tools
    for tool in dict.fromkeys(tools):
        for kind in FAULTS:
            if kind in kinds:
                fault = ToolFault(kind, tool, on=None if kind == "stale" else 1)
                name = re.sub(r"[^a-z0-9]+", "-", f"{kind}-{tool}".lower()).strip("-")
                yield msgspec.structs.replace(
                    task, task_id=f"{task.task_id}-{name}", faults=[fault]
                )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH]
