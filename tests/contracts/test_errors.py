"""The tree of errors: one root, an exit code each, and a docstring that tells the truth."""

import inspect
import pickle
import re

import pytest

from evalwright.contracts import errors
from evalwright.contracts.errors import EvalwrightError, InvalidDocument, Problem

ALL = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, EvalwrightError)
]


def test_the_docstring_draws_the_tree_as_it_is():
    drawn = re.findall(r"^([│ ]*)[├└]── (\w+)", errors.__doc__, re.MULTILINE)
    parents, found = [EvalwrightError.__name__], {}
    for indent, name in drawn:
        depth = len(indent) // 4 + 1
        found[name] = parents[depth - 1]
        parents[depth:] = [name]
    assert found == {kind.__name__: kind.__base__.__name__ for kind in ALL if kind.__base__ in ALL}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.BadInput, 2),
        (errors.InvalidDocument, 2),
        (errors.RunNotFound, 2),
        (errors.CannotEvaluate, 3),
        (errors.AgentBroken, 3),
        (errors.RunFailed, 3),
        (errors.RunBusy, 3),
        (errors.StoreError, 3),
        (errors.DamagedEventLog, 3),
        (errors.Interrupted, 130),
    ],
)
def test_every_error_has_its_exit_code(kind, code):
    assert kind.exit_code == code


def test_no_error_leaves_with_0_or_with_1_which_says_evaluated():
    assert {kind.exit_code for kind in ALL} == {2, 3, 130}


def test_a_problem_reads_place_rule_remedy():
    assert str(Problem("$.a", "is wrong")) == "$.a: is wrong"
    assert str(Problem("$.a", "is wrong", "put it right")) == "$.a: is wrong (put it right)"


def test_a_problem_can_be_placed_below_another_path():
    assert Problem("$.a", "x", "y").below("$.tasks[3]") == Problem("$.tasks[3].a", "x", "y")
    assert Problem("$", "x").below("$.tasks[3]").path == "$.tasks[3]"


def test_an_invalid_document_lists_every_problem_with_the_name_of_the_file():
    found = InvalidDocument("s.yaml", [Problem("$.a", "x"), Problem("$.b", "y")])
    assert str(found) == "s.yaml: $.a: x\ns.yaml: $.b: y"


def test_a_failed_run_is_told_with_its_id_code_and_reason():
    failed = errors.RunFailed("run_7", "agent_unavailable", "nobody there")
    assert (failed.run_id, failed.code) == ("run_7", "agent_unavailable")
    assert str(failed) == "run run_7 failed with agent_unavailable: nobody there"


@pytest.mark.parametrize(
    "error",
    [
        errors.RunPruned("run run_1 was pruned", 5),
        errors.StoreUnavailable("the log is away", "away"),
        errors.RunFailed("run_1", "agent_error", "no"),
        InvalidDocument("suite.json", [Problem("$", "no")]),
    ],
)
def test_an_error_is_handed_on_by_another_process_as_it_was(error: EvalwrightError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
