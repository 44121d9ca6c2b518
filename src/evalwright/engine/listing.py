"""The list of runs, and how a user names one of them."""

import os

import msgspec

from evalwright.contracts.errors import DamagedEventLog, RunNotFound
from evalwright.contracts.events import EvalStarted, Planned
from evalwright.contracts.planning import AgentFacts
from evalwright.contracts.times import iso_time
from evalwright.engine.standing import standing_of
from evalwright.store.protocol import EventLog, RunFacts, RunFilter

LATEST = "latest"
GROUP = "group_"  # how the id of a group of repeats begins
_PLAN_IN = 8  # events, the first of a run
_EVALUATIONS = RunFilter(is_evaluation=True)  # a host also has others in its log


class RunRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One run, as `evalwright runs --json` shows it."""

    run_id: str
    suite_id: str
    suite_version: str
    agent_id: str
    status: str
    started_at: str
    aggregate_score: float | None = None
    passed: bool | None = None  # by its bars
    modes: list[str] = []
    group: str | None = None
    marks: list[str] = []


def list_runs(log: EventLog, limit: int | None = None) -> list[RunRow]:
    """The evaluations of a log, newest first."""
    return [_row(log, run) for run in log.find_runs(_EVALUATIONS, limit)]


def list_standings(log: EventLog, limit: int | None = None) -> list[tuple[RunRow, str]]:
    """The same, each with how it stands by its bars and its gates."""
    found = log.find_runs(_EVALUATIONS, limit)
    return [(_row(log, run), standing_of(log, run)) for run in found]


def agent_called(log: EventLog, run_id: str, agent_id: str) -> str:
    """What the agent of a run is called."""
    if not agent_id.startswith("local."):
        return agent_id  # as most are on a host: nothing has to be read
    agent = read_agent(log, run_id)
    return agent_id if agent is None else agent.name


def read_agent(log: EventLog, run_id: str) -> AgentFacts | None:
    """The agent of a run, from its plan; None where that cannot be read."""
    try:
        first = log.read(run_id, limit=_PLAN_IN)
        planned = next((event for event in first if event.type == Planned.TYPE), None)
        if planned is None:
            return None
        return msgspec.json.decode(planned.body, type=_PlannedAgent).agent
    except (RunNotFound, DamagedEventLog, msgspec.MsgspecError):
        return None  # whoever reads its tasks tells that


class _PlannedAgent(msgspec.Struct):
    agent: AgentFacts


def find_runs(log: EventLog, name: str) -> list[str]:
    """The runs that a user means: those of a group of repeats, oldest first, else one run."""
    group_id = find_group(log, name)
    return [find_run(log, name)] if group_id is None else runs_of_group(log, group_id)


def find_group(log: EventLog, name: str) -> str | None:
    """The group of repeats that a user means by its id or the beginning of it; None for others."""
    if not name.startswith(GROUP):
        return None
    if log.find_runs(RunFilter(repeats=name), limit=1):
        return name
    found = {run.repeats for run in log.find_runs(_EVALUATIONS) if run.repeats is not None}
    matches = sorted(each for each in found if each.startswith(name))
    if len(matches) > 1:
        some = f"{len(matches)} groups begin with {name!r} in {log.place}"
        raise RunNotFound(f"{some}; `evalwright runs --json` lists them")
    return matches[0] if matches else None


def find_run(log: EventLog, name: str) -> str:
    """The run id that a user means: `latest`, a full id, the beginning of just one, a baseline.

    A run that is named by a file or folder with its events is added to the log.
    """
    if name == LATEST:
        newest = log.find_runs(_EVALUATIONS, limit=1)
        if not newest:
            raise RunNotFound(f"there are no runs in {log.place} yet; start with `evalwright run`")
        return newest[0].run_id
    if os.sep in name or os.path.lexists(name):
        from evalwright.engine.run_files import adopt_run, run_file

        if (path := run_file(name)) is not None:
            return adopt_run(log, path)
    matches = [run.run_id for run in log.find_runs(RunFilter(beginning=name))]
    if name in matches or len(matches) == 1:
        return name if name in matches else matches[0]
    if matches:
        found = f"{len(matches)} runs begin with {name!r} in {log.place}"
        raise RunNotFound(f"{found}; `evalwright runs` lists them")
    return _otherwise_found(log, name)


def _otherwise_found(log: EventLog, name: str) -> str:
    """The run of a baseline, where no run has this name as its id."""
    if len(pruned := log.upkeep.tombstones(name)) == 1:
        raise pruned[0].as_error()
    if (group_id := find_group(log, name)) is not None:
        ids = runs_of_group(log, group_id)
        these = f"one of its runs: {', '.join(ids)}" if len(ids) > 1 else f"its run, {ids[0]}"
        raise RunNotFound(f"{group_id} is a group of repeats; name {these}")
    if not may_be_baseline(name):
        message = f"there is no run {name!r} in {log.place}; `evalwright runs` lists them"
        raise RunNotFound(message)
    from evalwright.engine.named_baselines import find_named

    return find_named(log, name)


def may_be_baseline(name: str) -> bool:
    """Whether `evalwright baseline set` may give a run this name; no id of a run is like it."""
    return name != LATEST and not name.startswith("run_")


def last_continuation(log: EventLog, run_id: str) -> str:
    """The run that a failed run was continued by, and so on to the last; else the run itself."""
    found, last = {run_id}, run_id
    while following := log.find_runs(RunFilter(resumed_from=last), limit=1):
        if following[0].run_id in found:
            break  # no program of ours writes a circle
        last = following[0].run_id
        found.add(last)
    return last


def runs_of_group(log: EventLog, group_id: str) -> list[str]:
    """The runs of a group, oldest first; of a run that was continued, its last continuation."""
    found = log.find_runs(RunFilter(repeats=group_id))
    continued = {run.resumed_from for run in found}
    return [run.run_id for run in reversed(found) if run.run_id not in continued]


def is_live(log: EventLog, run_id: str) -> bool:
    """Whether a run called live tools, so that another one may come out differently."""
    opened = [event for event in log.edges(run_id) if event.type == EvalStarted.TYPE]
    return any("live-shadow" in event.decode(EvalStarted).modes for event in opened)


def _status(log: EventLog, run: RunFacts) -> str:
    """`completed`, `failed`, `cancelled`, `running`, or `interrupted` when nobody executes it."""
    if run.ended_us is not None:
        return run.status
    return "running" if log.is_claimed(run.run_id) else "interrupted"


def _row(log: EventLog, run: RunFacts) -> RunRow:
    from evalwright.engine.isolation import marks_of  # with all that plans need

    suite_id, _, suite_version = (run.suite or "").partition("@")
    return RunRow(
        run_id=run.run_id,
        suite_id=suite_id,
        suite_version=suite_version,
        agent_id=run.agent or "",
        status=_status(log, run),
        started_at=iso_time(run.started_us),
        aggregate_score=run.score,
        passed=run.passed,
        modes=run.modes,
        group=run.repeats,
        marks=marks_of(run.tags),
    )
