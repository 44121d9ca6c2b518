"""The list of runs: a few facts of each, read from the edges of its log."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from evalwright.contracts.errors import DamagedEventLog, RunNotFound
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    EvalCompleted,
    EvalStarted,
    Event,
    RunStarted,
    iso_time,
)
from evalwright.contracts.suite import Mode
from evalwright.store.protocol import EventLog

LATEST = "latest"


class RunRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One run, as `evalwright runs --json` shows it."""

    run_id: str
    suite_id: str
    suite_version: str
    agent_id: str
    status: str
    started_at: str
    aggregate_score: float | None = None
    passed: bool | None = None
    modes: list[Mode] = []
    group: str | None = None


def list_runs(log: EventLog, limit: int | None = None) -> list[RunRow]:
    """The evaluations of a log, newest first."""
    return [_row(log, run_id) for run_id in islice(_evaluations(log), limit)]


def find_run(log: EventLog, name: str) -> str:
    """The run id that a user means: `latest`, a full id, or the beginning of just one."""
    if name == LATEST:
        newest = next(_evaluations(log), None)
        if newest is None:
            raise RunNotFound(f"there are no runs in {log.place} yet; start with `evalwright run`")
        return newest
    matches = [run_id for run_id in log.run_ids() if run_id.startswith(name)]
    if name in matches:
        return name
    if len(matches) != 1:
        found = f"{len(matches)} runs begin with" if matches else "there is no run"
        raise RunNotFound(f"{found} {name!r} in {log.place}; `evalwright runs` lists them")
    return matches[0]


def _evaluations(log: EventLog) -> Iterator[str]:
    """The runs that are evaluations, newest first: a host also has others in its log."""
    return (run_id for run_id in log.run_ids() if _is_evaluation(log.edges(run_id)[0]))


def _is_evaluation(started: Event) -> bool:
    try:
        return "evalSuiteRef" in (started.decode(RunStarted).inputs or {})
    except msgspec.DecodeError:
        return True  # damaged, which is for those to say who look at it


def last_continuation(log: EventLog, run_id: str) -> str:
    """The run that a failed run was continued by, and so on to the last; else the run itself."""
    following = _continuation(log, run_id)
    return run_id if following is None else last_continuation(log, following)


def _continuation(log: EventLog, run_id: str) -> str | None:
    for candidate in log.run_ids():
        if candidate == run_id:
            return None
        if _resumed_from(log.edges(candidate)[0]) == run_id:
            return candidate
    return None


def _resumed_from(started: Event) -> str | None:
    resumed_from: str | None = _metadata(started).get("resumedFrom")
    return resumed_from


def _metadata(started: Event) -> dict[str, Any]:
    try:
        opened = started.decode(RunStarted)
    except msgspec.DecodeError:  # damaged, which is for those to say who ask for it
        return {}
    # What a client of a host wrote there means nothing to us.
    return {} if opened.owner else opened.metadata or {}


def runs_of_group(log: EventLog, group_id: str) -> list[str]:
    """The runs of a group, oldest first; of a run that was continued, its last continuation."""
    found, continued = [], set()
    for run_id in reversed(log.run_ids()):
        metadata = _metadata(log.edges(run_id)[0])
        if metadata.get("group") == group_id:
            found.append(run_id)
            continued.add(metadata.get("resumedFrom"))
    return [run_id for run_id in found if run_id not in continued]


def is_live(log: EventLog, run_id: str) -> bool:
    """Whether a run called live tools, so that another one may come out differently."""
    opened = [event for event in log.edges(run_id) if event.type == EvalStarted.TYPE]
    return any("live-shadow" in event.decode(EvalStarted).modes for event in opened)


def run_status(log: EventLog, run_id: str, last: Event) -> str:
    """`completed`, `failed`, `cancelled`, `running`, or `interrupted` when nobody executes it."""
    if last.type in TERMINAL_TYPES:
        return last.type.removeprefix("run.")
    return "running" if log.is_claimed(run_id) else "interrupted"


def _row(log: EventLog, run_id: str) -> RunRow:
    edges = log.edges(run_id)
    by_type = {event.type: event for event in edges}
    try:
        started = by_type[RunStarted.TYPE]
        opened = by_type[EvalStarted.TYPE].decode(EvalStarted)
        agent_id = str((started.decode(RunStarted).inputs or {})["agentId"])
        completed = by_type.get(EvalCompleted.TYPE)
        result = completed.decode(EvalCompleted) if completed else None
    except (KeyError, msgspec.MsgspecError) as error:
        raise DamagedEventLog(f"{log.place}: run {run_id} cannot be read: {error!r}") from error
    return RunRow(
        run_id=run_id,
        suite_id=opened.suite_id,
        suite_version=opened.suite_version,
        agent_id=agent_id,
        status=run_status(log, run_id, edges[-1]),
        started_at=iso_time(started.at_us),
        aggregate_score=result.aggregate_score if result else None,
        passed=result.passed if result else None,
        modes=opened.modes,
        group=_metadata(started).get("group"),
    )
