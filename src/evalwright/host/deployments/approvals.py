"""Promotions that wait for approval: requested, voted on, decided, and rejected on timeout."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal, TypeVar

from msgspec.structs import replace

from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.events import TERMINAL_TYPES, Payload, RunCancelled
from evalwright.engine.clock import Clock
from evalwright.host.deployments import management
from evalwright.host.deployments.archive import Archive, KeptGate, new_gate
from evalwright.host.deployments.events import APPROVAL_NODE, InterruptRequested
from evalwright.host.deployments.gate import (
    HOST,
    ApprovalGate,
    Ballot,
    check_voter,
    count_vote,
    required_scope,
    time_out,
)
from evalwright.host.deployments.management import ManagingRun
from evalwright.host.deployments.proposal import Proposal, Proposals
from evalwright.host.deployments.record import AgentDeployment, public_records
from evalwright.host.deployments.refusals import (
    ApprovalPending,
    DeploymentRefusal,
    GateClosed,
    NoSuchGate,
    NotAllowed,
)
from evalwright.host.deployments.request import TransitionRequest
from evalwright.host.deployments.transition import transition
from evalwright.host.principal import Principal
from evalwright.host.run_handle import RunHandle
from evalwright.host.settings import ApprovalSettings
from evalwright.store.protocol import EventLog
from evalwright.store.records import RecordChange, RecordConflict

T = TypeVar("T")

Status = Literal["waiting-approval", "completed", "failed"]


class Approvals:
    """The approval gates of all tenants; the caller holds the tenant's lock."""

    def __init__(self, log: EventLog, archive: Archive, proposals: Proposals, clock: Clock) -> None:
        self._log = log
        self._archive = archive
        self._proposals = proposals
        self._clock = clock

    async def ask(
        self,
        principal: Principal,
        proposal: Proposal,
        policy: ApprovalSettings,
        run: ManagingRun,
        frame: Sequence[Payload],
    ) -> AgentDeployment:
        """Open a gate for the promotion; returns the record, which changes only in its gate id."""
        request, deployments = proposal.request, proposal.deployments
        await self._read(deployments.tenant, lambda: self._refuse_second(proposal))
        record, events = deployments.get(request.version), []
        if record is None:
            draft = TransitionRequest(
                version=request.version, transition="promote", to_state="draft"
            )
            made = transition(proposal.agent_id, deployments.records, draft, proposal.policy)
            record, events = made.record, made.events
        gate = ApprovalGate(
            run_id=run.run_id,
            partition=principal.partition,
            agent_id=proposal.agent_id,
            request=request,
            requester=principal.principal,
            policy=policy,
            asked_at_us=self._clock.now_us(),
            replaces=record.approval_gate_id,
        )
        marked = replace(record, approval_gate_id=gate.gate_id)
        changes = [*deployments.changes([marked]), new_gate(deployments.tenant, gate)]
        await run.write([*frame, *events, management.asked(gate)], changes)
        shown = public_records(deployments.with_changes([marked]))
        return next(each for each in shown if each.version == request.version)

    async def vote(self, principal: Principal, run_id: str, node_id: str, ballot: Ballot) -> Status:
        """Count a vote; the vote that completes the quorum makes the promotion."""
        tenant = principal.tenant
        kept = await self._open_gate(principal, run_id, node_id)
        gate = kept.gate
        scope = required_scope(gate, ballot)
        run = self._run(gate)
        try:
            check_voter(gate, ballot, principal)
        except NotAllowed as refusal:
            denial = management.decided(
                principal, scope, gate.gate_id, allowed=False, reason=refusal.message
            )
            await run.write([denial], [kept.same(tenant)])
            raise
        result = count_vote(gate, ballot, principal.principal)
        allowed = management.decided(principal, scope, gate.gate_id, allowed=True)
        events: list[Payload] = [allowed, result.event]
        if result.outcome == "open":
            await run.write(events, [kept.change(tenant, result.gate)])
            return "waiting-approval"
        now = self._clock.now_us()
        events.append(management.answered(gate, ballot.action, principal.principal, now))
        if result.outcome == "granted":
            return await self._promote(tenant, kept, events)
        rejection = management.failed("approval_rejected", "the promotion was rejected")
        return await self._close(tenant, kept, [*events, rejection])

    async def expire(self, tenant: str, now_us: int) -> int:
        """Reject the promotions past their deadline, and forget those whose run has ended.

        Returns how many gates were removed.
        """
        gone = 0
        for kept in await self._read(tenant, lambda: self._archive.gates(tenant)):
            with suppress(RecordConflict):  # another host was first
                if await self._has_ended(kept.gate):
                    await self._archive.write(await self._endings(tenant, kept))
                elif kept.gate.deadline_us <= now_us:
                    await self._time_out(tenant, kept, now_us)
                else:
                    continue
            gone += 1
        return gone

    async def _time_out(self, tenant: str, kept: KeptGate, now_us: int) -> None:
        events = [
            time_out(kept.gate).event,
            management.answered(kept.gate, "timeout", HOST, now_us),
            management.failed("approval_rejected", "nobody approved the promotion in time"),
        ]
        await self._close(tenant, kept, events)

    async def cancel(self, principal: Principal, run_id: str, reason: str | None) -> bool:
        """Cancel a promotion that waits for approval; returns whether there was one."""
        kept = await self._gate(principal, run_id)
        if kept is None:
            return False
        if not principal.may("deploy:promote"):
            raise NotAllowed(
                "the key lacks the scope deploy:promote", scopeRequired="deploy:promote"
            )
        by = principal.principal
        resolved = management.answered(kept.gate, "cancel", by, self._clock.now_us())
        await self._close(principal.tenant, kept, [resolved, RunCancelled(reason, by)])
        return True

    async def _promote(self, tenant: str, kept: KeptGate, events: Sequence[Payload]) -> Status:
        """Make the promotion if its other conditions still hold."""
        gate = kept.gate
        try:
            proposal = await self._read(
                tenant,
                lambda: self._proposals.propose(
                    tenant, gate.partition, gate.agent_id, gate.request
                ),
            )
            decision = proposal.decide(gate.gate_id)
            evidence = await proposal.check_evidence(self._log)
        except DeploymentRefusal as refusal:
            return await self._close(tenant, kept, [*events, management.refused(refusal)])
        done = management.completed(proposal.record_after(decision))
        changes = proposal.deployments.changes(decision.changed)
        await self._run(gate).write(
            [*events, *evidence, *decision.events, done], [*changes, kept.removal(tenant)]
        )
        return "completed"

    async def _close(self, tenant: str, kept: KeptGate, events: Sequence[Payload]) -> Status:
        """End the run without the promotion."""
        await self._run(kept.gate).write(events, await self._endings(tenant, kept))
        return "failed"

    async def _endings(self, tenant: str, kept: KeptGate) -> list[RecordChange]:
        """The changes that remove a gate, and its id from the record."""
        gate = kept.gate
        deployments = await self._read(
            tenant, lambda: self._archive.deployments(tenant, gate.agent_id)
        )
        record = deployments.get(gate.request.version)
        restored = (
            [replace(record, approval_gate_id=gate.replaces)]
            if record is not None and record.approval_gate_id == gate.gate_id
            else []
        )
        return [*deployments.changes(restored), kept.removal(tenant)]

    async def _has_ended(self, gate: ApprovalGate) -> bool:
        last = (await RunHandle.find(self._log, gate.partition, gate.run_id).look())[-1]
        return last.type in TERMINAL_TYPES

    def _run(self, gate: ApprovalGate) -> ManagingRun:
        return ManagingRun(RunHandle.find(self._log, gate.partition, gate.run_id), self._clock)

    async def _read(self, tenant: str, read: Callable[[], T]) -> T:
        return await self._archive.read(tenant, read)

    async def _gate(self, principal: Principal, run_id: str) -> KeptGate | None:
        tenant = principal.tenant
        kept = await self._read(tenant, lambda: self._archive.gate(tenant, run_id))
        return kept if kept is not None and kept.gate.partition == principal.partition else None

    async def _open_gate(self, principal: Principal, run_id: str, node_id: str) -> KeptGate:
        if node_id == APPROVAL_NODE:
            kept = await self._gate(principal, run_id)
            if kept is not None:
                return kept
            run = RunHandle.find(self._log, principal.partition, run_id)
            if await run.beside(lambda: _has_asked(run)):
                raise GateClosed("this approval is already decided")
        raise NoSuchGate("no such run waits for approval at this node")

    def _refuse_second(self, proposal: Proposal) -> None:
        subject = (proposal.agent_id, proposal.request.version)
        for gate, _ in self._archive.gates(proposal.deployments.tenant):
            if (gate.agent_id, gate.request.version) == subject:
                known = {"runId": gate.run_id} if gate.partition == proposal.partition else {}
                raise ApprovalPending(
                    "a promotion of this version is already waiting for approval", **known
                )


def _has_asked(run: RunHandle) -> bool:
    try:
        return any(run.log.read(run.run_id, (InterruptRequested.TYPE,)))
    except RunNotFound:
        return False
