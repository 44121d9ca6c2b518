"""Runs of the suite's workflows, as its scenarios make them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import evalwright_conformance
from host.caller import Caller, Reply
from subjects.waiting import eventually

IN_CHECKOUT = {"PYTHONPATH": str(Path(evalwright_conformance.__file__).parents[1])}
LONG = {"delayMs": 30_000}  # nothing waits for it: the run is given up before
SHORT = {"delayMs": 20}


def create(
    caller: Caller,
    name: str,
    inputs: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> Reply:
    """Ask for a run of a workflow, named without what all names begin with."""
    body = {"workflowId": f"conformance-{name}", **fields}
    return caller.post("/v1/runs", body | ({"inputs": inputs} if inputs else {}), headers)


def start(caller: Caller, name: str, inputs: Mapping[str, Any] | None = None, **more: Any) -> str:
    """Start a run, which must be possible; gives its id."""
    reply = create(caller, name, inputs, **more)
    assert reply.status == 201, reply.body
    return str(reply.json()["runId"])


def start_node(caller: Caller, inputs: Mapping[str, Any] = LONG) -> str:
    """Start a run whose node waits, and see it wait."""
    run_id = start(caller, "cancellable", inputs)
    with caller.stream(f"/v1/runs/{run_id}/events?streamMode=debug") as stream:
        stream.until("node.started")
    return run_id


def pause(
    caller: Caller, run_id: str, policy: str, headers: Mapping[str, str] | None = None
) -> Reply:
    """Ask for a pause."""
    return caller.post(f"/v1/runs/{run_id}:pause", {"drainPolicy": policy}, headers)


def resume(caller: Caller, run_id: str) -> Reply:
    """Ask a run to go on."""
    return caller.post(f"/v1/runs/{run_id}:resume", {"reason": "enough"})


def cancel(caller: Caller, run_id: str) -> Reply:
    """Give a run up."""
    return caller.post(f"/v1/runs/{run_id}/cancel", {"reason": "done with it"})


def wait_for(caller: Caller, run_id: str, status: str) -> dict[str, Any]:
    """The snapshot of a run, when it stands so."""

    def found() -> dict[str, Any] | None:
        snapshot = caller.snapshot(run_id)
        return snapshot if snapshot["status"] == status else None

    snapshot = eventually(found, status)
    assert snapshot is not None
    return snapshot


def types(caller: Caller, run_id: str) -> list[str]:
    """The types of all events that a run has by now."""
    reply = caller.get(f"/v1/runs/{run_id}/events/poll?timeout=1")
    return [event["type"] for event in reply.json()["events"]]
