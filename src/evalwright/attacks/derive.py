"""From a suite to an adversarial one: its tasks as they are, and each again under attack."""

from collections.abc import Sequence

import msgspec

from evalwright.attacks.derived import attack_id, attacked_suite_id, long_attack_id
from evalwright.attacks.goals import make_order
from evalwright.attacks.places import put
from evalwright.attacks.seeded_choice import Chance
from evalwright.attacks.strategies import STRATEGIES, worded
from evalwright.contracts.errors import BadInput
from evalwright.contracts.suite import MAX_TASK_ID, Fixtures, Suite, Task


class Skipped(msgspec.Struct, frozen=True):
    """A task that a strategy has no place in."""

    task_id: str
    strategy: str


class Derived(msgspec.Struct, frozen=True):
    """An adversarial suite, how many of its tasks are attacks, and what is not in it."""

    suite: Suite
    attacks: int
    skipped: list[Skipped]


def derive(
    suite: Suite,
    strategies: Sequence[str] = (),
    seed: int = 0,
    per_task: int | None = None,
) -> Derived:
    """The adversarial suite of a suite: every task as it is, and with each strategy that fits it.

    A task that fails as it is tells nothing when it fails under attack. What else the suite says
    stays, and its modes become adversarial, too. All strategies are used unless some are named;
    `per_task` is the most that one task is given, chosen by the seed. The same arguments give the
    same suite. An attack depends on the seed, its task and its strategy alone: it stays the same
    when other tasks come or go. Raises `BadInput` for an unknown strategy, and where no task has
    a place for an attack.
    """
    unknown = sorted(set(strategies) - STRATEGIES.keys())
    if unknown:
        raise BadInput(
            f"there is no strategy {', '.join(map(repr, unknown))} (there are: "
            f"{', '.join(STRATEGIES)})"
        )
    names = [name for name in STRATEGIES if name in strategies or not strategies]
    tasks = {task.task_id: task for task in suite.tasks}
    skipped: list[Skipped] = []
    in_order: list[Task] = []
    for task in suite.tasks:
        attacked = {name: _attacked(task, name, seed) for name in names}
        skipped += [Skipped(task.task_id, name) for name, made in attacked.items() if made is None]
        made = {name: each for name, each in attacked.items() if each is not None}
        in_order.append(task)
        chosen = set(made)
        if per_task is not None:
            ranked = sorted(made, key=lambda name: Chance(seed, task.task_id, name).rank())
            chosen = set(ranked[:per_task])
        for name in filter(chosen.__contains__, made):
            task_id = attack_id(task.task_id, name)
            if len(task_id) > MAX_TASK_ID or task_id in tasks:
                task_id = long_attack_id(task.task_id, name)
            tasks[task_id] = msgspec.structs.replace(made[name], task_id=task_id)
            in_order.append(tasks[task_id])
    attacks = len(in_order) - len(suite.tasks)
    if not attacks:
        raise BadInput(
            f"no task of {suite.suite_id} has a place for {', '.join(names)}; "
            "instruction-in-memory fits any task"
        )
    is_usual = (names, seed, per_task) == (list(STRATEGIES), 0, None)
    options = "" if is_usual else f"{','.join(names)};{seed};{per_task}"
    attacked_suite = msgspec.structs.replace(
        suite,
        suite_id=attacked_suite_id(suite.suite_id, seed, options),
        modes=list(dict.fromkeys((*suite.modes, "adversarial"))),
        tasks=in_order,
    )
    return Derived(attacked_suite, attacks, skipped)


def _attacked(task: Task, name: str, seed: int) -> Task | None:
    """The task with one attack in it, under its old id; None if it has no place for one."""
    strategy, chance = STRATEGIES[name], Chance(seed, task.task_id, name)
    for place in strategy.places:
        order, needed = make_order(task, place, chance)
        attacked = put(task, place, worded(name, order, chance), order.mark)
        if attacked is not None:
            if not needed:
                return attacked
            fixtures = attacked.fixtures or Fixtures()
            responses = [*fixtures.tool_responses, *needed]
            return msgspec.structs.replace(
                attacked, fixtures=msgspec.structs.replace(fixtures, tool_responses=responses)
            )
    return None
