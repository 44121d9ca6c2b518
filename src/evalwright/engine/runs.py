"""The list of runs, which of them may ship, and how a user names one: by id, baseline, or files.

A run may ship by its bars and its gates, as `engine.verdict` decides. Of the log only the plan and
the end are read for that, and those only if the run has gates besides its bars.

Files are the folder that a run was written to, its events, its page, or an export. Such a run is
added to the log once and is one of its runs from then on, so a machine without a log of its own
needs nothing else.
"""

import base64
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import zip_longest
from pathlib import Path

import msgspec

from evalwright.contracts.documents import read_input
from evalwright.contracts.errors import BadInput, DamagedEventLog, InvalidDocument, RunNotFound
from evalwright.contracts.events import (
    Envelope,
    EvalCompleted,
    EvalStarted,
    Event,
    Planned,
    RunCompleted,
    RunStarted,
    recorded_summary,
)
from evalwright.contracts.messages import phrase
from evalwright.contracts.run_plan import FIRST_RULE, AgentFacts, Baseline, FailOn, Group
from evalwright.contracts.suite import Thresholds
from evalwright.contracts.summary import EvalSummary
from evalwright.contracts.times import iso_time, microseconds
from evalwright.scoring.pass_bars import let_through
from evalwright.store.location import existing_log, opened_log
from evalwright.store.protocol import EventLog, NewEvent, RunFacts, RunFilter

LATEST = "latest"
_NUMBER = re.compile(r"[1-9][0-9]{0,14}")  # of a run in its log
GROUP = "group_"  # how the id of a group of repeats begins
_PLAN_IN = 8  # events, the first of a run
EVALUATIONS = RunFilter(is_evaluation=True)  # a host also has others in its log
EVENTS_FILE = "events.jsonl"
_FIRST_LINE = 1_000_000  # bytes in which the first event of a run is sought
_PAGE = b'<html lang="en" data-evalwright="run">'  # the second line of the page of a run
_PAGE_EVENTS = b'<script type="application/vnd.evalwright.events+zlib" id="events">'
_MOST_EVENTS = 2**30  # bytes of events in a page
_AROUND_EXPORT = (b'{"format":"evalwright-run"', b'{"annotation":', b'{"sha256":')
_PackedRun = tuple[str, list[tuple[str, str | None, int, msgspec.Raw]]]  # its id; type, task, time


class RunRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One run, as a list of runs in JSON shows it."""

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
    return [row_of(log, run) for run in log.find_runs(EVALUATIONS, limit)]


def list_results(log: EventLog, limit: int | None = None) -> list[tuple[RunRow, str]]:
    """The same, each with what became of it by its bars and its gates."""
    found = log.find_runs(EVALUATIONS, limit)
    return [(row_of(log, run), result_of(log, run)) for run in found]


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
    found = {run.repeats for run in log.find_runs(EVALUATIONS) if run.repeats is not None}
    matches = sorted(each for each in found if each.startswith(name))
    if len(matches) > 1:
        some = f"{len(matches)} groups begin with {name!r} in {log.place}"
        raise RunNotFound(phrase("{some}; `evalwright runs {$json}` lists them", some=some))
    return matches[0] if matches else None


def find_run(log: EventLog, name: str) -> str:
    """The run id that a user means: `latest`, an id or the beginning of one, a number, a baseline.

    A run that is named by a file or folder with its events is added to the log.
    """
    if name == LATEST:
        newest = log.find_runs(EVALUATIONS, limit=1)
        if not newest:
            raise RunNotFound(f"there are no runs in {log.place} yet; start with `evalwright run`")
        return newest[0].run_id
    if (os.sep in name or os.path.lexists(name)) and (path := run_file(name)) is not None:
        return adopt_run(log, path)
    matches = [run.run_id for run in log.find_runs(RunFilter(beginning=name))]
    if name in matches or len(matches) == 1:
        return name if name in matches else matches[0]
    if matches:
        found = f"{len(matches)} runs begin with {name!r} in {log.place}"
        raise RunNotFound(f"{found}; `evalwright runs` lists them")
    # No run has this name as its id: it is the number of one, or a baseline
    if _NUMBER.fullmatch(name) and not is_baseline(log, name):
        numbered = log.find_runs(RunFilter(number=int(name)), limit=1)
        if not numbered:
            message = f"there is no run {name} in {log.place}; `evalwright runs` lists them"
            raise RunNotFound(message)
        return numbered[0].run_id
    if len(pruned := log.upkeep.tombstones(name)) == 1:
        raise pruned[0].as_error()
    if (group_id := find_group(log, name)) is not None:
        ids = runs_of_group(log, group_id)
        these = f"one of its runs: {', '.join(ids)}" if len(ids) > 1 else f"its run, {ids[0]}"
        raise RunNotFound(f"{group_id} is a group of repeats; name {these}")
    if not may_be_baseline(name):
        message = f"there is no run {name!r} in {log.place}; `evalwright runs` lists them"
        raise RunNotFound(message)
    from evalwright.engine.baselines import find_named

    return find_named(log, name)


def is_baseline(log: EventLog, name: str) -> bool:
    """Whether a run was given this name."""
    from evalwright.engine.baselines import list_baselines

    return bool(list_baselines(log, name))


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


def row_of(log: EventLog, run: RunFacts) -> RunRow:
    """A run as lists show it."""
    from evalwright.engine.isolation import marks_of  # with all that plans need

    suite_id, _, suite_version = (run.suite or "").partition("@")
    status = run.status
    if run.ended_us is None:
        status = "running" if log.is_claimed(run.run_id) else "interrupted"
    return RunRow(
        run_id=run.run_id,
        suite_id=suite_id,
        suite_version=suite_version,
        agent_id=run.agent or "",
        status=status,
        started_at=iso_time(run.started_us),
        aggregate_score=run.score,
        passed=run.passed,
        modes=run.modes,
        group=run.repeats,
        marks=marks_of(run.tags),
    )


def run_file(named: str) -> Path | None:
    """The file with the events of the run that a user named by a path; None for anything else."""
    path = Path(named)
    try:
        inside = path / EVENTS_FILE
        found = inside if path.is_dir() and inside.is_file() else path
        return found if found.is_file() and _begins_a_run(found) else None
    except (OSError, ValueError):
        return None


def log_for(db: str | None, *named: str | None) -> AbstractContextManager[EventLog]:
    """The log in which these runs are found; made anew only where one of them is a file."""
    has_file = any(name is not None and run_file(name) is not None for name in named)
    return opened_log(db) if has_file else existing_log(db)


def adopt_run(log: EventLog, path: Path) -> str:
    """Add the run of a file to a log, whole or not at all, unless it has it; gives its id."""
    data = read_input(path)
    lines = _events_of_page(data, path) if _PAGE in data[:100] else data.splitlines()
    return add_run(log, list(events_in(lines, os.fspath(path))), str(path))


def add_run(log: EventLog, events: Sequence[Event], name: str) -> str:
    """Add the events of a run to a log that does not have them yet; `name` is for messages."""
    run_id = events[0].run_id
    with log.claim(run_id):
        if not log.edges(run_id):
            new = [NewEvent(each.type, each.task_id, each.at_us, each.body) for each in events]
            log.append(run_id, new)
            log.flush(run_id).result()
        elif any(one != other for one, other in zip_longest(log.read(run_id), events)):
            raise BadInput(
                phrase(
                    "{name}: {place} has another run {run}; read the file into another log with "
                    "{@db}",
                    name=name,
                    place=log.place,
                    run=run_id,
                )
            )
    return run_id


def _begins_a_run(path: Path) -> bool:
    with path.open("rb") as file:
        lines = file.readline(_FIRST_LINE), file.readline(_FIRST_LINE)
    if lines[1].strip() == _PAGE:
        return True
    for line in lines:  # an exported run has a line before its events
        try:
            envelope = msgspec.json.decode(line, type=Envelope)
        except (msgspec.DecodeError, UnicodeError):
            continue
        if envelope.type == RunStarted.TYPE and envelope.sequence == 0:
            return True
    return False


def _events_of_page(page: bytes, path: Path) -> list[bytes]:
    """The lines of the log in the page of a run, which has them where no secret is in them."""
    packed = page.partition(_PAGE_EVENTS)[2].partition(b"<")[0]
    if not packed:
        raise BadInput(
            phrase(
                "{path}: secrets are masked in this page, so it does not hold the events of the "
                "run; name a folder of `run {$out}`, or write the page with {@show_secrets}",
                path=path,
            )
        )
    try:
        unpacker = zlib.decompressobj()
        events = unpacker.decompress(base64.b64decode(packed, validate=True), _MOST_EVENTS)
        if not unpacker.eof:
            raise zlib.error("they have no end, or too many")
        run_id, rows = msgspec.json.decode(events, type=_PackedRun)
        return [
            Event(run_id, number, kind, task_id, at_us, bytes(body)).to_json()
            for number, (kind, task_id, at_us, body) in enumerate(rows)
        ]
    except (ValueError, OverflowError, zlib.error) as error:  # of base64, JSON, text and times
        raise BadInput(f"{path}: the events in this page are damaged: {error}") from None


def events_in(lines: Iterable[bytes], name: str) -> Iterator[Event]:
    """The events of one run from their lines; raises `InvalidDocument`."""
    from evalwright.engine.suites.validation import LogChecker  # with all contracts

    checker = LogChecker()
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith(_AROUND_EXPORT):
            continue
        checker.add(line, f"line {number}")
        if checker.problems:
            break
        yield event_in(line)
    if problems := checker.finish():
        raise InvalidDocument(name, problems)


def event_in(line: bytes) -> Event:
    """The event of a line that has been checked."""
    each = msgspec.json.decode(line, type=Envelope)
    at_us = microseconds(each.timestamp)
    return Event(each.run_id, each.sequence, each.type, each.node_id, at_us, bytes(each.payload))


class _GateSettings(msgspec.Struct, frozen=True, rename="camel"):
    fail_on: tuple[FailOn, ...] = ()


class _BarsOfSuite(msgspec.Struct, frozen=True):
    thresholds: Thresholds = Thresholds()


class _RecordedPlan(msgspec.Struct):
    """What of a recorded plan decides on gates and bars; the tasks are passed over."""

    suite: _BarsOfSuite
    settings: _GateSettings = _GateSettings()
    baseline: Baseline | None = None
    group: Group | None = None
    scoring: int = FIRST_RULE
    is_adversarial: bool = False  # by the modes of the run


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
    plan = msgspec.json.decode(planned.body, type=_RecordedPlan)
    plan.is_adversarial = "adversarial" in run.modes
    summary = recorded_summary(last, EvalSummary)
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
    found = msgspec.json.decode(planned.body, type=_RecordedPlan)
    return let_through(
        counts.passed_count,
        counts.task_count,
        counts.aggregate_score,
        found.suite.thresholds,
        found.scoring,
    )


def result_of(log: EventLog, run: RunFacts) -> str:
    """How a run did: passed, and by what though tasks failed, or not; empty without a result."""
    if run.passed is None:
        return ""
    try:
        if not run.passed or reasons_held(log, run):
            return "failed"
        return " ".join(filter(None, ("passed", let_through_by(log, run))))
    except (DamagedEventLog, msgspec.MsgspecError):  # it does not hide the others
        return "cannot be read"
