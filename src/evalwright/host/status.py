"""How a run stands that has not ended: read from its log."""

from typing import Literal

from evalwright.contracts.events import RunPaused, RunResumed
from evalwright.store.protocol import EventLog

OpenStatus = Literal["running", "paused", "waiting-approval"]

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
