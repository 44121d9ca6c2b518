"""The calls of the protocol, each written once; the clients differ only in how they make them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from evalwright.client.exchange import Flow, delete, get, post, quoted
from evalwright.client.responses import (
    Agent,
    Annotation,
    BulkResult,
    Capabilities,
    CreatedRun,
    CreatedWebhook,
    DeadLetter,
    Deployment,
    EventPage,
    Fork,
    Run,
    RunDiff,
    RunEntry,
    RunPage,
    RunStatus,
    Signal,
    Status,
    SuiteName,
    SuitePage,
    Webhook,
)
from evalwright.contracts.suite import Mode, ModelClass, Suite, parse_suite
from evalwright.contracts.summary import EvalSummary

Transition = Literal["promote", "pause", "deprecate", "rollback", "adjust-canary"]

PAGE = 100
MOST_DEAD_LETTERS = 1000  # that a host keeps of a webhook
SPARE_S = 15.0  # for the host, beyond the time that it was asked to wait
REPORT_S = 300.0  # that a report may take


# What a host can do and what it holds: capabilities, suites and agents.


def capabilities() -> Flow[Capabilities]:
    """What the host can do; needs no key."""
    answer = yield get("/.well-known/openwop")
    return answer.read(Capabilities)


def publish_suite(suite: bytes | Mapping[str, Any] | Suite) -> Flow[SuiteName]:
    """Publish a suite; bytes are JSON and are sent as they are.

    A version is published once: the same content again changes nothing, other content is refused.
    """
    body = suite if isinstance(suite, bytes) else msgspec.json.encode(suite)
    answer = yield post("/v1/suites", body)
    return answer.read(SuiteName)


def suites(after: str | None) -> Flow[tuple[list[SuiteName], str | None]]:
    """The suites that the key can run, by name."""
    answer = yield get("/v1/suites", {"limit": PAGE, "after": after})
    page = answer.read(SuitePage)
    return page.suites, page.next


def suite(suite_ref: str) -> Flow[Suite]:
    """A published suite, by `suiteId@version`."""
    answer = yield get(f"/v1/suites/{quoted(suite_ref)}")
    return parse_suite(answer.body, suite_ref)


def delete_suite(suite_ref: str) -> Flow[None]:
    """Delete a suite that no open run needs."""
    yield delete(f"/v1/suites/{quoted(suite_ref)}")


def agents() -> Flow[list[Agent]]:
    """The agents that the key can run, in their newest versions."""
    answer = yield get("/v1/agents")
    return answer.read(list[Agent], "agents")


def agent(agent_id: str) -> Flow[Agent]:
    """One agent."""
    answer = yield get(f"/v1/agents/{quoted(agent_id)}")
    return answer.read(Agent)


def register_agent(
    agent_id: str,
    version: str,
    url: str,
    *,
    model_class: ModelClass | None = None,
    persona: str | None = None,
    label: str | None = None,
    description: str | None = None,
) -> Flow[Agent]:
    """Register an agent by the address at which it answers."""
    body = {
        "agentId": agent_id,
        "version": version,
        "url": url,
        "modelClass": model_class,
        "persona": persona,
        "label": label,
        "description": description,
    }
    answer = yield post("/v1/agents", body)
    return answer.read(Agent)


def register_manifest(manifest: Mapping[str, Any], version: str) -> Flow[Agent]:
    """Register an agent by its manifest, which must not refer to files."""
    answer = yield post("/v1/agents", {"version": version, "manifest": manifest})
    return answer.read(Agent)


# Runs: start, read, control, compare and annotate them.


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
    """Start an evaluation of a suite, `suiteId@version`, against an agent.

    Without an idempotency key one is made, so that a request that is repeated because its answer
    was lost does not start a second run. `configurable` holds further options of the host.
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
    """A run as it is now."""
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
    """The events after a sequence; if there are none yet, the host waits for one."""
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


def diff(run_id: str, against: str, *, align: Literal["seq", "task"] = "seq") -> Flow[RunDiff]:
    """Where the logs of two runs differ.

    Events of the same sequence are compared; hosts of Evalwright also align them task by task.
    """
    chosen = {"evalwright.align": align} if align != "seq" else {}
    answer = yield get(f"{_path(run_id)}:diff", {"against": against, **chosen})
    return answer.read(RunDiff)


def compare_report(baseline_run_id: str, run_id: str) -> Flow[bytes]:
    """The comparison of two runs, as a zip file of the folder that `evalwright compare` writes."""
    answer = yield get(
        f"{_path(run_id)}/compare-report", {"baseline": baseline_run_id}, timeout_s=REPORT_S
    )
    return answer.body


def debug_bundle(run_id: str) -> Flow[dict[str, Any]]:
    """A run with its events in one document, for debugging."""
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
    """Make a run from another: replay its recorded facts, or run again from a sequence on."""
    body = {"mode": mode, "fromSeq": from_sequence, "runOptionsOverlay": overlay}
    answer = yield post(f"{_path(run_id)}:fork", body, idempotency_key)
    return answer.read(Fork)


def cancel(run_id: str, *, reason: str | None = None) -> Flow[RunStatus]:
    """Cancel a run."""
    answer = yield post(f"{_path(run_id)}/cancel", {"reason": reason})
    return answer.read(RunStatus)


def delete_run(run_id: str) -> Flow[None]:
    """Delete a run that has ended, and that nothing needs."""
    yield delete(_path(run_id))


def bulk_cancel(run_ids: Sequence[str], *, reason: str | None = None) -> Flow[list[BulkResult]]:
    """Cancel several runs; each has its own result, in the order given."""
    answer = yield post("/v1/runs:bulk-cancel", {"runIds": list(run_ids), "reason": reason})
    return answer.read(list[BulkResult], "results")


def pause(run_id: str, *, reason: str | None = None) -> Flow[RunStatus]:
    """Pause a run: no new task is started."""
    answer = yield post(f"{_path(run_id)}:pause", {"reason": reason})
    return answer.read(RunStatus)


def resume(run_id: str, *, reason: str | None = None) -> Flow[RunStatus]:
    """Resume a paused run."""
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
    """Annotate a run, or one event or task in it; annotations cannot be changed."""
    target = {"eventId": event_id, "nodeId": node_id}
    named = {name: value for name, value in target.items() if value is not None}
    body = {"signal": signal, "target": named or None, "note": note}
    answer = yield post(f"{_path(run_id)}/annotations", body, idempotency_key)
    return answer.read(Annotation)


def annotations(run_id: str) -> Flow[list[Annotation]]:
    """The annotations of a run."""
    answer = yield get(f"{_path(run_id)}/annotations")
    return answer.read(list[Annotation], "annotations")


# Versions of agents that go live, and their approval.


def deployments(agent_id: str) -> Flow[list[Deployment]]:
    """The versions of an agent, each with its state."""
    answer = yield get(f"/v1/agents/{quoted(agent_id)}/deployments")
    return answer.read(list[Deployment])


def transition(
    agent_id: str,
    version: str,
    transition: Transition,
    *,
    to_state: str | None = None,
    channel: str | None = None,
    canary_percent: int | None = None,
    eval_run_id: str | None = None,
    reason: str | None = None,
    idempotency_key: str | None = None,
) -> Flow[Deployment]:
    """Promote, pause, deprecate or roll back a version, or change its canary share."""
    body = {
        "version": version,
        "transition": transition,
        "toState": to_state,
        "channel": channel,
        "canaryPercent": canary_percent,
        "evalRunId": eval_run_id,
        "reason": reason,
    }
    path = f"/v1/agents/{quoted(agent_id)}/deployments"
    answer = yield post(path, body, idempotency_key)
    return answer.read(Deployment)


def respond(
    run_id: str,
    node_id: str,
    action: Literal["accept", "reject", "override"],
    *,
    reason: str | None = None,
) -> Flow[RunStatus]:
    """Answer a run that waits for a decision, such as the approval of a promotion."""
    value = {"action": action, **({"reason": reason} if reason is not None else {})}
    path = f"/v1/runs/{quoted(run_id)}/interrupts/{quoted(node_id)}"
    answer = yield post(path, {"resumeValue": value})
    return answer.read(RunStatus)


# Webhooks.


def create_webhook(
    url: str, events: Sequence[str], *, tags: Sequence[str] = ()
) -> Flow[CreatedWebhook]:
    """Have events sent to an address; the secret that signs them is shown only here."""
    body = {"url": url, "events": list(events), "tags": list(tags) or None}
    answer = yield post("/v1/webhooks", body)
    return answer.read(CreatedWebhook)


def webhooks() -> Flow[list[Webhook]]:
    """The webhooks of the tenant."""
    answer = yield get("/v1/webhooks")
    return answer.read(list[Webhook], "webhooks")


def delete_webhook(webhook_id: str) -> Flow[None]:
    """Delete a webhook."""
    yield delete(f"/v1/webhooks/{quoted(webhook_id)}")


def dead_letters(webhook_id: str) -> Flow[list[DeadLetter]]:
    """The deliveries of a webhook that were given up."""
    path = f"/v1/webhooks/{quoted(webhook_id)}/dead-letters"
    answer = yield get(path, {"limit": MOST_DEAD_LETTERS})
    return answer.read(list[DeadLetter], "deliveries")


def resend_dead_letters(webhook_id: str, delivery_ids: Sequence[str] = ()) -> Flow[int]:
    """Have dead letters sent again, these or all; returns how many."""
    body = {"deliveryIds": list(delivery_ids) or None}
    answer = yield post(f"/v1/webhooks/{quoted(webhook_id)}/dead-letters:resend", body)
    return answer.read(int, "resending")


def delete_dead_letter(webhook_id: str, delivery_id: str) -> Flow[None]:
    """Delete a dead letter, which is then never delivered."""
    yield delete(f"/v1/webhooks/{quoted(webhook_id)}/dead-letters/{quoted(delivery_id)}")
