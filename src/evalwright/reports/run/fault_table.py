"""What faults did to the pass rate: by fault and tool, beside the same tasks without one."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from evalwright.contracts.amounts import NOTHING, percent
from evalwright.contracts.events import Event, ToolReturned
from evalwright.contracts.suite import Task
from evalwright.engine.verdict import Outcome
from evalwright.reports.formats.markdown import inline, table
from evalwright.reports.formats.text import shortened
from evalwright.store.protocol import EventLog

_SHORT = 240


class FaultRow(NamedTuple):
    """The tasks that one fault of one tool struck, and of those that are there without it, how many
    passed."""

    fault: str
    tool: str
    tasks: int
    passed: int
    plain: int
    plain_passed: int


class FaultTable(NamedTuple):
    """The faults of a run."""

    rows: Sequence[FaultRow]
    unmet: int  # tasks whose faults struck no call

    @property
    def head(self) -> tuple[str, ...]:
        return ("fault", "tool", "tasks", "passed", "without it")

    def cells(self) -> Iterator[tuple[str, ...]]:
        for row in self.rows:
            plain = f"{row.plain_passed:,} of {row.plain:,}" if row.plain else NOTHING
            passed = f"{row.passed:,} ({percent(row.passed, row.tasks)})"
            yield row.fault, row.tool, f"{row.tasks:,}", passed, plain

    def notes(self) -> Iterator[str]:
        """What the rows do not say."""
        if self.unmet:
            tasks = "1 task" if self.unmet == 1 else f"{self.unmet:,} tasks"
            yield f"the agent called nothing that was to fail in {tasks}"

    def in_markdown(self) -> list[str]:
        notes = [line for note in self.notes() for line in ("", inline(note))]
        return [*(table(self.head, self.cells()) if self.rows else ()), *notes]


class _Table(Protocol):
    """What came of attacks, or of faults."""

    @property
    def head(self) -> Sequence[str]: ...
    def cells(self) -> Iterable[Sequence[str]]: ...
    def notes(self) -> Iterable[str]: ...


def outcomes_told(found: _Table | None) -> dict[str, Any] | None:
    """What a page shows of such a table: head, rows and notes, each text of a bounded length."""
    if found is None:
        return None
    return {
        "head": found.head,
        "rows": [[shortened(cell, _SHORT) for cell in row] for row in found.cells()],
        "notes": [shortened(note, _SHORT) for note in found.notes()],
    }


def fault_table(
    tasks: Sequence[Task], passed: Mapping[str, bool], events: Iterable[Event]
) -> FaultTable:
    """The faults of a run from its events; `passed` says what became of each task."""
    faulty = {task.task_id: task for task in tasks if task.faults and task.task_id in passed}
    plain = {
        _without_faults(task): task.task_id
        for task in tasks
        if not task.faults and task.task_id in passed
    }
    struck: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for event in events:
        if event.type == ToolReturned.TYPE and event.task_id in faulty:
            came = event.decode(ToolReturned)
            if came.fault is not UNSET:
                struck[came.fault, came.tool_name][event.task_id] = None
    rows = []
    for (fault, tool), met in sorted(struck.items()):
        twins = {plain.get(_without_faults(faulty[task_id])) for task_id in met} - {None}
        rows.append(
            FaultRow(
                fault,
                tool,
                len(met),
                sum(passed[task_id] for task_id in met),
                len(twins),
                sum(passed[task_id] for task_id in twins if task_id is not None),
            )
        )
    return FaultTable(rows, len(faulty.keys() - {each for met in struck.values() for each in met}))


def read_fault_table(log: EventLog, outcome: Outcome) -> FaultTable | None:
    """The faults of a run of the log; None where it has none."""
    tasks = outcome.plan.suite.tasks
    if outcome.plan.is_live or not any(task.faults for task in tasks):
        return None
    passed = {each.task_id: each.passed for each in outcome.summary.tasks}
    return fault_table(tasks, passed, log.read(outcome.run_id, (ToolReturned.TYPE,)))


def _without_faults(task: Task) -> bytes:
    """What a task with faults and the same one without them have in common."""
    alike = msgspec.structs.replace(task, task_id="", faults=[], tags=[], title="")
    return msgspec.json.encode(alike)
