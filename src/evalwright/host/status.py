"""How a run stands, and what kind of run it is: read from its log."""

from collections.abc import Sequence
from typing import Literal, get_args

from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.events import EvalStarted, Event, RunPaused, RunResumed
from evalwright.store.protocol import EventLog

OpenStatus = Literal["running", "paused", "waiting-approval"]
EndStatus = Literal["completed", "failed", "cancelled"]
Status = OpenStatus | Literal["cancelling"] | EndStatus

ENDED: tuple[EndStatus, ...] = get_args(EndStatus)

_WAITING: dict[str, OpenStatus] = {
    RunPaused.TYPE: "paused",
    "interrupt.requested": "waiting-approval",
}
_TOLD = (*_WAITING, RunResumed.TYPE, "interrupt.resolved")


def open_status(log: EventLog, run_id: str) -> OpenStatus:
    """The last thing that made the run wait or go on decides."""
    status: OpenStatus = "running"
    for event in log.read(run_id, _TOLD):
        status = _WAITING.get(event.type, "running")
    return status


def edges_of(log: EventLog, run_id: str) -> list[Event]:
    """The first and last events of a run; raises `RunNotFound`, also for one without events."""
    edges = log.edges(run_id)
    if not edges:
        raise RunNotFound(f"there is no run {run_id}")
    return edges


def is_evaluation(edges: Sequence[Event]) -> bool:
    """Whether a run is one of a suite."""
    return len(edges) > 1 and edges[1].type == EvalStarted.TYPE
