"""Calls about runs: begin, read, steer, compare and annotate them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from evalwright.client.answers import (
    Annotation,
    Annotations,
    BulkResult,
    BulkResults,
    CreatedRun,
    EventPage,
    Fork,
    Run,
    RunDiff,
    RunEntry,
    RunPage,
    RunStatus,
    Signal,
    Status,
)
from evalwright.client.exchange import Flow, get, post, quoted
from evalwright.contracts.suite import Mode
from evalwright.contracts.summary import EvalSummary

SPARE_S = 15.0  # for the host, beyond the time that it was asked to wait
REPORT_S = 300.0  # that a report may take


def _path(run_id: str) -> str:
    return f"/v1/runs/{quoted(run_id)}"


def create_run(
    suite_ref: str,
    agent_id: str,
    *,
    modes: Sequence[Mode] = (),
    baseline_run_id: str | None = None,
    tags: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    configurable: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Flow[CreatedRun]:
    """Begin an evaluation of a suite, `suiteId@version`, against an agent.

    Without an idempotency key one is made, so that a request that is sent again because its answer
    was lost begins no second run. `configurable` are further options of the host.
    """
    options = dict(configurable or {})
    if modes:
        options["evalModes"] = list(modes)
    if baseline_run_id is not None:
        options["baselineRunId"] = baseline_run_id
    body = {
        "mode": "eval",
        "evalSuiteRef": suite_ref,
        "agentId": agent_id,
        "configurable": options or None,
        "tags": list(tags) or None,
        "metadata": metadata,
    }
    answer = yield post("/v1/runs", body, idempotency_key)
    return answer.read(CreatedRun)


def run(run_id: str) -> Flow[Run]:
    """A run as it stands."""
    answer = yield get(_path(run_id))
    return answer.read(Run)


def runs(
    before: str | None,
    *,
    status: Status | None = None,
    agent_id: str | None = None,
    suite_ref: str | None = None,
    tag: str | None = None,
    page_size: int = 50,
) -> Flow[tuple[list[RunEntry], str | None]]:
    """The runs that the key may see, newest first, page after page."""
    query = {
        "limit": page_size,
        "before": before,
        "status": status,
        "agentId": agent_id,
        "evalSuiteRef": suite_ref,
        "tag": tag,
    }
    answer = yield get("/v1/runs", query)
    page = answer.read(RunPage)
    return page.runs, page.next


def poll(run_id: str, *, after: int | None = None, timeout_s: int = 30) -> Flow[EventPage]:
    """The events after a sequence; where there are none yet, the host waits so long for one."""
    answer = yield get(
        f"{_path(run_id)}/events/poll",
        {"lastSequence": after, "timeout": timeout_s},
        timeout_s=timeout_s + SPARE_S,
    )
    return answer.read(EventPage)


def summary(run_id: str) -> Flow[EvalSummary]:
    """The scorecard of a run that is complete."""
    answer = yield get(f"{_path(run_id)}/eval-summary")
    return answer.read(EvalSummary)


def diff(run_id: str, against: str) -> Flow[RunDiff]:
    """Where the logs of two runs differ."""
    answer = yield get(f"{_path(run_id)}:diff", {"against": against})
    return answer.read(RunDiff)


def compare_report(baseline_run_id: str, run_id: str) -> Flow[bytes]:
    """The comparison of two runs, a zip file of the folder that `evalwright compare` writes."""
    answer = yield get(
        f"{_path(run_id)}/compare-report", {"baseline": baseline_run_id}, timeout_s=REPORT_S
    )
    return answer.body


def debug_bundle(run_id: str) -> Flow[dict[str, Any]]:
    """A run with its events in one document, for those who look for a fault."""
    answer = yield get(f"{_path(run_id)}/debug-bundle", timeout_s=REPORT_S)
    return answer.read(dict[str, Any])


def fork(
    run_id: str,
    mode: Literal["replay", "branch"],
    *,
    from_sequence: int | None = None,
    overlay: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Flow[Fork]:
    """Make a run from another: its recorded facts again, or what comes after a place anew."""
    body = {"mode": mode, "fromSeq": from_sequence, "runOptionsOverlay": overlay}
    answer = yield post(f"{_path(run_id)}:fork", body, idempotency_key)
    return answer.read(Fork)


def cancel(run_id: str, *, reason: str | None = None) -> Flow[RunStatus]:
    """Give a run up."""
    answer = yield post(f"{_path(run_id)}/cancel", {"reason": reason})
    return answer.read(RunStatus)


def bulk_cancel(run_ids: Sequence[str], *, reason: str | None = None) -> Flow[list[BulkResult]]:
    """Give several runs up; each has its own result, in the order they were named."""
    answer = yield post("/v1/runs:bulk-cancel", {"runIds": list(run_ids), "reason": reason})
    return answer.read(BulkResults).results


def pause(run_id: str, *, reason: str | None = None) -> Flow[RunStatus]:
    """Begin no new task of a run."""
    answer = yield post(f"{_path(run_id)}:pause", {"reason": reason})
    return answer.read(RunStatus)


def resume(run_id: str, *, reason: str | None = None) -> Flow[RunStatus]:
    """Let a paused run go on."""
    answer = yield post(f"{_path(run_id)}:resume", {"reason": reason})
    return answer.read(RunStatus)


def annotate(
    run_id: str,
    signal: Signal,
    *,
    event_id: str | None = None,
    node_id: str | None = None,
    note: str | None = None,
    idempotency_key: str | None = None,
) -> Flow[Annotation]:
    """Say something of a run, or of one event or task in it; what is recorded stays."""
    target = {"eventId": event_id, "nodeId": node_id}
    named = {name: value for name, value in target.items() if value is not None}
    body = {"signal": signal, "target": named or None, "note": note}
    answer = yield post(f"{_path(run_id)}/annotations", body, idempotency_key)
    return answer.read(Annotation)


def annotations(run_id: str) -> Flow[list[Annotation]]:
    """What people said of a run."""
    answer = yield get(f"{_path(run_id)}/annotations")
    return answer.read(Annotations).annotations
