"""The deployments of the host: listed, changed by authorized keys, and resolved for runs.

A transition is authorized, its evaluation is checked, and the policy may require approval. Each one
is a run in the log, written together with the records that it changes.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from evalwright import __version__
from evalwright.contracts.errors import (
    CannotEvaluate,
    DamagedEventLog,
    LogConflict,
    RunNotFound,
    StoreError,
)
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
from evalwright.engine.isolation import PARTIAL, marks_of
from evalwright.engine.overrides import read_overrides
from evalwright.engine.replay import replay_run
from evalwright.engine.verdict import Outcome, gates
from evalwright.host.access.keys import Principal, tenant_of
from evalwright.host.async_store import read_soon
from evalwright.host.deployments.approvals import HOST, ApprovalGate, Ballot
from evalwright.host.deployments.events import (
    APPROVAL_NODE,
    AuthorizationDecided,
    EvidenceRead,
    InterruptRequested,
    OverriddenScore,
)
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
    TransitionRequest,
    public_records,
)
from evalwright.host.deployments.transitions import Decision, resolve, target_state, transition
from evalwright.host.http.settings import DeploymentSettings
from evalwright.host.runs.handle import RunHandle
from evalwright.scoring.thresholds import is_blocking
from evalwright.signals.masking.credentials import mask_reason
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import Record, RecordChange, RecordConflict, every_record

ATTEMPTS = 5  # at a change that races with other processes
LONGEST_ID = 256
UNMET = "the version has no completed evaluation by this tenant that passed"

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


class _CheckedRequest(NamedTuple):
    """What a request comes to: the versions as read, the change, and what it rests on."""

    versions: _Versions
    decision: Decision
    evidence: list[EvidenceRead]
    needs_approval: bool


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
        run = self._run(principal.partition, new_run_id(self._clock))
        frame = _opened(principal, agent_id, request, allowed=True)
        try:
            checked = await self._checked(principal.partition, agent_id, request)
        except EvalGateUnmet as unmet:
            await self._write(run, [*frame, *unmet.evidence, _refused(unmet)])
            details = unmet.details if principal.may("runs:read") else {}
            raise EvalGateUnmet(unmet.message, runId=run.run_id, **details) from None
        frame += checked.evidence
        versions, changed = checked.versions, checked.decision.changed
        if checked.needs_approval:
            waiting = await self._ask(principal, versions, request, run, frame)
            return Transitioned(run.run_id, "waiting-approval", waiting)
        record = versions.public(request.version, changed)
        events = [*frame, *checked.decision.events, _completed(record)]
        await self._write(run, events, versions.changes(changed))
        return Transitioned(run.run_id, "completed", record)

    async def _checked(
        self, partition: str, agent_id: str, request: TransitionRequest, gate_id: str | None = None
    ) -> _CheckedRequest:
        """What a request comes to; raises a `DeploymentRefusal`."""
        tenant, policy = tenant_of(partition), self._policy
        is_promotion = request.transition == "promote"

        def read() -> _Versions:
            versions = self._known_versions(tenant, agent_id)
            if is_promotion and self._agents.agent(tenant, agent_id, request.version) is None:
                raise IllegalTransition(f"version {request.version} of the agent is not installed")
            return versions

        versions = await self._read(tenant, read)
        record = versions.get(request.version)
        is_gated = is_promotion and target_state(record, request) in policy.required_for
        must_show = is_gated and policy.require_eval
        eval_run_id = request.eval_run_id or (record.eval_run_id if record and must_show else None)
        decision = transition(
            agent_id, versions.records, request, policy, eval_run_id=eval_run_id, gate_id=gate_id
        )  # before asking for approval of what is impossible
        evidence = list[EvidenceRead]()
        if must_show or request.eval_run_id is not None:
            least, log = policy.required_pass_score, self._log.for_tenant(partition)
            evidence = await asyncio.to_thread(
                check_evidence, log, agent_id, request.version, eval_run_id, least
            )
        needs_approval = is_gated and policy.approval is not None
        return _CheckedRequest(versions, decision, evidence, needs_approval)

    async def _ask(
        self,
        principal: Principal,
        versions: _Versions,
        request: TransitionRequest,
        run: RunHandle,
        frame: Sequence[Payload],
    ) -> AgentDeployment:
        """Open a gate for the promotion; returns the record, which changes only in its gate id."""
        tenant, agent_id = versions.tenant, versions.agent_id
        for kept in await self._read(tenant, lambda: self._gates(tenant)):
            gate = kept.gate
            if (gate.agent_id, gate.request.version) == (agent_id, request.version):
                known = {"runId": gate.run_id} if gate.partition == principal.partition else {}
                message = "a promotion of this version is already waiting for approval"
                raise ApprovalPending(message, **known)
        record, events = versions.get(request.version), []
        if record is None:
            draft = replace(request, to_state="draft", channel=None, canary_percent=None)
            made = transition(agent_id, versions.records, draft, self._policy)
            record, events = made.record, made.events
        assert self._policy.approval is not None, "approval is asked for where it is needed"
        gate = ApprovalGate(
            run_id=run.run_id,
            partition=principal.partition,
            agent_id=agent_id,
            request=request,
            requester=principal.principal,
            policy=self._policy.approval,
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
            is_gate = node_id == APPROVAL_NODE
            kept = await self._own_gate(principal, run_id) if is_gate else None
            if kept is None:
                run, asked = self._run(principal.partition, run_id), (InterruptRequested.TYPE,)
                with suppress(RunNotFound):
                    if is_gate and await run.in_reader(lambda: any(run.log.read(run_id, asked))):
                        raise GateClosed("this approval is already decided")
                raise NoSuchGate("no such run waits for approval at this node")
            try:
                return await self._count(principal, kept, ballot)
            except (RecordConflict, LogConflict):
                message = "another vote decided at the same time; read the run again"
                raise Conflict(message) from None

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
        if result.outcome == "rejected":
            return await self._close(kept, [*events, _rejected("the promotion was rejected")])
        try:  # the promotion is made if its other conditions still hold
            checked = await self._checked(gate.partition, gate.agent_id, gate.request, gate.gate_id)
        except DeploymentRefusal as refusal:
            return await self._close(kept, [*events, _refused(refusal)])
        versions, decision = checked.versions, checked.decision
        done = _completed(versions.public(gate.request.version, decision.changed))
        events += [*checked.evidence, *decision.events, done]
        await self._write(run, events, [*versions.changes(decision.changed), kept.put(None)])
        return "completed"

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
        kept = await self._read("", lambda: list(self._records.of_all_tenants(GATE)))
        rejected = 0
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

    # Records.

    async def _read(self, tenant: str, read: Callable[[], T]) -> T:
        return await read_soon(self._records, tenant, read)

    def _known_versions(self, tenant: str, agent_id: str) -> _Versions:
        versions = self._versions(tenant, agent_id)
        if not versions.records and self._agents.agent(tenant, agent_id) is None:
            raise NoSuchAgent("no such agent")
        return versions

    def _versions(self, tenant: str, agent_id: str) -> _Versions:
        return _Versions(
            tenant, agent_id, every_record(self._records, DEPLOYMENT, tenant, f"{agent_id}@")
        )

    def _gates(self, tenant: str) -> Sequence[_KeptGate]:
        kept = every_record(self._records, GATE, tenant)
        return [_KeptGate.of(tenant, document.body) for document in kept]

    async def _own_gate(self, principal: Principal, run_id: str) -> _KeptGate | None:
        """The gate that a run of the key's workspace waits at."""
        tenant = principal.tenant
        body = await self._read(tenant, lambda: self._records.get(GATE, tenant, run_id))
        kept = None if body is None else _KeptGate.of(tenant, body)
        return kept if kept and kept.gate.partition == principal.partition else None

    # Runs: one for each requested transition.

    def _run(self, partition: str, run_id: str) -> RunHandle:
        return RunHandle.find(self._log, partition, run_id)

    async def _write(
        self, run: RunHandle, payloads: Iterable[Payload], changes: Sequence[RecordChange] = ()
    ) -> None:
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


def check_evidence(
    log: EventLog,
    agent_id: str,
    version: str,
    eval_run_id: str | None,
    required_pass_score: float | None,
) -> list[EvidenceRead]:
    """Raise `EvalGateUnmet` unless the run is a passed evaluation of this version.

    Gives the event that says what the run's summary does not, if there is anything to say. The log
    holds the tenant's own runs only. The message is always the same; only for a run that exists do
    the details say which bar it did not reach. Scores that people corrected count as they were
    recorded, and the corrections are part of the evidence.
    """
    if eval_run_id is None:
        raise EvalGateUnmet(UNMET, unmet=["the request has no evalRunId"])
    try:
        outcome = replay_run(log, eval_run_id)
    except (RunNotFound, DamagedEventLog):  # not there, or not the log of an evaluation
        raise EvalGateUnmet(UNMET) from None
    except StoreError:
        raise
    except CannotEvaluate:  # not complete
        raise EvalGateUnmet(UNMET, unmet=["the run did not complete"]) from None
    overridden = tuple(
        OverriddenScore(
            task_id=each.task_id,
            score=each.score,
            annotation_id=each.annotation.annotation_id,
            principal=each.annotation.actor.principal_ref,
            created_at=each.annotation.created_at,
        )
        for each in read_overrides(log, eval_run_id)
    )
    marks = tuple(marks_of(outcome.plan.tags))
    summary = outcome.summary
    evidence = EvidenceRead(eval_run_id, summary.aggregate_score, summary.passed, overridden, marks)
    events = [evidence] if overridden or marks else []
    unmet = _unmet(outcome, agent_id, version, required_pass_score)
    if unmet:
        refusal = EvalGateUnmet(UNMET, unmet=unmet)
        if overridden:
            refusal.details["overriddenScores"] = msgspec.to_builtins(overridden)
        refusal.evidence = events
        raise refusal
    return events


def _unmet(
    outcome: Outcome, agent_id: str, version: str, required_pass_score: float | None
) -> list[str]:
    plan, summary = outcome.plan, outcome.summary
    if (plan.agent.agent_id, plan.agent.version) != (agent_id, version):
        return ["the run evaluated another agent or version"]
    if plan.origin and "mockProvider" in (plan.origin.configurable or {}):
        return ["the run used a mock instead of a model"]
    if PARTIAL in plan.tags:
        return ["the run is of a part of its suite"]
    unmet = []
    if required_pass_score is None:
        if not summary.passed:
            unmet += outcome.broken_bars or ["the run did not pass"]
    elif summary.aggregate_score < required_pass_score:  # in place of the suite's thresholds
        score, required = summary.aggregate_score, required_pass_score
        unmet.append(f"score {score:.4g} is below the required {required:.4g}")
    # Findings count also in a run that is not gated by them; else they are among the reasons.
    is_unsafe = any(is_blocking(task.safety_findings or ()) for task in summary.tasks)
    if is_unsafe and "findings" not in gates(plan):
        unmet.append("there are high or critical safety findings")
    return unmet + [reason for reason in outcome.reasons if reason not in outcome.broken_bars]
