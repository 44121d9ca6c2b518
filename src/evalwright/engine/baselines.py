"""The run that a new one is compared with, by its id or by name: `main`.

It must be of the same suite, and complete. A name is set for a suite and an agent.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import groupby
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from evalwright.contracts.errors import BadInput, InvalidDocument, Problem, RunNotFound
from evalwright.contracts.events import Checked
from evalwright.contracts.messages import phrase
from evalwright.contracts.redaction import NOTHING_SECRET, Redactor
from evalwright.contracts.run_plan import FIRST_RULE, Baseline, BaselineTask, LeftOut
from evalwright.contracts.short_names import agent_id_of, suite_name
from evalwright.contracts.suite import Suite, Task
from evalwright.contracts.summary import EvalSummary
from evalwright.contracts.times import iso_time, microseconds
from evalwright.engine.history import History, read_history
from evalwright.engine.isolation import in_words
from evalwright.engine.runs import (
    LATEST,
    add_run,
    events_in,
    find_group,
    find_run,
    last_continuation,
    may_be_baseline,
    runs_of_group,
)
from evalwright.scoring.pass_bars import task_score
from evalwright.scoring.thresholds import mean
from evalwright.store.protocol import EventLog
from evalwright.store.records import LOCAL_TENANT, RecordChange

BASELINE_KIND = "baseline"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./+-]{0,99}")  # a branch may be one
_APART = "\n"  # between the parts of a key: none of them has one
_MOST = 10_000


def read_baseline(
    log: EventLog,
    run_id: str,
    suite: Suite,
    redactor: Redactor = NOTHING_SECRET,
    *,
    is_part: bool = False,
    allow_partial: bool = False,
    with_repeats: bool = False,
) -> Baseline:
    """What a run came to; raises `BadInput` if it cannot be a baseline for the suite.

    With repeats, all repeats that it is one of count: scores are means of theirs, and a task passed
    if it did in most of them.

    A suite that has changed is compared by the tasks that are the same in both. Where it is a part
    of itself, so is the baseline. A run of a part is no baseline unless it is allowed to be.
    """
    from evalwright.scoring.regression import left_out_tasks  # with all statistics

    history = read_history(log, run_id)
    if history.status != "completed":
        raise BadInput(
            phrase(
                "{@baseline}: run {run} is not complete ({status}), so there is nothing to "
                "compare with; finish it with {@resume}, or name another",
                run=run_id,
                status=history.status,
            )
        )
    if history.plan.selection is not None and not allow_partial:
        raise BadInput(
            phrase(
                "{@baseline}: run {run} is of a part of its suite ({part}), which is no "
                "evidence; name a run of the whole suite, or allow it with {@allow_partial}",
                run=run_id,
                part=in_words(history.plan),
            )
        )
    recorded = history.plan.suite
    if recorded.suite_id != suite.suite_id:
        raise BadInput(
            phrase(
                "{@baseline}: run {run} is of {recorded}, not of {suite}; "
                "name a run of the same suite",
                run=run_id,
                recorded=f"{recorded.suite_id}@{recorded.version}",
                suite=suite.suite_id,
            )
        )
    wanted = {task.task_id for task in suite.tasks}
    if is_part:
        part = [task for task in recorded.tasks if task.task_id in wanted]
        recorded = replace(recorded, tasks=part)
    left_out = left_out_tasks(recorded, suite, redactor.redact)
    group = history.plan.group if with_repeats else None
    ids = runs_of_group(log, group.id) if group else []
    repeats = [read_history(log, each) for each in ids] if group else [history]
    found = [scored_now(log, each) for each in repeats if each.status == "completed"]
    results = {each[0].task_id: each for each in zip(*(s.tasks for s, _ in found), strict=True)}
    others = {*left_out.changed, *left_out.new}
    shared = [results[task.task_id] for task in suite.tasks if task.task_id not in others]
    is_same = left_out == LeftOut() and recorded.version == suite.version
    if not shared:
        raise BadInput(
            phrase(
                "{@baseline}: run {run} has no task in common with {suite} as it is now; "
                "name another run",
                run=run_id,
                suite=f"{suite.suite_id}@{suite.version}",
            )
        )
    tasks = []
    for of_task in shared:
        runs, passes = len(of_task), sum(each.passed for each in of_task)
        verdicts = None if group is None else (passes, runs)
        tasks.append(
            BaselineTask(mean([each.score for each in of_task]), passes * 2 > runs, verdicts)
        )
    return Baseline(
        run_id,
        mean([summary.aggregate_score for summary, _ in found])
        if is_same and not is_part
        else mean([task.score for task in tasks]),
        tasks,
        history.plan.panel.judges if history.plan.panel else [],
        None if is_same else left_out,
        group=None if group is None else group.id,
        rescored=any(is_other for _, is_other in found),
    )


def scored_now(log: EventLog, history: History) -> tuple[EvalSummary, bool]:
    """What a run came to by the rule of today, and whether an earlier one said something else."""
    from evalwright.engine.replay import project  # with all that runs

    summary, plan = project(history).summary, history.plan
    if plan.scoring != FIRST_RULE:
        return summary, False
    scores = scores_of_today(log, history.run_id, plan.suite.tasks)
    tasks = [replace(task, score=scores.get(task.task_id, task.score)) for task in summary.tasks]
    weights = [task.weight for task in plan.suite.tasks]
    aggregate = mean([task.score for task in tasks], weights)
    return replace(summary, tasks=tasks, aggregate_score=aggregate), tasks != summary.tasks


def scores_of_today(log: EventLog, run_id: str, tasks: Iterable[Task]) -> dict[str, float]:
    """What tasks that the first rule scored have by that of today, where it is about them."""
    checked = {
        task.task_id
        for task in tasks
        if task.expected.kind == "checks" and task.expected.threshold is None
    }
    scores: dict[str, dict[int, float]] = {}  # by task and repetition
    for event in log.read(run_id, (Checked.TYPE,)) if checked else ():
        if event.task_id in checked:
            said = event.decode(Checked)
            score = task_score(said.score, None, passed=said.passed)
            scores.setdefault(event.task_id, {})[said.repetition] = score
    return {task_id: mean([*found.values()]) for task_id, found in scores.items()}


class NamedBaseline(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A name for a run, of its suite and its agent."""

    name: str
    suite_id: str
    agent_id: str
    run_id: str
    set_at: str
    group: str | None = None  # of repeats that are meant together; the run is the last of them

    @property
    def key(self) -> str:
        return _APART.join((self.name, self.suite_id, self.agent_id))


class FoundBaseline(NamedTuple):
    """The run that a user means by a baseline; the rest is known of one that has a name."""

    run_id: str
    name: str | None = None
    agent_id: str | None = None
    age_s: int | None = None
    group: str | None = None  # of repeats that are meant together; the run is the last of them


class _HeaderOfBaselines(
    msgspec.Struct, frozen=True, tag="evalwright-baselines", tag_field="format"
):
    version: int = 1


def set_baseline(log: EventLog, name: str, run: str, *, allow_partial: bool) -> NamedBaseline:
    """Give a completed run a name, or the repeats that `run` means.

    It replaces the one of the same suite and agent.
    """
    _check_name(name)
    group = group_meant(log, run)
    run_id = _last_of(log, group) if group else last_continuation(log, find_run(log, run))
    history = read_history(log, run_id)
    plan = history.plan
    if history.status != "completed":
        raise BadInput(f"run {run_id} is not complete ({history.status}); name one that is")
    if plan.selection is not None and not allow_partial:
        raise BadInput(
            phrase(
                "run {run} is of a part of its suite ({part}), which is no evidence; "
                "name a run of the whole suite, or allow it with {@allow_partial}",
                run=run_id,
                part=in_words(plan),
            )
        )
    now = iso_time(time.time_ns() // 1000)
    named = NamedBaseline(name, plan.suite.suite_id, plan.agent.agent_id, run_id, now, group)
    _write(log, [named])
    return named


def list_baselines(log: EventLog, name: str | None = None) -> list[NamedBaseline]:
    """All of them, or those of one name, by name, suite and agent."""
    prefix = "" if name is None else f"{name}{_APART}"
    found = log.records.list(BASELINE_KIND, LOCAL_TENANT, prefix, limit=_MOST)
    return [msgspec.json.decode(each.body, type=NamedBaseline) for each in found]


def baselines_called(
    log: EventLog, name: str, suite_id: str | None = None, agent_id: str | None = None
) -> list[NamedBaseline]:
    """Those of one name, or of that and a suite or agent; raises `BadInput` if there are none."""
    found = list_baselines(log, name)
    if not found:
        known = ", ".join(sorted({each.name for each in list_baselines(log)})) or "none yet"
        raise BadInput(f"there is no baseline {name!r} in {log.place} (there are: {known})")
    meant = [
        each
        for each in found
        if suite_id in (None, each.suite_id, suite_name(each.suite_id))
        and (agent_id is None or agent_id_of(agent_id) == each.agent_id)
    ]
    if not meant:
        raise BadInput(f"{name!r} is not set for this suite and agent")
    return meant


def remove_baselines(log: EventLog, baselines: Iterable[NamedBaseline]) -> None:
    """Forget names; the runs stay."""
    gone = [RecordChange(BASELINE_KIND, LOCAL_TENANT, each.key, None) for each in baselines]
    log.records.write(gone).result()


def find_baseline(log: EventLog, named: str, suite_id: str, agent_id: str) -> FoundBaseline:
    """The run that a baseline means: the one of that name, else a run as any command finds it.

    Of a group of repeats it is the last that completed.
    """
    if (group_id := group_meant(log, named)) is not None:
        return FoundBaseline(_last_of(log, group_id), group=group_id)
    known = list_baselines(log, named) if _NAME.fullmatch(named) else []
    of_suite = [each for each in known if each.suite_id == suite_id]
    if not known:
        return FoundBaseline(last_continuation(log, find_run(log, named)))
    if not of_suite:
        suites = ", ".join(sorted({each.suite_id for each in known}))
        raise BadInput(
            phrase(
                "{@baseline}: {named!r} is set for {suites}, not for {suite}; set it with: "
                "evalwright baseline set {named} RUN",
                named=named,
                suites=suites,
                suite=suite_id,
            )
        )
    own = [each for each in of_suite if each.agent_id == agent_id]
    if not own and len(of_suite) > 1:
        agents = ", ".join(each.agent_id for each in of_suite)
        raise BadInput(
            phrase(
                "{@baseline}: {named!r} is set for {agents}, not for {agent}; "
                "name one of their runs",
                named=named,
                agents=agents,
                agent=agent_id,
            )
        )
    chosen = (own or of_suite)[0]
    age_s = age_of(log, chosen.run_id)
    return FoundBaseline(chosen.run_id, named, chosen.agent_id, age_s, chosen.group)


def group_meant(log: EventLog, named: str) -> str | None:
    """The group of repeats that is meant by its id, or as the latest run is one of them."""
    if named != LATEST:
        return find_group(log, named)
    return log.facts(find_run(log, named)).repeats


def runs_meant(log: EventLog, named: str) -> list[str]:
    """The runs that a user means together: all repeats, or one run by itself."""
    group = group_meant(log, named)
    if group is None and _NAME.fullmatch(named):
        group = next((each.group for each in list_baselines(log, named)), None)
    if group is not None:
        return runs_of_group(log, group)
    return [last_continuation(log, find_run(log, named))]


def _last_of(log: EventLog, group: str) -> str:
    """The last of some repeats that completed."""
    ids = runs_of_group(log, group)
    completed = [each for each in ids if log.facts(each).status == "completed"]
    return (completed or ids)[-1]


def has_baseline(log: EventLog, named: str, suite_id: str) -> bool:
    """Whether a baseline means a run of this suite; raises `RunNotFound` where it means none."""
    known = list_baselines(log, named) if _NAME.fullmatch(named) else []
    if not known:
        return bool(find_run(log, named))
    return any(each.suite_id == suite_id for each in known)


def find_named(log: EventLog, name: str) -> str:
    """The one run that a baseline of this name is."""
    known = list_baselines(log)
    runs = {each.run_id: each for each in known if each.name == name}
    if len(runs) == 1:
        return next(iter(runs))
    if runs:
        several = ", ".join(f"{run_id} ({each.suite_id})" for run_id, each in runs.items())
        raise RunNotFound(f"{name!r} is the baseline of several suites or agents: {several}")
    if name == "baseline":
        newest = log.facts(find_run(log, LATEST))
        of = (newest.suite or "").partition("@")[0], newest.agent
        own = [each for each in known if (each.suite_id, each.agent_id) == of]
        if own:
            return max(own, key=lambda each: each.set_at).run_id
        raise RunNotFound(
            f"the suite and agent of the latest run, {suite_name(of[0])} and {newest.agent}, have "
            "no baseline; set one with `evalwright baseline set main RUN`"
        )
    names = sorted({each.name for each in known})
    near = get_close_matches(name, names, 1)
    meant = (
        f", and `evalwright baseline set {name} RUN` calls one so" if _NAME.fullmatch(name) else ""
    )
    meant = f"; did you mean the baseline {near[0]}?" if near else meant
    raise RunNotFound(
        f"there is no run {name!r} in {log.place}; `evalwright runs` lists them{meant}"
    )


def age_of(log: EventLog, run_id: str) -> int:
    """How many seconds ago a run began."""
    return max(0, time.time_ns() // 1000 - log.facts(run_id).started_us) // 1_000_000


def export_baselines(log: EventLog, baselines: Sequence[NamedBaseline]) -> Iterator[bytes]:
    """Baselines and their runs as JSON lines, for another machine."""
    yield msgspec.json.encode(_HeaderOfBaselines()) + b"\n"
    for each in baselines:
        yield msgspec.json.encode(each) + b"\n"
        for run_id in runs_of_group(log, each.group) if each.group else [each.run_id]:
            for event in log.read(run_id):
                yield event.to_json() + b"\n"


def import_baselines(log: EventLog, source: bytes, name: str) -> list[NamedBaseline]:
    """Add what `export_baselines` wrote: first the runs, then their names."""
    parts = list(_parts(source.splitlines(), name))
    for named, lines in parts:
        parted = groupby(filter(bytes.strip, lines), _run_of)
        runs = [list(events_in(of_run, name)) for _, of_run in parted]
        if named.run_id not in {events[0].run_id for events in runs}:
            message = f"the events of {named.run_id} do not follow its name"
            raise InvalidDocument(name, [Problem(named.name, message, "export it again")])
        for events in runs:
            add_run(log, events, name)
    _write(log, [named for named, _ in parts])
    return [named for named, _ in parts]


class _OfRun(msgspec.Struct, rename="camel"):
    run_id: str = ""


def _run_of(line: bytes) -> str:
    """The run of a line; whoever reads the line says what is wrong with it."""
    try:
        return msgspec.json.decode(line, type=_OfRun).run_id
    except (msgspec.DecodeError, UnicodeError):
        return ""


def _parts(lines: Sequence[bytes], name: str) -> Iterator[tuple[NamedBaseline, list[bytes]]]:
    header = lines[0] if lines else b""
    try:
        is_known = msgspec.json.decode(header, type=_HeaderOfBaselines).version == 1
    except (msgspec.DecodeError, UnicodeError):
        is_known = False
    starts = [n for n, line in enumerate(lines) if line.startswith(b'{"name":')]
    if not is_known or not starts:
        remedy = "give a file that `evalwright baseline export` wrote"
        raise InvalidDocument(name, [Problem("line 1", "not a file of baselines", remedy)])
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        try:
            named = msgspec.json.decode(lines[start], type=NamedBaseline)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise InvalidDocument(name, [Problem(f"line {start + 1}", str(error))]) from None
        _check_name(named.name)
        if _APART in named.key.replace(_APART, "", 2) or not microseconds(named.set_at):
            raise InvalidDocument(name, [Problem(f"line {start + 1}", "not a baseline")])
        yield named, list(lines[start + 1 : end])


def _write(log: EventLog, baselines: Sequence[NamedBaseline]) -> None:
    log.records.write(
        [
            RecordChange(BASELINE_KIND, LOCAL_TENANT, each.key, msgspec.json.encode(each))
            for each in baselines
        ]
    ).result()


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or not may_be_baseline(name):
        raise BadInput(
            f"{name!r} cannot be the name of a baseline; write letters, digits and _ . / + -, "
            "such as main or release/1.2"
        )
