"""The evidence of a promotion: an evaluation of this very version that passed."""

from evalwright.contracts.errors import CannotEvaluate, DamagedEventLog, RunNotFound, StoreError
from evalwright.engine.execution import Outcome
from evalwright.engine.replay import replay_run
from evalwright.engine.verdict import gates
from evalwright.host.deployments.refusals import EvalGateUnmet
from evalwright.scoring.safety import is_blocking
from evalwright.store.protocol import EventLog

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
