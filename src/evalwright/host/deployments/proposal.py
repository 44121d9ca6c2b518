"""A transition on its way: what is asked, of which versions, and what it needs to be made."""

import asyncio
from typing import Protocol

import msgspec

from evalwright.host.deployments.archive import Archive, Shelf
from evalwright.host.deployments.evidence import check_evidence
from evalwright.host.deployments.promotion import target_state
from evalwright.host.deployments.record import AgentDeployment, tell
from evalwright.host.deployments.refusals import IllegalTransition, NoSuchAgent
from evalwright.host.deployments.request import Proof, TransitionRequest
from evalwright.host.deployments.transition import Decision, transition
from evalwright.host.settings import DeploymentSettings
from evalwright.store.protocol import EventLog


class KnownAgents(Protocol):
    """Which agents a tenant can run."""

    def agent(self, tenant: str, agent_id: str, version: str | None = None) -> object | None:
        """An agent in a version, or in any."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A request beside the records that it is about."""

    partition: str  # of the log: whose evaluations count
    agent_id: str
    shelf: Shelf
    request: TransitionRequest
    policy: DeploymentSettings
    needs_approval: bool = False
    needs_evidence: bool = False
    eval_run_id: str | None = None

    def decide(self, gate_id: str | None = None) -> Decision:
        """What changes; raises `IllegalTransition` where the request does not fit."""
        proof = Proof(self.eval_run_id, gate_id)
        return transition(self.agent_id, self.shelf.records, self.request, self.policy, proof)

    async def check_evidence(self, log: EventLog) -> None:
        """Raise `EvalGateUnmet` where an evaluation must show something and does not."""
        if self.needs_evidence:
            await asyncio.to_thread(
                check_evidence,
                log.for_tenant(self.partition),
                self.agent_id,
                self.request.version,
                self.eval_run_id,
                self.policy.required_pass_score,
            )

    def told(self, decision: Decision) -> AgentDeployment:
        """The version's record after the decision, as others see it."""
        after = tell(self.shelf.with_changes(decision.changed))
        return next(record for record in after if record.version == self.request.version)


class Proposals:
    """Looks up what requests are about."""

    def __init__(self, archive: Archive, agents: KnownAgents, policy: DeploymentSettings) -> None:
        self._archive = archive
        self._agents = agents
        self._policy = policy

    def shelf(self, tenant: str, agent_id: str) -> Shelf:
        """The deployments of an agent; raises `NoSuchAgent`."""
        shelf = self._archive.deployments(tenant, agent_id)
        if not shelf.records and self._agents.agent(tenant, agent_id) is None:
            raise NoSuchAgent("there is no such agent")
        return shelf

    def propose(
        self, tenant: str, partition: str, agent_id: str, request: TransitionRequest
    ) -> Proposal:
        """The request beside what it is about; raises where there is no such agent or version."""
        shelf = self.shelf(tenant, agent_id)
        plain = Proposal(
            partition=partition,
            agent_id=agent_id,
            shelf=shelf,
            request=request,
            policy=self._policy,
        )
        if request.transition != "promote":
            return plain
        if self._agents.agent(tenant, agent_id, request.version) is None:
            raise IllegalTransition(f"version {request.version} of the agent is not installed")
        record = shelf.get(request.version)
        is_gated = target_state(record, request) in self._policy.required_for
        must_show = is_gated and self._policy.require_eval
        recorded = record.eval_run_id if record and must_show else None
        return msgspec.structs.replace(
            plain,
            needs_approval=is_gated and self._policy.approval is not None,
            needs_evidence=must_show or request.eval_run_id is not None,
            eval_run_id=request.eval_run_id or recorded,
        )
