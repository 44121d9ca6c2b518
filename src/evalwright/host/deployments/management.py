"""The runs that manage deployments: one for each requested transition."""

from collections.abc import Sequence
from typing import Any

import msgspec

from evalwright import __version__
from evalwright.contracts.events import (
    ErrorDetail,
    Payload,
    RunCompleted,
    RunFailure,
    RunStarted,
)
from evalwright.contracts.planning import Owner
from evalwright.contracts.times import iso_time
from evalwright.engine.clock import Clock
from evalwright.host.deployments.events import (
    APPROVAL_NODE,
    ApprovalData,
    AuthorizationDecided,
    InterruptRequested,
    InterruptResolved,
)
from evalwright.host.deployments.gate import ApprovalGate
from evalwright.host.deployments.record import AgentDeployment
from evalwright.host.deployments.refusals import DeploymentRefusal
from evalwright.host.deployments.request import TransitionRequest
from evalwright.host.principal import Principal
from evalwright.host.run_handle import RunHandle
from evalwright.store.protocol import NewEvent
from evalwright.store.records import RecordChange

WORKFLOW_ID = "evalwright.deployment"

_OF_THE_GATE = ("interrupt.", "approval.")


class ManagingRun:
    """One managing run; events and records that are written together become durable together."""

    def __init__(self, run: RunHandle, clock: Clock) -> None:
        self._run = run
        self._clock = clock
        self.run_id = run.run_id

    async def write(
        self, payloads: Sequence[Payload], changes: Sequence[RecordChange] = ()
    ) -> None:
        """Append events and write records as one unit; raises `RecordConflict`."""
        now = self._clock.now_us()
        events = [
            NewEvent(payload.TYPE, _node(payload), now, msgspec.json.encode(payload))
            for payload in payloads
        ]
        await self._run.append(events, changes)


def _node(payload: Payload) -> str | None:
    return APPROVAL_NODE if payload.TYPE.startswith(_OF_THE_GATE) else None


def opened(
    principal: Principal, agent_id: str, request: TransitionRequest, *, allowed: bool
) -> list[Payload]:
    """The first events of every managing run: the request, and whether it is allowed."""
    inputs: dict[str, Any] = {"agentId": agent_id, **msgspec.to_builtins(request)}
    inputs.pop("reason", None)
    owner = Owner(principal.tenant, principal.workspace, principal.principal)
    return [
        RunStarted(WORKFLOW_ID, inputs, transport="rest", engine_version=__version__, owner=owner),
        decided(principal, request.scope, f"{agent_id}@{request.version}", allowed=allowed),
    ]


def decided(
    principal: Principal, scope: str, resource: str, *, allowed: bool, reason: str | None = None
) -> AuthorizationDecided:
    """The event that records whether a key is allowed to do something."""
    return AuthorizationDecided(principal.principal, scope, resource, allowed, reason)


def asked(gate: ApprovalGate) -> InterruptRequested:
    """The request for approval."""
    request = gate.request
    return InterruptRequested(
        node_id=APPROVAL_NODE,
        interrupt_id=gate.gate_id,
        kind="approval",
        key=f"{gate.run_id}:{APPROVAL_NODE}:0",
        data=ApprovalData(
            artifact_id=f"{gate.agent_id}@{request.version}",
            artifact_type="agent-deployment",
            title=f"Promote {gate.agent_id}@{request.version}",
            required_approvals=gate.policy.quorum,
        ),
        timeout_ms=int(gate.policy.timeout_s * 1000),
        requested_at=iso_time(gate.asked_at_us),
    )


def answered(gate: ApprovalGate, action: str, by: str, at_us: int) -> InterruptResolved:
    """The end of the wait for approval."""
    return InterruptResolved(
        node_id=APPROVAL_NODE,
        interrupt_id=gate.gate_id,
        kind="approval",
        resume_value={"action": action},
        resolved_at=iso_time(at_us),
        resolved_by=by,
    )


def completed(record: AgentDeployment) -> RunCompleted:
    """The end of a run that made its transition."""
    return RunCompleted({"record": msgspec.to_builtins(record)})


def failed(code: str, message: str) -> RunFailure:
    """The end of a run that did not make its transition."""
    return RunFailure(ErrorDetail(code, message))


def refused(refusal: DeploymentRefusal) -> RunFailure:
    """The end of a run whose transition was refused."""
    return failed(refusal.code, refusal.message)
