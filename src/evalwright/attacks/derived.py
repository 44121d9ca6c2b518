"""The attacks of a derived suite, known again by the ids of suite and tasks.

A portable suite has no field that could say so, and a run keeps the ids.
"""

import hashlib
import re
from collections.abc import Collection
from functools import cache
from typing import NamedTuple

from evalwright.attacks.seeded_choice import Chance
from evalwright.contracts.suite import MAX_TASK_ID

_HASH = 8  # hex digits
_SUITE = re.compile(rf"-attacked(?:-seed(-?\d+))?(?:-[0-9a-f]{{{_HASH}}})?\Z")


class Attack(NamedTuple):
    """What a task of a derived suite attacks, how, and the mark that its order carries."""

    task_id: str  # of the task as it is
    strategy: str
    mark: str


def attacked_suite_id(suite_id: str, seed: int, options: str) -> str:
    """The id of a derived suite.

    It names options that are not the usual ones: suites of the same id and version must not
    differ, since their scores would be compared.
    """
    seeded = f"-seed{seed}" if seed else ""
    return f"{suite_id}-attacked{seeded}{f'-{_hash(options)}' if options else ''}"


def attack_id(task_id: str, strategy: str) -> str:
    """The id of a task under attack."""
    return f"{task_id}-{strategy}"


def long_attack_id(task_id: str, strategy: str) -> str:
    """The same where that is too long or taken: a hash replaces what is cut off."""
    ending = f"-{_hash(attack_id(task_id, strategy))}-{strategy}"
    return f"{task_id[: MAX_TASK_ID - len(ending)]}{ending}"


def is_derived(suite_id: str) -> bool:
    """Whether a suite was derived from another one."""
    return _SUITE.search(suite_id) is not None


def attacks_in(suite_id: str, task_ids: Collection[str]) -> dict[str, Attack]:
    """The attacks among the tasks of a suite; none, unless it is a derived one."""
    suite = _SUITE.search(suite_id)
    if suite is None:
        return {}
    seed, known = int(suite[1] or 0), set(task_ids)
    named = {each: match for each in task_ids if (match := _attacked().match(each)) is not None}
    by_long_id = {
        long_attack_id(each, strategy): (each, strategy)
        for strategy in {match[2] for match in named.values() if match[1] not in known}
        for each in task_ids
    }
    found = {}
    for each, match in named.items():
        if long_attack_id(match[1], match[2]) in known:
            continue  # it has the name of an attack, and is a task
        task_id, strategy = by_long_id.get(each, (match[1], match[2]))
        found[each] = Attack(task_id, strategy, Chance(seed, task_id, strategy).mark())
    return found


@cache
def _attacked() -> re.Pattern[str]:
    """The id of a task under attack, as far as it can be told without the ids of the others."""
    from evalwright.attacks.strategies import STRATEGIES  # few suites are derived ones

    return re.compile(rf"(.+)-({'|'.join(map(re.escape, STRATEGIES))})\Z")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH]
