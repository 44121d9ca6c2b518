"""Whether a run may ship, as every list, page and command tells it: by its bars and its gates.

`engine.verdict` decides. Of the log only the plan and the end are read, and those only if the run
has gates besides its bars.
"""

import msgspec

from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import EvalCompleted, Planned, RunCompleted
from evalwright.contracts.planning import FIRST_RULE, Baseline, FailOn, Group
from evalwright.contracts.suite import Thresholds
from evalwright.contracts.summary import EvalSummary
from evalwright.scoring.pass_bars import let_through
from evalwright.store.protocol import EventLog, RunFacts


class _GateSettings(msgspec.Struct, frozen=True, rename="camel"):
    fail_on: tuple[FailOn, ...] = ()


class _RecordedPlan(msgspec.Struct, frozen=True):
    """What of a recorded plan decides on gates; the suite is passed over."""

    settings: _GateSettings = _GateSettings()
    baseline: Baseline | None = None
    group: Group | None = None


class _GatedPlan(msgspec.Struct, frozen=True):
    settings: _GateSettings
    baseline: Baseline | None
    group: Group | None
    is_adversarial: bool


class _BarsOfSuite(msgspec.Struct, frozen=True):
    thresholds: Thresholds = Thresholds()


class _BarsOfPlan(msgspec.Struct, frozen=True):
    """What of a recorded plan lets failed tasks through; the tasks are passed over."""

    suite: _BarsOfSuite
    scoring: int = FIRST_RULE


class _SummaryOutputs(msgspec.Struct, frozen=True, rename="camel"):
    eval_summary: EvalSummary


class _EndOfRun(msgspec.Struct, frozen=True):
    outputs: _SummaryOutputs


def may_be_held(run: RunFacts) -> bool:
    """Whether a run met its bars and has more gates; a baseline makes the mode `regression`."""
    return bool(run.passed) and not {"adversarial", "regression"}.isdisjoint(run.modes)


def reasons_held(log: EventLog, run: RunFacts) -> list[str]:
    """Why a run that met its bars must not ship; raises `DamagedEventLog`."""
    from evalwright.engine.verdict import reasons_to_fail

    if not may_be_held(run):
        return []
    planned = next(log.read(run.run_id, (Planned.TYPE,), limit=1), None)
    last = log.edges(run.run_id)[-1]
    if planned is None or last.type != RunCompleted.TYPE:
        return []
    recorded = msgspec.json.decode(planned.body, type=_RecordedPlan)
    summary = msgspec.json.decode(last.body, type=_EndOfRun).outputs.eval_summary
    plan = _GatedPlan(
        recorded.settings, recorded.baseline, recorded.group, "adversarial" in run.modes
    )
    return reasons_to_fail(plan, summary, ())


def let_through_by(log: EventLog, run: RunFacts) -> str:
    """By what a run that met its bars passed though tasks failed; empty where none did."""
    if not run.passed:
        return ""
    ended = [each for each in log.edges(run.run_id) if each.type == EvalCompleted.TYPE]
    if not ended:
        return ""
    counts = ended[-1].decode(EvalCompleted)
    if counts.passed_count == counts.task_count:
        return ""
    planned = next(log.read(run.run_id, (Planned.TYPE,), limit=1), None)
    if planned is None:
        return ""
    found = msgspec.json.decode(planned.body, type=_BarsOfPlan)
    return let_through(
        counts.passed_count,
        counts.task_count,
        counts.aggregate_score,
        found.suite.thresholds,
        found.scoring,
    )


def standing_of(log: EventLog, run: RunFacts) -> str:
    """How a run stands: passed, and by what though tasks failed, or not; empty without a result."""
    if run.passed is None:
        return ""
    try:
        if not run.passed or reasons_held(log, run):
            return "failed"
        return " ".join(filter(None, ("passed", let_through_by(log, run))))
    except (DamagedEventLog, msgspec.MsgspecError):  # it does not hide the others
        return "cannot be read"
