"""A transition on its way: what is asked, of which versions, and what it needs to be made."""

import asyncio
from typing import Protocol

import msgspec

from evalwright.contracts.errors import CannotEvaluate, DamagedEventLog, RunNotFound, StoreError
from evalwright.engine.execution import Outcome
from evalwright.engine.replay import replay_run
from evalwright.engine.verdict import gates
from evalwright.host.deployments.archive import Archive, DeploymentSet
from evalwright.host.deployments.promotion import target_state
from evalwright.host.deployments.record import AgentDeployment, tell
from evalwright.host.deployments.refusals import EvalGateUnmet, IllegalTransition, NoSuchAgent
from evalwright.host.deployments.request import Proof, TransitionRequest
from evalwright.host.deployments.transition import Decision, transition
from evalwright.host.settings import DeploymentSettings
from evalwright.scoring.safety import is_blocking
from evalwright.store.protocol import EventLog


class KnownAgents(Protocol):
    """Which agents a tenant can run."""

    def agent(self, tenant: str, agent_id: str, version: str | None = None) -> object | None:
        """An agent in a version, or in any."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A request beside the records that it is about."""

    partition: str  # of the log: whose evaluations count
    agent_id: str
    deployments: DeploymentSet
    request: TransitionRequest
    policy: DeploymentSettings
    needs_approval: bool = False
    needs_evidence: bool = False
    eval_run_id: str | None = None

    def decide(self, gate_id: str | None = None) -> Decision:
        """What changes; raises `IllegalTransition` where the request does not fit."""
        proof = Proof(self.eval_run_id, gate_id)
        return transition(self.agent_id, self.deployments.records, self.request, self.policy, proof)

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
        after = tell(self.deployments.with_changes(decision.changed))
        return next(record for record in after if record.version == self.request.version)


class Proposals:
    """Looks up what requests are about."""

    def __init__(self, archive: Archive, agents: KnownAgents, policy: DeploymentSettings) -> None:
        self._archive = archive
        self._agents = agents
        self._policy = policy

    def deployments(self, tenant: str, agent_id: str) -> DeploymentSet:
        """The deployments of an agent; raises `NoSuchAgent`."""
        deployments = self._archive.deployments(tenant, agent_id)
        if not deployments.records and self._agents.agent(tenant, agent_id) is None:
            raise NoSuchAgent("there is no such agent")
        return deployments

    def propose(
        self, tenant: str, partition: str, agent_id: str, request: TransitionRequest
    ) -> Proposal:
        """The request beside what it is about; raises where there is no such agent or version."""
        deployments = self.deployments(tenant, agent_id)
        plain = Proposal(
            partition=partition,
            agent_id=agent_id,
            deployments=deployments,
            request=request,
            policy=self._policy,
        )
        if request.transition != "promote":
            return plain
        if self._agents.agent(tenant, agent_id, request.version) is None:
            raise IllegalTransition(f"version {request.version} of the agent is not installed")
        record = deployments.get(request.version)
        is_gated = target_state(record, request) in self._policy.required_for
        must_show = is_gated and self._policy.require_eval
        recorded = record.eval_run_id if record and must_show else None
        return msgspec.structs.replace(
            plain,
            needs_approval=is_gated and self._policy.approval is not None,
            needs_evidence=must_show or request.eval_run_id is not None,
            eval_run_id=request.eval_run_id or recorded,
        )


UNMET = "no completed evaluation of this version by its own tenant shows that it is good enough"


def check_evidence(
    log: EventLog,
    agent_id: str,
    version: str,
    eval_run_id: str | None,
    required_pass_score: float | None,
) -> None:
    """Raise `EvalGateUnmet` unless the run shows that this version may be promoted.

    The log is that of the tenant, so another tenant's run is not there. The words are the same
    whatever is wrong; only details of a run that is there say which bar it did not reach.
    """
    if eval_run_id is None:
        raise EvalGateUnmet(UNMET, unmet=["the request names no evalRunId"])
    try:
        outcome = replay_run(log, eval_run_id)
    except (RunNotFound, DamagedEventLog):  # not there, or not the log of an evaluation
        raise EvalGateUnmet(UNMET) from None
    except StoreError:
        raise
    except CannotEvaluate:  # not complete
        raise EvalGateUnmet(UNMET, unmet=["the run did not complete"]) from None
    unmet = _unmet(outcome, agent_id, version, required_pass_score)
    if unmet:
        raise EvalGateUnmet(UNMET, unmet=unmet)


def _unmet(
    outcome: Outcome, agent_id: str, version: str, required_pass_score: float | None
) -> list[str]:
    agent = outcome.plan.agent
    if (agent.agent_id, agent.version) != (agent_id, version):
        return ["the run evaluated another agent or version"]
    if outcome.plan.origin and "mockProvider" in (outcome.plan.origin.configurable or {}):
        return ["the run asked a mock in place of a model"]
    return [
        *_missed_scores(outcome, required_pass_score),
        *_safety_findings(outcome),
        *(reason for reason in outcome.reasons if reason not in outcome.broken_bars),
    ]


def _missed_scores(outcome: Outcome, required_pass_score: float | None) -> list[str]:
    """A required score stands in for the bars of the suite."""
    summary = outcome.summary
    if required_pass_score is None:
        return [] if summary.passed else (outcome.broken_bars or ["the run did not pass"])
    if summary.aggregate_score >= required_pass_score:
        return []
    return [f"score {summary.aggregate_score:.4g} is below the required {required_pass_score:.4g}"]


def _safety_findings(outcome: Outcome) -> list[str]:
    """Findings count even in a run that was told not to fail on them."""
    if "findings" in gates(outcome.plan):  # then they are among the reasons already
        return []
    unsafe = any(is_blocking(task.safety_findings or ()) for task in outcome.summary.tasks)
    return ["there are high or critical safety findings"] if unsafe else []
