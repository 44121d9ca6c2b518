"""Which tasks of a suite run: by name, by tag, by what became of them in an earlier run.

A run of only some tasks is marked by a tag, which its log, lists and reports show, and is no
evidence for a gate unless somebody asks for that.
"""

import hashlib
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import Checked, InvocationCompleted
from evalwright.contracts.messages import OptionText, Text, as_option, phrase
from evalwright.contracts.run_plan import TaskSelection
from evalwright.contracts.suite import Suite, Task
from evalwright.engine.history import read_history
from evalwright.engine.isolation import PARTIAL
from evalwright.engine.runs import find_run, last_continuation, runs_of_group
from evalwright.engine.task_names import MADE_ID, TaskNames, asked, cut, slug_of
from evalwright.store.protocol import EventLog, RunFilter

OF_THIS_SUITE = ""  # in place of a run: the latest one of the suite
MOST_SEEDS = 1_000_000
_NEAR = 5
_MOST_NAMED = 1000  # tasks whose names are looked for one that is like what was typed


class NothingSelected(BadInput):
    """No task of a suite is wanted."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks that are asked for: those that every part agrees with; first a sample, then few."""

    tasks: tuple[str, ...] = ()  # patterns; one of them must fit the task's id
    tagged: tuple[str, ...] = ()  # the task must have one of these tags
    failed: str | None = None  # a run in which the task did not pass
    errors: str | None = None  # a run in which the task ended in an error
    sample: int | None = None
    seed: int | None = None
    limit: int | None = None

    @property
    def needs_log(self) -> bool:
        return self.failed is not None or self.errors is not None


def select(
    suite: Suite, wanted: Wanted, name: str, log: EventLog | None = None
) -> tuple[Suite, TaskSelection | None]:
    """The suite with the tasks that are wanted; None where these are all it has.

    Raises `BadInput`, with what may have been meant, if there are none.
    """
    choice = _TaskChoice(suite, wanted, name)
    choice.by_id()
    choice.by_tag()
    if log is not None:
        choice.by_run(log, "failed", wanted.failed)
        choice.by_run(log, "errors", wanted.errors)
    choice.by_number()
    if len(choice.tasks) == len(suite.tasks):
        return suite, None
    part = msgspec.structs.replace(suite, tasks=list(choice.tasks))
    return part, TaskSelection(len(suite.tasks), choice.by)


class _TaskChoice:
    def __init__(self, suite: Suite, wanted: Wanted, name: str) -> None:
        self.tasks: Sequence[Task] = suite.tasks
        self.by: list[str] = []  # recorded, and written as on the command line
        self._suite = suite
        self._wanted = wanted
        self._name = name

    def by_id(self) -> None:
        patterns = self._wanted.tasks
        if patterns:
            names = TaskNames.of_tasks(self._suite.tasks)
            named = {each: names.find(each) for each in patterns}
            rest = [each for each, found in named.items() if found is None]
            found = set(named.values())
            left = [task for task in self.tasks if task.task_id in found or _fits(task, rest)]
            self._narrow(left, lambda: _no_such_id(self._suite, patterns))
            self.by += [as_option("task", pattern) for pattern in patterns]

    def by_tag(self) -> None:
        tags = self._wanted.tagged
        if tags:
            left = [task for task in self.tasks if not set(tags).isdisjoint(task.tags)]
            self._narrow(left, lambda: _no_such_tag(self._suite, tags))
            self.by += [as_option("tagged", tag) for tag in tags]

    def by_run(self, log: EventLog, option: str, run: str | None) -> None:
        if run is None:
            return
        run_id, found = _unsuccessful(log, self._suite, run, only_errors=option == "errors")
        left = [task for task in self.tasks if task.task_id in found]
        self._narrow(left, lambda: _none_left(log, option, run_id, found))
        self.by.append(as_option(option, run_id))

    def by_number(self) -> None:
        wanted = self._wanted
        if wanted.sample is not None:
            seed = secrets.randbelow(MOST_SEEDS) if wanted.seed is None else wanted.seed
            self.tasks = _sampled(self.tasks, wanted.sample, seed)
            drawn = as_option("sample", str(wanted.sample)), as_option("seed", str(seed))
            self.by.append(" ".join(drawn))
        if wanted.limit is not None:
            self.tasks = self.tasks[: wanted.limit]
            self.by.append(as_option("limit", str(wanted.limit)))

    def _narrow(self, left: Sequence[Task], why_none: Callable[[], Text]) -> None:
        if not left:
            raise NothingSelected(phrase("{name}: {why}", name=self._name, why=why_none()))
        self.tasks = left


def _fits(task: Task, patterns: Iterable[str]) -> bool:
    made = MADE_ID.fullmatch(task.task_id)
    called = (
        f"{slug_of(cut(task.title or asked(task.input)))}-{made[1][:4]}{made[2]}" if made else ""
    )
    told = (task.task_id, called) if called else (task.task_id,)
    return any(fnmatchcase(each, pattern) for pattern in patterns for each in told)


def _sampled(tasks: Sequence[Task], count: int, seed: int) -> list[Task]:
    """A random part, in the order of the suite; a task that is added changes it little."""

    def draw(task: Task) -> bytes:
        return hashlib.sha256(f"{seed}:{task.task_id}".encode()).digest()

    drawn = {task.task_id for task in sorted(tasks, key=draw)[:count]}
    return [task for task in tasks if task.task_id in drawn]


def _no_such_id(suite: Suite, patterns: Sequence[str]) -> OptionText:
    names = TaskNames.of_tasks(suite.tasks)
    several = len(suite.tasks) > _MOST_NAMED
    ids = [task.task_id if several else names.name_of(task.task_id) for task in suite.tasks]
    near = [each for pattern in patterns for each in _near(pattern.strip("*"), ids)]
    message = "no task fits {@tasks:{patterns}}; {meant}"
    return phrase(message, patterns=" or ".join(patterns), meant=_meant(near, ids))


def _no_such_tag(suite: Suite, asked: Sequence[str]) -> Text:
    tags = sorted({tag for task in suite.tasks for tag in task.tags})
    words = " or ".join(asked)
    if not tags:
        message = "no task has a tag, so {@tagged:{words}} selects none; choose by {@tasks}"
        return phrase(message, words=words)
    if not set(tags).isdisjoint(asked):
        return f"none of the tasks that are selected otherwise has the tag {words}"
    near = [each for tag in asked for each in _near(tag, tags)]
    return f"no task has the tag {words}; {_meant(near, tags)}"


def _near(asked: str, known: Sequence[str]) -> list[str]:
    inside = [each for each in known if asked and asked.lower() in each.lower()]
    return (inside or get_close_matches(asked, known, _NEAR, 0.5))[:_NEAR]


def _meant(near: Sequence[str], known: Sequence[str]) -> str:
    if near:
        return f"did you mean {', '.join(dict.fromkeys(near))}?"
    more = ", …" if len(known) > _NEAR else ""
    return f"there are {', '.join(known[:_NEAR])}{more}"


def _none_left(log: EventLog, option: str, run_id: str, found: Collection[str]) -> Text:
    what = "ended in an error" if option == "errors" else "failed"
    if not found:
        run = log.facts(run_id)
        suite_id = (run.suite or "").partition("@")[0]
        whole = _latest_of(log, suite_id, whole=True) if PARTIAL in run.tags else None
        part = ", which is of a part of the suite" if PARTIAL in run.tags else ""
        again = phrase(f"for the last run of all tasks: {{@{option}:{{run}}}}", run=whole)
        return phrase(
            f"no task {what} in run {{run}}{part}, so {{@{option}}} selects none; {{remedy}}",
            run=run_id,
            remedy=again if whole else "name another run",
        )
    return f"none of the tasks that {what} in run {run_id} is selected otherwise"


def _unsuccessful(
    log: EventLog, suite: Suite, run: str, *, only_errors: bool
) -> tuple[str, set[str]]:
    named = _latest_of(log, suite.suite_id) if run == OF_THIS_SUITE else find_run(log, run)
    if named is None:
        raise NothingSelected(
            f"there is no run of {suite.suite_id} in {log.place} yet; run the suite first"
        )
    run_id = last_continuation(log, named)
    history = read_history(log, run_id)
    if history.plan.suite.suite_id != suite.suite_id:
        other = f"{history.plan.suite.suite_id}@{history.plan.suite.version}"
        raise BadInput(f"run {run_id} is of {other}, not of {suite.suite_id}; name one of its runs")
    group = history.plan.group
    found: set[str] = set()
    for each in runs_of_group(log, group.id) if group else [run_id]:
        # The tasks whose last invocation failed, and those that were answered and not scored.
        outcomes: dict[str, str] = {}
        for event in log.read(each, (InvocationCompleted.TYPE, Checked.TYPE)):
            if event.type == InvocationCompleted.TYPE:
                outcomes[event.task_id or ""] = event.decode(InvocationCompleted).outcome
            elif event.decode(Checked).error is not None:
                outcomes[event.task_id or ""] = "failed"
        history = read_history(log, each)
        unjudged = outcomes.keys() - history.scored if history.end is not None else set()
        errors = unjudged | {
            task_id for task_id, outcome in outcomes.items() if outcome == "failed"
        }
        results = read_history(log, each).tally.results.values()
        found |= errors
        if not only_errors:
            found |= {result.task_id for result in results if not result.passed}
    return run_id, found


def _latest_of(log: EventLog, suite_id: str, *, whole: bool = False) -> str | None:
    for run in log.find_runs(RunFilter(is_evaluation=True)):
        is_wanted = not (whole and PARTIAL in run.tags)
        if is_wanted and (run.suite or "").partition("@")[0] == suite_id:
            return run.run_id
    return None
