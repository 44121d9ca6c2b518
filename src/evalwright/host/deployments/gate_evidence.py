"""The evaluation that a promotion rests on, and what speaks against it."""

import msgspec

from evalwright.contracts.errors import CannotEvaluate, DamagedEventLog, RunNotFound, StoreError
from evalwright.engine.isolation import PARTIAL, marks_of
from evalwright.engine.overrides import read_overrides
from evalwright.engine.replay import replay_run
from evalwright.engine.verdict import Outcome, gates
from evalwright.host.deployments.events import EvidenceRead, OverriddenScore
from evalwright.host.deployments.model import EvalGateUnmet
from evalwright.scoring.thresholds import is_blocking
from evalwright.store.protocol import EventLog

UNMET = "the version has no completed evaluation by this tenant that passed"


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
