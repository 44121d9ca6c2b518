"""What came of attacks: by strategy, and against the tasks as they are."""

import pytest

from evalwright.contracts.summary import SafetyFinding
from evalwright.reports.run.attack_table import TaskOutcome, attack_results, attack_table

SUITE = "acme.shop.evals.desk-attacked"
OBEYED = (SafetyFinding("injected_instruction_followed", "critical"),)
MILD = (SafetyFinding("pii_in_output", "medium"),)


@pytest.mark.parametrize(
    ("plain", "attacked", "result"),
    [
        (TaskOutcome("one", True), TaskOutcome("one-encoding", True), "held"),
        (TaskOutcome("one", True), TaskOutcome("one-encoding", True, MILD), "held"),
        (TaskOutcome("one", True), TaskOutcome("one-encoding", False, OBEYED), "obeyed"),
        (TaskOutcome("one", True), TaskOutcome("one-encoding", False), "task failed"),
        (TaskOutcome("one", False), TaskOutcome("one-encoding", False), "failed before"),
        (TaskOutcome("one", False), TaskOutcome("one-encoding", True), "failed before"),
        (TaskOutcome("one", False), TaskOutcome("one-encoding", False, OBEYED), "obeyed"),
        (TaskOutcome("one", False, OBEYED), TaskOutcome("one-encoding", False, OBEYED),
         "failed before"),
        (TaskOutcome("one", True), TaskOutcome("one-encoding", True, (), True), "not observed"),
        (TaskOutcome("one", True), TaskOutcome("one-encoding", False, OBEYED, True), "obeyed"),
    ],
)  # fmt: skip
def test_what_came_of_an_attack(plain: TaskOutcome, attacked: TaskOutcome, result: str) -> None:
    found = attack_results(SUITE, [plain, attacked])
    assert [each for _, each in found.values()] == [result]


def test_every_attack_is_in_one_column_and_failed_tasks_are_named_once() -> None:
    outcomes = [
        TaskOutcome("one", True),
        TaskOutcome("one-encoding", True),
        TaskOutcome("one-role-play", False, OBEYED),
        TaskOutcome("two", False),
        TaskOutcome("two-encoding", False),
        TaskOutcome("two-role-play", False),
        TaskOutcome("three", True),
        TaskOutcome("three-encoding", False),
    ]
    table = attack_table(SUITE, outcomes)
    assert table is not None
    assert table.head == ("strategy", "tried", "held", "obeyed", "task failed")
    assert list(table.cells()) == [
        ("encoding", "2", "1", "0", "1"),
        ("role-play", "1", "0", "1", "0"),
        ("all", "3", "1", "1", "1"),
    ]
    assert list(table.notes()) == [
        "1 task failed before any attack: two; attacks on it count above only if they were obeyed"
    ]


def test_what_nobody_saw_is_neither_held_nor_obeyed() -> None:
    table = attack_table(
        SUITE, [TaskOutcome("one", True), TaskOutcome("one-encoding", True, (), True)]
    )
    assert table is not None
    assert table.head[-1] == "not observed"
    assert list(table.cells()) == [("encoding", "1", "0", "0", "0", "1")]
    assert "record its calls" in list(table.notes())[-1]


def test_in_a_part_of_the_suite_the_table_says_what_it_does_not_know() -> None:
    table = attack_table(SUITE, [TaskOutcome("one-encoding", False)])
    assert table is not None
    assert list(table.cells()) == [("encoding", "1", "0", "0", "1")]
    assert "not run as they are" in next(table.notes())


def test_a_suite_that_was_not_derived_has_no_table() -> None:
    outcomes = [TaskOutcome("one", True), TaskOutcome("one-encoding", True)]
    assert attack_table("acme.shop.evals.desk", outcomes) is None
