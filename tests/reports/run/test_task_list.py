"""The tasks of a run as lists show them: pages, filters, neighbours, and the events of one."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import RUN_ID, Answer, a_log, a_suite, a_task, as_log, opening
from evalwright.contracts.events import (
    Checked,
    Decided,
    EvalScored,
    Event,
    InvocationCompleted,
    InvocationStarted,
)
from evalwright.reports.run.task_list import (
    ScoreReader,
    TaskFilter,
    TaskList,
    TaskRow,
    one_task,
    read_events_of,
    read_frame,
    read_task_events,
    recorded_tasks,
)
from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite.log import SqliteLog

ROWS = st.lists(
    st.builds(
        lambda score: TaskRow("", score, None if score is None else score > 0.5),
        st.none() | st.floats(0, 1),
    ),
    max_size=40,
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db")
    yield log
    log.close()


def kept(log: SqliteLog, events: list[Event]) -> SqliteLog:
    new = [NewEvent(each.type, each.task_id, each.at_us, each.body) for each in events]
    log.append(events[0].run_id, new)
    log.flush(events[0].run_id).result(240)
    return log


def a_list(*passed: bool | None) -> TaskList:
    rows = [
        TaskRow(f"t{n}", None if each is None else float(each), each)
        for n, each in enumerate(passed)
    ]
    return TaskList(rows, ["golden"])


@given(ROWS, st.integers(1, 7), st.floats(0, 1))
def test_pages_hold_each_task_that_fits_once_and_failures_first(
    rows: list[TaskRow], size: int, least: float
) -> None:
    named = [msgspec.structs.replace(row, task_id=f"t{n}") for n, row in enumerate(rows)]
    tasks = TaskList(named, [])
    wanted = TaskFilter(least=least)

    first = tasks.page(wanted, 1, size)
    pages = [tasks.page(wanted, number, size) for number in range(1, first.pages + 1)]

    shown = [row for page in pages for row in page.rows]
    fitting = [row for row in named if row.score is not None and row.score >= least]
    assert sorted(row.task_id for row in shown) == sorted(row.task_id for row in fitting)
    assert first.total == len(fitting)
    statuses = [row.status for row in shown]
    assert statuses == sorted(statuses, key=["failed", "open", "passed"].index)


def test_a_page_beyond_the_last_is_the_last():
    tasks = a_list(*[True] * 7)
    assert [row.task_id for row in tasks.page(TaskFilter(), 99, 3).rows] == ["t6"]
    assert tasks.page(TaskFilter(), -1, 3).number == 1


def test_filters_take_status_and_parts_of_ids():
    tasks = a_list(True, False, None, False)
    assert [row.task_id for row in tasks.page(TaskFilter("failed"), 1, 9).rows] == ["t1", "t3"]
    assert [row.task_id for row in tasks.page(TaskFilter("open"), 1, 9).rows] == ["t2"]
    assert [row.task_id for row in tasks.page(TaskFilter(text="3"), 1, 9).rows] == ["t3"]


def test_the_next_failure_after_the_last_one_is_the_first():
    tasks = a_list(False, True, False, True)
    found = tasks.around("t1")
    assert found is not None
    assert (found.previous, found.next, found.next_failure, found.place) == ("t0", "t2", "t2", 2)
    last = tasks.around("t3")
    assert last is not None
    assert (last.next, last.next_failure) == ("", "t0")
    assert a_list(False, True).around("t0") == ("", "t1", "", 1)
    assert tasks.around("unknown") is None


def test_a_completed_run_tells_its_tasks_in_its_last_event(log: SqliteLog):
    kept(log, a_log(a_suite(3), {"task-2": "no"}))

    tasks = recorded_tasks(log, log.facts(RUN_ID))

    assert tasks is not None
    assert [(row.task_id, row.status) for row in tasks.rows] == [
        ("task-1", "passed"),
        ("task-2", "failed"),
        ("task-3", "passed"),
    ]
    assert tasks.totals is not None
    assert tasks.modes == ["golden"]


def test_the_tasks_of_a_run_that_goes_on_are_read_on(log: SqliteLog):
    events = a_log(a_suite(3), {"task-2": "no"}, ending="open")
    kept(log, events[:8])
    reader = ScoreReader(read_frame(log, RUN_ID), log.facts(RUN_ID))
    before = reader.read(log, RUN_ID)
    kept(log, events[8:])

    assert recorded_tasks(log, log.facts(RUN_ID)) is None
    assert [row.status for row in before.rows] == ["passed", "open", "open"]
    assert [row.status for row in reader.read(log, RUN_ID).rows] == ["passed", "failed", "passed"]


def test_one_task_is_told_by_its_score_alone(log: SqliteLog):
    kept(log, a_log(a_suite(3), {"task-2": "no"}))
    facts = log.facts(RUN_ID)
    tasks = recorded_tasks(log, facts)
    assert tasks is not None
    for place, row in enumerate(tasks.rows):
        (alone,) = one_task(log, facts, row.task_id).rows
        assert (alone.task_id, alone.score, alone.status) == (
            row.task_id,
            tasks.rows[place].score,
            tasks.rows[place].status,
        )
    assert one_task(log, facts, "unknown").rows == [TaskRow("unknown")]


def test_a_task_is_taken_from_the_plan_without_parsing_the_others(log: SqliteLog):
    frame = read_frame(kept(log, a_log(a_suite(3))), RUN_ID)
    assert frame.name == "acme.shop.evals.refunds@1.0.0"
    for place in (1, 0, 7, None):
        found = frame.task("task-2", place)
        assert found is not None
        assert found.task_id == "task-2"
    assert frame.task("unknown") is None


def test_the_events_of_a_task_are_found_among_those_of_others(log: SqliteLog):
    suite = a_suite([a_task(f"task-{n}") for n in range(300)])
    logged = a_log(suite, {"task-7": Answer("no")})
    mine = [each for each in logged if each.task_id == "task-7"]
    others = [each for each in logged[3:-2] if each.task_id != "task-7"]
    # The first event of the task, then those of all others, then the rest of it.
    mixed = [*logged[:3], mine[0], *others, *mine[1:], *logged[-2:]]
    events = [msgspec.structs.replace(each, sequence=n) for n, each in enumerate(mixed)]
    kept(log, events)
    last = log.upkeep.scored_at(RUN_ID, ["task-7"])["task-7"]

    for place in (last, None):
        found = read_task_events(log, RUN_ID, "task-7", last=place)
        assert [each.type for each in found] == [each.type for each in mine]
    assert read_task_events(log, RUN_ID, "unknown") == []
    several = read_events_of(log, RUN_ID, [a_task(each) for each in ("task-9", "task-7", "x")])
    assert several["task-7"] == [each for each in log.read(RUN_ID) if each.task_id == "task-7"]
    assert several["task-9"] == [each for each in log.read(RUN_ID) if each.task_id == "task-9"]
    assert several["x"] == []


def test_an_attempt_that_was_begun_anew_is_left_out_and_every_repetition_kept(log: SqliteLog):
    def attempt(number: int) -> list:
        name = f"inv-0001-r{number}" if number > 1 else "inv-0001"
        return [
            InvocationStarted(name, "acme.clerk", "run-api"),
            Decided("acme.clerk", f"answer {number}"),
            InvocationCompleted(name, "acme.clerk", "completed"),
            Checked([], 1.0, True, number),
        ]

    cut_off = InvocationStarted("inv-0001", "acme.clerk", "run-api")
    payloads = [cut_off, *attempt(1), *attempt(2), EvalScored("task-1", 1.0, True)]
    entries = [*opening(a_suite(1)), *(("task-1", each) for each in payloads)]
    kept(log, as_log(entries))

    assert len(read_task_events(log, RUN_ID, "task-1", repeat=2)) == 9
    assert len(read_task_events(log, RUN_ID, "task-1", repeat=3)) == 10
