"""The deployments of the host: listed, changed by authorized keys, and resolved for runs.

A transition is authorized, its evaluation is checked, and the policy may require approval. Each one
is a run in the log, written together with the records that it changes.
"""

import asyncio
from collections import defaultdict
from typing import NoReturn

import msgspec
from msgspec.structs import replace

from evalwright.contracts.errors import LogConflict
from evalwright.engine.clock import Clock, SystemClock, new_run_id
from evalwright.host.deployments import management
from evalwright.host.deployments.approvals import Approvals, Status
from evalwright.host.deployments.archive import Archive
from evalwright.host.deployments.channels import resolve
from evalwright.host.deployments.gate import ApprovalGate, Ballot
from evalwright.host.deployments.management import ManagingRun
from evalwright.host.deployments.proposal import KnownAgents, Proposals
from evalwright.host.deployments.record import AgentDeployment, public_records
from evalwright.host.deployments.refusals import (
    Conflict,
    EvalGateUnmet,
    NoSuchAgent,
    NotAllowed,
)
from evalwright.host.deployments.request import TransitionRequest
from evalwright.host.principal import Principal
from evalwright.host.run_handle import RunHandle
from evalwright.host.settings import DeploymentSettings
from evalwright.signals.masking.credentials import mask_reason
from evalwright.store.protocol import EventLog
from evalwright.store.records import RecordConflict

ATTEMPTS = 5  # at a change that races with other processes
LONGEST_ID = 256


class Transitioned(msgspec.Struct, frozen=True):
    """The result of a request: the record, and the run that recorded it."""

    run_id: str
    status: Status
    record: AgentDeployment


class Deployments:
    """The deployments of all tenants; one instance per host."""

    def __init__(
        self,
        log: EventLog,
        agents: KnownAgents,
        policy: DeploymentSettings,
        clock: Clock | None = None,
    ) -> None:
        self._log = log
        self._policy = policy
        self._clock = clock or SystemClock()
        self._archive = Archive(log.records)
        self._proposals = Proposals(self._archive, agents, policy)
        self._approvals = Approvals(log, self._archive, self._proposals, self._clock)
        # A request that lost a race would leave a run behind that can take no more events.
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def list(self, tenant: str, agent_id: str) -> "list[AgentDeployment]":
        """The deployments of an agent, lowest version first."""
        async with self._turns[tenant]:
            await self._approvals.expire(tenant, self._clock.now_us())
        found = await self._archive.read(
            tenant, lambda: self._proposals.deployments(tenant, agent_id)
        )
        return public_records(found.records)

    async def waiting(self, principal: Principal, agent_id: str) -> tuple[ApprovalGate, ...]:
        """The promotions of an agent that wait for approval, of those that a key may see."""
        tenant, partition = principal.tenant, principal.partition
        kept = await self._archive.read(tenant, lambda: self._archive.gates(tenant))
        gates = (each.gate for each in kept)
        return tuple(
            each for each in gates if (each.agent_id, each.partition) == (agent_id, partition)
        )

    def resolve(self, tenant: str, agent_id: str, channel: str, draw: float) -> str:
        """The version that a new run gets on a channel; `draw` is in [0, 1)."""
        return resolve(self._archive.deployments(tenant, agent_id).records, channel, draw)

    async def request(
        self, principal: Principal, agent_id: str, request: TransitionRequest
    ) -> Transitioned:
        """Make a transition, or let it wait for approval; raises a `DeploymentRefusal`."""
        if len(agent_id) > LONGEST_ID:  # a refusal would be recorded with it
            raise NoSuchAgent("no such agent")
        request = replace(request, reason=mask_reason(request.reason))
        if not principal.may(request.scope):
            await self._deny(principal, agent_id, request)
        async with self._turns[principal.tenant]:
            await self._approvals.expire(principal.tenant, self._clock.now_us())
            for _ in range(ATTEMPTS):
                try:
                    return await self._attempt(principal, agent_id, request)
                except RecordConflict:
                    continue
        raise Conflict("the agent's deployments changed at the same time; try again")

    async def vote(self, principal: Principal, run_id: str, node_id: str, ballot: Ballot) -> Status:
        """Accept, reject or override a promotion that waits; raises a `DeploymentRefusal`."""
        ballot = replace(ballot, reason=mask_reason(ballot.reason))
        async with self._turns[principal.tenant]:
            await self._approvals.expire(principal.tenant, self._clock.now_us())
            try:
                return await self._approvals.vote(principal, run_id, node_id, ballot)
            except (RecordConflict, LogConflict):
                raise Conflict(
                    "another vote decided at the same time; read the run again"
                ) from None

    async def cancel(self, principal: Principal, run_id: str, reason: str | None = None) -> bool:
        """Cancel a promotion that waits for approval; returns whether this run was one."""
        async with self._turns[principal.tenant]:
            return await self._approvals.cancel(principal, run_id, mask_reason(reason))

    async def sweep(self, now_us: int) -> int:
        """Reject all promotions past their deadline; returns how many there were."""
        rejected = 0
        for tenant in await self._archive.read("", self._archive.tenants_with_gates):
            async with self._turns[tenant]:
                rejected += await self._approvals.expire(tenant, now_us)
        return rejected

    async def _deny(
        self, principal: Principal, agent_id: str, request: TransitionRequest
    ) -> NoReturn:
        refusal = NotAllowed(
            f"the key lacks the scope {request.scope}", scopeRequired=request.scope
        )
        run = self._new_run(principal)
        frame = management.opened(principal, agent_id, request, allowed=False)
        await run.write([*frame, management.refused(refusal)])
        refusal.details["runId"] = run.run_id
        raise refusal

    async def _attempt(
        self, principal: Principal, agent_id: str, request: TransitionRequest
    ) -> Transitioned:
        tenant, partition = principal.tenant, principal.partition
        proposal = await self._archive.read(
            tenant, lambda: self._proposals.propose(tenant, partition, agent_id, request)
        )
        decision = proposal.decide()  # before asking for approval of what is impossible
        run = self._new_run(principal)
        frame = management.opened(principal, agent_id, request, allowed=True)
        try:
            frame += await proposal.check_evidence(self._log)
        except EvalGateUnmet as unmet:
            frame += unmet.evidence.events() if unmet.evidence else []
            await run.write([*frame, management.refused(unmet)])
            details = unmet.details if principal.may("runs:read") else {}
            raise EvalGateUnmet(unmet.message, runId=run.run_id, **details) from None
        if proposal.needs_approval and self._policy.approval is not None:
            waiting = await self._approvals.ask(
                principal, proposal, self._policy.approval, run, frame
            )
            return Transitioned(run.run_id, "waiting-approval", waiting)
        record = proposal.record_after(decision)
        events = [*frame, *decision.events, management.completed(record)]
        await run.write(events, proposal.deployments.changes(decision.changed))
        return Transitioned(run.run_id, "completed", record)

    def _new_run(self, principal: Principal) -> ManagingRun:
        run = RunHandle.find(self._log, principal.partition, new_run_id(self._clock))
        return ManagingRun(run, self._clock)
