"""A requested transition: the versions it concerns, and the evidence and approval it needs."""

import asyncio
from typing import Protocol

import msgspec

from evalwright.contracts.errors import CannotEvaluate, DamagedEventLog, RunNotFound, StoreError
from evalwright.engine.execution import Outcome
from evalwright.engine.isolation import PARTIAL, marks_of
from evalwright.engine.overrides import read_overrides
from evalwright.engine.replay import replay_run
from evalwright.engine.verdict import gates
from evalwright.host.deployments.archive import Archive, DeploymentSet
from evalwright.host.deployments.events import EvidenceRead, OverriddenScore
from evalwright.host.deployments.promotion import target_state
from evalwright.host.deployments.record import AgentDeployment, public_records
from evalwright.host.deployments.refusals import EvalGateUnmet, IllegalTransition, NoSuchAgent
from evalwright.host.deployments.request import Proof, TransitionRequest
from evalwright.host.deployments.transition import Decision, transition
from evalwright.host.settings import DeploymentSettings
from evalwright.scoring.thresholds import is_blocking
from evalwright.store.protocol import EventLog


class KnownAgents(Protocol):
    """The agents that a tenant can run."""

    def agent(self, tenant: str, agent_id: str, version: str | None = None) -> object | None:
        """An agent in a version, or in any."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A request with the deployments that it concerns."""

    partition: str  # of the log: whose evaluations count
    agent_id: str
    deployments: DeploymentSet
    request: TransitionRequest
    policy: DeploymentSettings
    needs_approval: bool = False
    needs_evidence: bool = False
    eval_run_id: str | None = None

    def decide(self, gate_id: str | None = None) -> Decision:
        """What the request changes; raises `IllegalTransition` if it does not fit their state."""
        proof = Proof(self.eval_run_id, gate_id)
        return transition(self.agent_id, self.deployments.records, self.request, self.policy, proof)

    async def check_evidence(self, log: EventLog) -> list[EvidenceRead]:
        """Raise `EvalGateUnmet` if the required evaluation is missing or did not pass.

        Returns the event that says what its summary does not, if there is anything to say.
        """
        if not self.needs_evidence:
            return []
        evidence = await asyncio.to_thread(
            check_evidence,
            log.for_tenant(self.partition),
            self.agent_id,
            self.request.version,
            self.eval_run_id,
            self.policy.required_pass_score,
        )
        return evidence.events()

    def record_after(self, decision: Decision) -> AgentDeployment:
        """The version's record after the decision, as clients see it."""
        after = public_records(self.deployments.with_changes(decision.changed))
        return next(record for record in after if record.version == self.request.version)


class Proposals:
    """Looks up the deployments that requests concern."""

    def __init__(self, archive: Archive, agents: KnownAgents, policy: DeploymentSettings) -> None:
        self._archive = archive
        self._agents = agents
        self._policy = policy

    def deployments(self, tenant: str, agent_id: str) -> DeploymentSet:
        """The deployments of an agent; raises `NoSuchAgent`."""
        deployments = self._archive.deployments(tenant, agent_id)
        if not deployments.records and self._agents.agent(tenant, agent_id) is None:
            raise NoSuchAgent("no such agent")
        return deployments

    def propose(
        self, tenant: str, partition: str, agent_id: str, request: TransitionRequest
    ) -> Proposal:
        """A request with its deployments; raises if the agent or the version does not exist."""
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


UNMET = "the version has no completed evaluation by this tenant that passed"


def check_evidence(
    log: EventLog,
    agent_id: str,
    version: str,
    eval_run_id: str | None,
    required_pass_score: float | None,
) -> EvidenceRead:
    """The evidence; raises `EvalGateUnmet` unless the run is a passed evaluation of this version.

    The log holds the tenant's own runs only. The message is always the same; only for a run that
    exists do the details say which bar it did not reach. Scores that people corrected count as they
    were recorded, and the corrections are part of the evidence.
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
    evidence = _evidence(log, outcome)
    unmet = _unmet(outcome, agent_id, version, required_pass_score)
    if unmet:
        refusal = EvalGateUnmet(UNMET, unmet=unmet)
        if evidence.overridden_scores:
            refusal.details["overriddenScores"] = msgspec.to_builtins(evidence.overridden_scores)
        refusal.evidence = evidence
        raise refusal
    return evidence


def _evidence(log: EventLog, outcome: Outcome) -> EvidenceRead:
    summary = outcome.summary
    return EvidenceRead(
        eval_run_id=outcome.run_id,
        aggregate_score=summary.aggregate_score,
        passed=summary.passed,
        overridden_scores=tuple(
            OverriddenScore(
                task_id=each.task_id,
                score=each.score,
                annotation_id=each.annotation.annotation_id,
                principal=each.annotation.actor.principal_ref,
                created_at=each.annotation.created_at,
            )
            for each in read_overrides(log, outcome.run_id)
        ),
        marks=tuple(marks_of(outcome.plan.tags)),
    )


def _unmet(
    outcome: Outcome, agent_id: str, version: str, required_pass_score: float | None
) -> list[str]:
    agent = outcome.plan.agent
    if (agent.agent_id, agent.version) != (agent_id, version):
        return ["the run evaluated another agent or version"]
    if outcome.plan.origin and "mockProvider" in (outcome.plan.origin.configurable or {}):
        return ["the run used a mock instead of a model"]
    if PARTIAL in outcome.plan.tags:
        return ["the run is of a part of its suite"]
    return [
        *_missed_scores(outcome, required_pass_score),
        *_safety_findings(outcome),
        *(reason for reason in outcome.reasons if reason not in outcome.broken_bars),
    ]


def _missed_scores(outcome: Outcome, required_pass_score: float | None) -> list[str]:
    """A score required by the host replaces the thresholds of the suite."""
    summary = outcome.summary
    if required_pass_score is None:
        return [] if summary.passed else (outcome.broken_bars or ["the run did not pass"])
    if summary.aggregate_score >= required_pass_score:
        return []
    return [f"score {summary.aggregate_score:.4g} is below the required {required_pass_score:.4g}"]


def _safety_findings(outcome: Outcome) -> list[str]:
    """Findings count even in a run that was not gated by them."""
    if "findings" in gates(outcome.plan):  # they are among the reasons already
        return []
    unsafe = any(is_blocking(task.safety_findings or ()) for task in outcome.summary.tasks)
    return ["there are high or critical safety findings"] if unsafe else []
