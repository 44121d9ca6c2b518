"""What people said of the answers of a run: that they are right or wrong, beside their scores."""

from typing import NamedTuple

from evalwright.contracts.annotation import Annotation
from evalwright.host.web.page import PageCall

VERDICTS = {"pass": True, "fail": False}


class HumanVerdict(NamedTuple):
    """What somebody said of a task."""

    task_id: str
    passed: bool
    annotation: Annotation


def verdicts_of(call: PageCall, run_id: str) -> list[HumanVerdict]:
    """What people said of the tasks of a run, oldest first."""
    told = [
        (each.target, passed, each)
        for each in call.host.annotations.read(call.principal.partition, run_id)
        if (passed := verdict_in(each)) is not None and each.target.node_id
    ]
    tasks = {target.node_id or "" for target, _, _ in told}
    places = call.log.upkeep.scored_at(run_id, sorted(tasks)) if tasks else {}
    scored = {f"{run_id}:{place}": task_id for task_id, place in places.items()}
    return [
        HumanVerdict(task_id, passed, each)
        for target, passed, each in told
        if (task_id := scored.get(target.event_id or ""))
    ]


def verdict_in(annotation: Annotation) -> bool | None:
    """What an annotation says of a score; None where it says something else."""
    return VERDICTS.get(annotation.signal.label or annotation.signal.correction or "")
