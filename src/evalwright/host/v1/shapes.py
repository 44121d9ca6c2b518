"""Runs as version 1 shows them, as snapshots and in lists; pure functions of logs."""

from typing import Any

import msgspec

from evalwright.contracts.events import (
    TERMINAL_TYPES,
    Event,
    Planned,
    ProviderUsage,
    RunFailure,
    RunStarted,
)
from evalwright.contracts.times import iso_time
from evalwright.host.runs.handle import RunHandle
from evalwright.store.protocol import RunFacts

LOG_SCHEMA_VERSION = 2


class Snapshot(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A run, as `GET /v1/runs/{runId}` shows it."""

    run_id: str
    workflow_id: str
    status: str
    event_log_schema_version: int
    owner: Any = None
    started_at: str | None = None
    completed_at: str | None = None
    agent: dict[str, Any] | None = None
    error: Any = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    configurable: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None


class ListedRun(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A run in a list."""

    run_id: str
    workflow_id: str
    status: str
    started_at: str
    completed_at: str | None = None
    agent_id: str | None = None
    eval_suite_ref: str | None = None
    aggregate_score: float | None = None
    passed: bool | None = None
    tags: list[str] | None = None


def snapshot(run: RunHandle, status: str) -> Snapshot:
    """The current state of a run; raises `RunNotFound`."""
    edges = run.edges()
    started, last = edges[0].decode(RunStarted), edges[-1]
    planned = _planned(run)
    origin = planned.origin if planned else None
    is_over = last.type in TERMINAL_TYPES
    return Snapshot(
        run_id=run.run_id,
        workflow_id=started.workflow_id,
        status=status,
        event_log_schema_version=LOG_SCHEMA_VERSION,
        owner=started.owner,
        started_at=iso_time(edges[0].at_us),
        completed_at=iso_time(last.at_us) if is_over else None,
        agent=_agent(planned),
        error=_error(last),
        tags=started.tags,
        metadata=started.metadata,
        configurable=origin.configurable if origin else started.configurable,
        metrics=_metrics(run, edges) if is_over and planned else None,
    )


def listed_run(run: RunFacts, status: str) -> ListedRun:
    """A run for a list, from its facts only."""
    return ListedRun(
        run_id=run.run_id,
        workflow_id=run.workflow,
        status=status,
        started_at=iso_time(run.started_us),
        completed_at=None if run.ended_us is None else iso_time(run.ended_us),
        agent_id=run.agent,
        eval_suite_ref=run.suite,
        aggregate_score=run.score,
        passed=run.passed,
        tags=run.tags or None,
    )


def _planned(run: RunHandle) -> Planned | None:
    found = next(run.log.read(run.run_id, (Planned.TYPE,), limit=1), None)
    return found.decode(Planned) if found else None


def _agent(planned: Planned | None) -> dict[str, Any] | None:
    if planned is None:
        return None
    version = planned.agent.version
    return {"agentId": planned.agent.agent_id, **({"version": version} if version else {})}


def _error(last: Event) -> dict[str, Any] | None:
    if last.type != RunFailure.TYPE:
        return None
    error = last.decode(RunFailure).error
    return {"code": error.code, "message": error.message}


def _metrics(run: RunHandle, edges: list[Event]) -> dict[str, Any] | None:
    """Tokens and cost of a run; the cost only if every call has a price: a part would mislead."""
    found = run.log.read(run.run_id, (ProviderUsage.TYPE,))
    usages = [event.decode(ProviderUsage) for event in found]
    if not usages:
        return None
    cost: dict[str, Any] = {
        "tokens": {
            "input": sum(usage.input_tokens for usage in usages),
            "output": sum(usage.output_tokens for usage in usages),
        },
        "duration_ms": max(0, edges[-1].at_us - edges[0].at_us) // 1000,
    }
    prices = [usage.cost_estimate_usd for usage in usages]
    if all(price is not None for price in prices):
        cost["usd"] = round(sum(price or 0 for price in prices), 12)
    for field in ("model", "provider"):
        names = {getattr(usage, field) for usage in usages}
        if len(names) == 1:
            cost[field] = names.pop()
    return {"openwopCost": cost}
