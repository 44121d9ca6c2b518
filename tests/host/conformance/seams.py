"""Calls of the seams, as the suite's scenarios make them."""

from typing import Any
from urllib.parse import quote

from host.caller import Caller, Reply

SEAMS = "/v1/host/sample"
BUNDLED = "core.evalwright.demo.support-desk"


def drive(caller: Caller, path: str, **body: Any) -> dict[str, Any]:
    """What a seam answers, which must be able to."""
    reply = call(caller, path, **body)
    assert reply.status == 200, reply.body
    answer: dict[str, Any] = reply.json()
    return answer


def call(caller: Caller, path: str, **body: Any) -> Reply:
    """Call a seam."""
    return caller.post(f"{SEAMS}/{path}", body)


def events(caller: Caller, run_id: str, query: str = "") -> list[dict[str, Any]]:
    """The events of a run, by the seam."""
    reply = caller.get(f"{SEAMS}/test/runs/{quote(run_id)}/events{query}")
    assert reply.status == 200, reply.body
    found: list[dict[str, Any]] = reply.json()["events"]
    return found


def payloads(caller: Caller, run_id: str, kind: str) -> list[dict[str, Any]]:
    """The payloads of a run's events of one type."""
    return [event["payload"] for event in events(caller, run_id, f"?type={kind}")]
