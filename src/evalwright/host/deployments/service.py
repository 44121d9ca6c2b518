"""The deployments of the host: listed, changed by authorized keys, and resolved for runs.

A transition is authorized, its evaluation is checked, and the policy may require approval. Each one
is a run in the log, written together with the records that it changes.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from evalwright import __version__
from evalwright.contracts.errors import LogConflict, RunNotFound
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    ErrorDetail,
    Payload,
    RunCancelled,
    RunCompleted,
    RunFailure,
    RunStarted,
)
from evalwright.contracts.run_plan import Owner
from evalwright.engine.clock import Clock, SystemClock, new_run_id
from evalwright.host.access.keys import Principal
from evalwright.host.async_store import read_soon
from evalwright.host.deployments.approvals import HOST, ApprovalGate, Ballot
from evalwright.host.deployments.events import (
    APPROVAL_NODE,
    AuthorizationDecided,
    EvidenceRead,
    InterruptRequested,
)
from evalwright.host.deployments.gate_evidence import check_evidence
from evalwright.host.deployments.model import (
    DEPLOYMENT,
    GATE,
    WORKFLOW_ID,
    AgentDeployment,
    ApprovalPending,
    Conflict,
    Deployment,
    DeploymentRefusal,
    EvalGateUnmet,
    GateClosed,
    IllegalTransition,
    NoSuchAgent,
    NoSuchGate,
    NotAllowed,
    Proof,
    TransitionRequest,
    public_records,
)
from evalwright.host.deployments.transitions import Decision, resolve, target_state, transition
from evalwright.host.http.settings import ApprovalSettings, DeploymentSettings
from evalwright.host.runs.handle import RunHandle
from evalwright.signals.masking.credentials import mask_reason
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import Record, RecordChange, RecordConflict

ATTEMPTS = 5  # at a change that races with other processes
LONGEST_ID = 256
_PAGE = 1000

Status = Literal["waiting-approval", "completed", "failed"]
T = TypeVar("T")

_encode = msgspec.json.Encoder(order="deterministic").encode


class KnownAgents(Protocol):
    """The agents that a tenant can run."""

    def agent(self, tenant: str, agent_id: str, version: str | None = None) -> object | None:
        """An agent in a version, or in any."""


class Transitioned(msgspec.Struct, frozen=True):
    """The result of a request: the record, and the run that recorded it."""

    run_id: str
    status: Status
    record: AgentDeployment


class _Versions:
    """The deployments of one agent as read; writes fail if any of them has changed since."""

    def __init__(self, tenant: str, agent_id: str, documents: Iterable[Record]) -> None:
        self.tenant, self.agent_id = tenant, agent_id
        self._bodies = {document.key: document.body for document in documents}
        self.records = [
            msgspec.json.decode(body, type=Deployment) for body in self._bodies.values()
        ]

    def get(self, version: str) -> Deployment | None:
        return next((record for record in self.records if record.version == version), None)

    def public(self, version: str, changed: Iterable[Deployment]) -> AgentDeployment:
        """A version after a change, as clients see it."""
        after = {record.version: record for record in (*self.records, *changed)}
        return next(each for each in public_records(after.values()) if each.version == version)

    def changes(self, changed: Iterable[Deployment]) -> list[RecordChange]:
        """The writes of a change, which fail together if any version of the agent has changed.

        Unchanged versions are written again: which one serves depends on all of them, so two
        concurrent requests for different versions must not both succeed.
        """
        bodies = dict(self._bodies)
        bodies.update((f"{self.agent_id}@{record.version}", _encode(record)) for record in changed)
        return [
            RecordChange(DEPLOYMENT, self.tenant, key, body, self._bodies.get(key))
            for key, body in bodies.items()
        ]


class _KeptGate(NamedTuple):
    """A gate as read; writes fail if it has changed since."""

    tenant: str
    gate: ApprovalGate
    body: bytes

    @classmethod
    def of(cls, tenant: str, body: bytes) -> "_KeptGate":
        return cls(tenant, msgspec.json.decode(body, type=ApprovalGate), body)

    def put(self, body: bytes | None) -> RecordChange:
        return RecordChange(GATE, self.tenant, self.gate.run_id, body, self.body)


class _Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A request with the versions that it concerns, and what it needs."""

    partition: str  # of the log: whose evaluations count
    request: TransitionRequest
    versions: _Versions
    needs_approval: bool = False
    needs_evidence: bool = False
    eval_run_id: str | None = None


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
        self._records = log.records
        self._agents = agents
        self._policy = policy
        self._clock = clock or SystemClock()
        # A request that lost a race would leave a run behind that can take no more events.
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def list(self, tenant: str, agent_id: str) -> "list[AgentDeployment]":
        """The deployments of an agent, lowest version first."""
        async with self._turns[tenant]:
            await self._expire(tenant, self._clock.now_us())
        found = await self._read(tenant, lambda: self._known_versions(tenant, agent_id))
        return public_records(found.records)

    async def waiting(self, principal: Principal, agent_id: str) -> tuple[ApprovalGate, ...]:
        """The promotions of an agent that wait for approval, of those that a key may see."""
        wanted = (agent_id, principal.partition)
        kept = await self._read(principal.tenant, lambda: self._gates(principal.tenant))
        gates = (each.gate for each in kept)
        return tuple(each for each in gates if (each.agent_id, each.partition) == wanted)

    def resolve(self, tenant: str, agent_id: str, channel: str, draw: float) -> str:
        """The version that a new run gets on a channel; `draw` is in [0, 1)."""
        return resolve(self._versions(tenant, agent_id).records, channel, draw)

    async def request(
        self, principal: Principal, agent_id: str, request: TransitionRequest
    ) -> Transitioned:
        """Make a transition, or let it wait for approval; raises a `DeploymentRefusal`."""
        if len(agent_id) > LONGEST_ID:  # a refusal would be recorded with it
            raise NoSuchAgent("no such agent")
        request = replace(request, reason=mask_reason(request.reason))
        if not principal.may(request.scope):
            refusal = _lacks(request.scope)
            run = self._run(principal.partition, new_run_id(self._clock))
            frame = _opened(principal, agent_id, request, allowed=False)
            await self._write(run, [*frame, _refused(refusal)])
            refusal.details["runId"] = run.run_id
            raise refusal
        async with self._turns[principal.tenant]:
            await self._expire(principal.tenant, self._clock.now_us())
            for _ in range(ATTEMPTS):
                with suppress(RecordConflict):
                    return await self._attempt(principal, agent_id, request)
        raise Conflict("the agent's deployments changed at the same time; try again")

    async def _attempt(
        self, principal: Principal, agent_id: str, request: TransitionRequest
    ) -> Transitioned:
        tenant, partition = principal.tenant, principal.partition
        proposal = await self._read(
            tenant, lambda: self._propose(tenant, partition, agent_id, request)
        )
        decision = self._decide(proposal)  # before asking for approval of what is impossible
        run = self._run(partition, new_run_id(self._clock))
        frame = _opened(principal, agent_id, request, allowed=True)
        try:
            frame += await self._evidence(proposal)
        except EvalGateUnmet as unmet:
            await self._write(run, [*frame, *unmet.evidence, _refused(unmet)])
            details = unmet.details if principal.may("runs:read") else {}
            raise EvalGateUnmet(unmet.message, runId=run.run_id, **details) from None
        if proposal.needs_approval and self._policy.approval is not None:
            waiting = await self._ask(principal, proposal, self._policy.approval, run, frame)
            return Transitioned(run.run_id, "waiting-approval", waiting)
        record = proposal.versions.public(request.version, decision.changed)
        events = [*frame, *decision.events, _completed(record)]
        await self._write(run, events, proposal.versions.changes(decision.changed))
        return Transitioned(run.run_id, "completed", record)

    def _propose(
        self, tenant: str, partition: str, agent_id: str, request: TransitionRequest
    ) -> _Proposal:
        """A request with its versions; raises if the agent or the version does not exist."""
        versions = self._known_versions(tenant, agent_id)
        if request.transition != "promote":
            return _Proposal(partition=partition, request=request, versions=versions)
        if self._agents.agent(tenant, agent_id, request.version) is None:
            raise IllegalTransition(f"version {request.version} of the agent is not installed")
        record = versions.get(request.version)
        is_gated = target_state(record, request) in self._policy.required_for
        must_show = is_gated and self._policy.require_eval
        recorded = record.eval_run_id if record and must_show else None
        return _Proposal(
            partition=partition,
            request=request,
            versions=versions,
            needs_approval=is_gated and self._policy.approval is not None,
            needs_evidence=must_show or request.eval_run_id is not None,
            eval_run_id=request.eval_run_id or recorded,
        )

    def _decide(self, proposal: _Proposal, gate_id: str | None = None) -> Decision:
        proof = Proof(proposal.eval_run_id, gate_id)
        versions, request = proposal.versions, proposal.request
        return transition(versions.agent_id, versions.records, request, self._policy, proof)

    async def _evidence(self, proposal: _Proposal) -> Sequence[EvidenceRead]:
        if not proposal.needs_evidence:
            return ()
        return await asyncio.to_thread(
            check_evidence,
            self._log.for_tenant(proposal.partition),
            proposal.versions.agent_id,
            proposal.request.version,
            proposal.eval_run_id,
            self._policy.required_pass_score,
        )

    async def _ask(
        self,
        principal: Principal,
        proposal: _Proposal,
        policy: ApprovalSettings,
        run: RunHandle,
        frame: Sequence[Payload],
    ) -> AgentDeployment:
        """Open a gate for the promotion; returns the record, which changes only in its gate id."""
        request, versions = proposal.request, proposal.versions
        tenant, agent_id = versions.tenant, versions.agent_id
        for kept in await self._read(tenant, lambda: self._gates(tenant)):
            gate = kept.gate
            if (gate.agent_id, gate.request.version) == (agent_id, request.version):
                known = {"runId": gate.run_id} if gate.partition == proposal.partition else {}
                raise ApprovalPending(
                    "a promotion of this version is already waiting for approval", **known
                )
        record, events = versions.get(request.version), []
        if record is None:
            draft = TransitionRequest(
                version=request.version, transition="promote", to_state="draft"
            )
            made = transition(agent_id, versions.records, draft, self._policy)
            record, events = made.record, made.events
        gate = ApprovalGate(
            run_id=run.run_id,
            partition=principal.partition,
            agent_id=agent_id,
            request=request,
            requester=principal.principal,
            policy=policy,
            asked_at_us=self._clock.now_us(),
            replaces=record.approval_gate_id,
        )
        marked = [replace(record, approval_gate_id=gate.gate_id)]
        opened = RecordChange(GATE, tenant, gate.run_id, _encode(gate), None)
        await self._write(run, [*frame, *events, gate.asked()], [*versions.changes(marked), opened])
        return versions.public(request.version, marked)

    async def vote(self, principal: Principal, run_id: str, node_id: str, ballot: Ballot) -> Status:
        """Accept, reject or override a promotion that waits; raises a `DeploymentRefusal`."""
        ballot = replace(ballot, reason=mask_reason(ballot.reason))
        async with self._turns[principal.tenant]:
            await self._expire(principal.tenant, self._clock.now_us())
            try:
                kept = await self._open_gate(principal, run_id, node_id)
                return await self._count(principal, kept, ballot)
            except (RecordConflict, LogConflict):
                raise Conflict(
                    "another vote decided at the same time; read the run again"
                ) from None

    async def _count(self, principal: Principal, kept: _KeptGate, ballot: Ballot) -> Status:
        """Count a vote; the vote that completes the quorum makes the promotion."""
        gate, voter = kept.gate, principal.principal
        scope = gate.scope_for(ballot)
        run = self._run(gate.partition, gate.run_id)
        try:
            gate.check_voter(ballot, principal)
        except NotAllowed as refusal:
            denied = AuthorizationDecided(voter, scope, gate.gate_id, False, refusal.message)
            await self._write(run, [denied], [kept.put(kept.body)])
            raise
        result = gate.count(ballot, voter)
        events: list[Payload] = [
            AuthorizationDecided(voter, scope, gate.gate_id, True),
            result.event,
        ]
        if result.outcome == "open":
            after = replace(gate, granted_by=result.granted_by)
            await self._write(run, events, [kept.put(_encode(after))])
            return "waiting-approval"
        events.append(gate.answered(ballot.action, voter, self._clock.now_us()))
        if result.outcome == "granted":
            # Make the promotion if its other conditions still hold.
            tenant, gate = kept.tenant, kept.gate
            try:
                proposal = await self._read(
                    tenant,
                    lambda: self._propose(tenant, gate.partition, gate.agent_id, gate.request),
                )
                decision = self._decide(proposal, gate.gate_id)
                evidence = await self._evidence(proposal)
            except DeploymentRefusal as refusal:
                return await self._close(kept, [*events, _refused(refusal)])
            versions, changed = proposal.versions, decision.changed
            done = _completed(versions.public(gate.request.version, changed))
            events = [*events, *evidence, *decision.events, done]
            await self._write(run, events, [*versions.changes(changed), kept.put(None)])
            return "completed"
        return await self._close(kept, [*events, _rejected("the promotion was rejected")])

    async def cancel(self, principal: Principal, run_id: str, reason: str | None = None) -> bool:
        """Cancel a promotion that waits for approval; returns whether this run was one."""
        async with self._turns[principal.tenant]:
            kept = await self._own_gate(principal, run_id)
            if kept is None:
                return False
            if not principal.may("deploy:promote"):
                raise _lacks("deploy:promote")
            by = principal.principal
            resolved = kept.gate.answered("cancel", by, self._clock.now_us())
            await self._close(kept, [resolved, RunCancelled(mask_reason(reason), by)])
            return True

    async def sweep(self, now_us: int) -> int:
        """Reject all promotions past their deadline; returns how many there were."""
        rejected = 0
        kept = await self._read("", lambda: list(self._records.of_all_tenants(GATE)))
        for tenant in sorted({tenant for tenant, _ in kept}):
            async with self._turns[tenant]:
                rejected += await self._expire(tenant, now_us)
        return rejected

    async def _expire(self, tenant: str, now_us: int) -> int:
        """Reject the promotions past their deadline, and forget those whose run has ended.

        Returns how many gates were removed.
        """
        gone = 0
        for kept in await self._read(tenant, lambda: self._gates(tenant)):
            gate = kept.gate
            with suppress(RecordConflict):  # another host was first
                last = (await self._run(gate.partition, gate.run_id).read_edges())[-1]
                if last.type in TERMINAL_TYPES:
                    await asyncio.wrap_future(self._records.write(await self._endings(kept)))
                elif gate.deadline_us <= now_us:
                    events = [
                        gate.rejected(HOST, "timeout").event,
                        gate.answered("timeout", HOST, now_us),
                        _rejected("nobody approved the promotion in time"),
                    ]
                    await self._close(kept, events)
                else:
                    continue
            gone += 1
        return gone

    async def _close(self, kept: _KeptGate, events: Sequence[Payload]) -> Status:
        """End the run of a gate without the promotion."""
        run = self._run(kept.gate.partition, kept.gate.run_id)
        await self._write(run, events, await self._endings(kept))
        return "failed"

    async def _endings(self, kept: _KeptGate) -> Sequence[RecordChange]:
        """The changes that remove a gate, and its id from the record."""
        tenant, gate = kept.tenant, kept.gate
        versions = await self._read(tenant, lambda: self._versions(tenant, gate.agent_id))
        record = versions.get(gate.request.version)
        is_marked = record is not None and record.approval_gate_id == gate.gate_id
        restored = [replace(record, approval_gate_id=gate.replaces)] if record and is_marked else []
        return [*versions.changes(restored), kept.put(None)]

    async def _open_gate(self, principal: Principal, run_id: str, node_id: str) -> _KeptGate:
        if node_id == APPROVAL_NODE:
            kept = await self._own_gate(principal, run_id)
            if kept is not None:
                return kept
            run = self._run(principal.partition, run_id)
            with suppress(RunNotFound):
                if await run.in_reader(
                    lambda: any(run.log.read(run_id, (InterruptRequested.TYPE,)))
                ):
                    raise GateClosed("this approval is already decided")
        raise NoSuchGate("no such run waits for approval at this node")

    # Records.

    async def _read(self, tenant: str, read: Callable[[], T]) -> T:
        """Read something of a tenant without making the event loop wait."""
        return await read_soon(self._records, tenant, read)

    def _known_versions(self, tenant: str, agent_id: str) -> _Versions:
        """The deployments of an agent; raises `NoSuchAgent`."""
        versions = self._versions(tenant, agent_id)
        if not versions.records and self._agents.agent(tenant, agent_id) is None:
            raise NoSuchAgent("no such agent")
        return versions

    def _versions(self, tenant: str, agent_id: str) -> _Versions:
        return _Versions(tenant, agent_id, self._all(DEPLOYMENT, tenant, f"{agent_id}@"))

    def _gates(self, tenant: str) -> Sequence[_KeptGate]:
        """All promotions of the tenant that wait for approval."""
        return [_KeptGate.of(tenant, document.body) for document in self._all(GATE, tenant)]

    async def _own_gate(self, principal: Principal, run_id: str) -> _KeptGate | None:
        """The gate that a run of the key's workspace waits at."""
        tenant = principal.tenant
        body = await self._read(tenant, lambda: self._records.get(GATE, tenant, run_id))
        kept = None if body is None else _KeptGate.of(tenant, body)
        return kept if kept and kept.gate.partition == principal.partition else None

    def _all(self, kind: str, tenant: str, prefix: str = "") -> Iterator[Record]:
        after = ""
        while page := self._records.list(kind, tenant, prefix, after, _PAGE):
            yield from page
            after = page[-1].key

    # Runs: one for each requested transition.

    def _run(self, partition: str, run_id: str) -> RunHandle:
        return RunHandle.find(self._log, partition, run_id)

    async def _write(
        self, run: RunHandle, payloads: Iterable[Payload], changes: Sequence[RecordChange] = ()
    ) -> None:
        """Append events and write records as one unit; raises `RecordConflict`."""
        now = self._clock.now_us()
        events = []
        for payload in payloads:
            node = APPROVAL_NODE if payload.TYPE.startswith(("interrupt.", "approval.")) else None
            events.append(NewEvent(payload.TYPE, node, now, msgspec.json.encode(payload)))
        await run.append(events, changes)


def _opened(
    principal: Principal, agent_id: str, request: TransitionRequest, *, allowed: bool
) -> list[Payload]:
    """The first events of every managing run: the request, and whether it is allowed."""
    inputs: dict[str, Any] = {"agentId": agent_id, **msgspec.to_builtins(request)}
    inputs.pop("reason", None)
    owner = Owner(principal.tenant, principal.workspace, principal.principal)
    subject = f"{agent_id}@{request.version}"
    return [
        RunStarted(WORKFLOW_ID, inputs, transport="rest", engine_version=__version__, owner=owner),
        AuthorizationDecided(principal.principal, request.scope, subject, allowed),
    ]


def _completed(record: AgentDeployment) -> RunCompleted:
    return RunCompleted({"record": msgspec.to_builtins(record)})


def _refused(refusal: DeploymentRefusal) -> RunFailure:
    return RunFailure(ErrorDetail(refusal.code, refusal.message))


def _rejected(message: str) -> RunFailure:
    return RunFailure(ErrorDetail("approval_rejected", message))


def _lacks(scope: str) -> NotAllowed:
    return NotAllowed(f"the key lacks the scope {scope}", scopeRequired=scope)
