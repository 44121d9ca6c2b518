"""The progress of a run that has not ended: a fold of its events, which goes on where it was."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

import msgspec

from evalwright.contracts.events import (
    TERMINAL_TYPES,
    Checked,
    EvalScored,
    Event,
    InvocationCompleted,
    InvocationStarted,
    Planned,
    ProviderUsage,
    RunPaused,
    RunResumed,
)
from evalwright.engine.projection import RunState
from evalwright.host.runs.handle import RunHandle
from evalwright.reports.run.task_list import RunFrame

MOST_KEPT = 32  # runs
MOST_CELLS = 300  # tasks that are all shown; of more, only some
MOST_CELLS_OF_MANY = 200
MOST_GROUPS = 12  # by tag
MOST_LISTED = 8
SLICE = 20_000  # events that are taken at a time
LEAST_SCORES = 3  # before which nothing is said about the pace
PACE_OF = 200  # scores, the latest, that the pace is told by

TaskState = Literal["waiting", "running", "passed", "failed", "error"]

_TYPES = (
    *(InvocationStarted.TYPE, InvocationCompleted.TYPE, Checked.TYPE),
    *(EvalScored.TYPE, ProviderUsage.TYPE),
    *(RunPaused.TYPE, RunResumed.TYPE, *TERMINAL_TYPES),
)


class TaskProgress(msgspec.Struct):
    """How far a task is."""

    task_id: str
    state: TaskState = "waiting"
    latency_ms: int | None = None


class RunProgress:
    """What has become of each task so far, and what it has cost."""

    def __init__(self, frame: RunFrame) -> None:
        self.tasks = {name: TaskProgress(name) for name in frame.raw_tasks()}
        self.budget_usd = frame.settings.max_cost_usd
        self.counts: dict[TaskState, int] = dict.fromkeys(
            ("waiting", "running", "passed", "failed", "error"), 0
        )
        self.counts["waiting"] = len(self.tasks)
        self.spent_usd = 0.0
        self.unpriced = 0  # calls without a known price
        self.latest_failures: list[str] = []
        self.told: dict[str, dict[str, Any]] = {}  # what pages say of those failures
        self.tags = _first_tags(frame)  # by task, where there are several
        self.slowest: list[TaskProgress] = []
        self._times_us: deque[int] = deque(maxlen=PACE_OF + 1)  # the first is a beginning
        self._run = RunState()
        self.last = -1  # the sequence of the last event that was taken
        self.is_behind = True  # more events are there already
        self.lock = threading.Lock()

    @property
    def is_paused(self) -> bool:
        return self._run.is_paused

    @property
    def is_over(self) -> bool:
        return self._run.end is not None

    @property
    def scored(self) -> int:
        return self.counts["passed"] + self.counts["failed"] + self.counts["error"]

    @property
    def ends_us(self) -> int | None:
        """When the last task will have its score, by the pace so far; None if that is not known."""
        times, left = self._times_us, len(self.tasks) - self.scored
        if len(times) < LEAST_SCORES + 1 or not left or self.is_paused or self.is_over:
            return None
        return times[-1] + left * (times[-1] - times[0]) // (len(times) - 1)

    def add(self, events: Iterable[Event]) -> None:
        """Go on with these events, a slice of the log at most."""
        number = 0
        for number, event in enumerate(events, 1):  # noqa: B007 - how many there were
            self.last = event.sequence
            with suppress(msgspec.MsgspecError):  # a damaged event does not hide the others
                self._take(event)
        self.is_behind = number == SLICE

    def _take(self, event: Event) -> None:
        payload, task = self._run.add(event), self.tasks.get(event.task_id or "")
        match payload:
            case InvocationStarted():
                if not self._times_us:
                    self._times_us.append(event.at_us)
                if task is not None and task.state == "waiting":
                    self._move(task, "running")
            case EvalScored() if task is not None:
                self._times_us.append(event.at_us)
                task.latency_ms = payload.latency_ms
                unsuccessful: TaskState = "error" if task.task_id in self._run.failed else "failed"
                self._move(task, "passed" if payload.passed else unsuccessful)
                if not payload.passed:
                    self.latest_failures = [task.task_id, *self.latest_failures[: MOST_LISTED - 1]]
                ranked = [*self.slowest, task]
                ranked.sort(key=lambda each: each.latency_ms or 0, reverse=True)
                self.slowest = ranked[:MOST_LISTED]
            case ProviderUsage(cost_estimate_usd=cost):
                self.unpriced += cost is None
                self.spent_usd += cost or 0.0
        if event.type in (RunPaused.TYPE, RunResumed.TYPE):
            self._times_us = deque([event.at_us], PACE_OF + 1)

    def _move(self, task: TaskProgress, state: TaskState) -> None:
        self.counts[task.state] -= 1
        self.counts[state] += 1
        task.state = state


def _first_tags(frame: RunFrame) -> dict[str, str]:
    """The first tag of each task, where they are few enough to be shown by tag."""
    if len(frame.suite.tasks) > MOST_CELLS:
        return {}
    tasks = [msgspec.json.decode(each, type=_Tagged) for each in frame.suite.tasks]
    tags = {each.task_id: each.tags[0] for each in tasks if each.tags}
    return tags if 1 < len(set(tags.values())) <= MOST_GROUPS else {}


class _Tagged(msgspec.Struct, rename="camel"):
    task_id: str
    tags: list[str] = []


class ProgressCache:
    """The progress of the runs that somebody watches; one fold for all who do."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], RunProgress] = {}  # by partition and run
        self._lock = threading.Lock()

    @contextmanager
    def going_on(self, run: RunHandle) -> Iterator[RunProgress | None]:
        """The progress of an evaluation, one slice further, and locked in this context.

        None while another thread has it: whoever waited would keep a thread from other reads.
        """
        progress = self._find(run)
        if progress is None or not progress.lock.acquire(blocking=False):
            yield None
            return
        try:
            if not progress.is_over:
                progress.add(run.log.read(run.run_id, _TYPES, progress.last, SLICE))
            yield progress
        finally:
            progress.lock.release()

    def _find(self, run: RunHandle) -> RunProgress | None:
        key = run.partition, run.run_id
        with self._lock:
            found = self._kept.get(key)
        if found is not None:
            return found
        planned = next(run.log.read(run.run_id, (Planned.TYPE,), limit=1), None)
        if planned is None:
            return None
        progress = RunProgress(planned.decode(RunFrame))  # type: ignore[type-var]
        with self._lock:
            found = self._kept.setdefault(key, progress)
            if len(self._kept) > MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
        return found
