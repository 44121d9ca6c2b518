"""`evalwright attack`: an adversarial suite of another one, to a file or to stdout."""

import msgspec
import pytest
import yaml
from hypothesis import given

from builders import a_suite, a_task, as_document
from evalwright.attacks.strategies import STRATEGIES
from evalwright.cli.attack import suite_file
from evalwright.contracts.suite import parse_suite
from strategies import suite_documents
from subjects.command import Evalwright

TOOLS = {"toolResponses": [{"tool": "shop:orders.get", "response": {"status": "shipped"}}]}


@pytest.mark.parametrize("name", ["attacked.yaml", "attacked.json"])
def test_the_derived_suite_is_written_and_is_valid(evalwright: Evalwright, name: str) -> None:
    suite = evalwright.suite(a_suite([a_task("one", fixtures=TOOLS)]))
    made = evalwright("attack", suite, "--out", name)
    assert (made.code, made.out) == (0, "")
    assert f"{len(STRATEGIES)} tasks in {name}" in made.err
    assert evalwright("validate", name).code == 0


def test_both_forms_of_a_derived_suite_are_the_same_suite(evalwright: Evalwright) -> None:
    suite = evalwright.suite()
    evalwright("attack", suite, "--out", "a.yaml")
    evalwright("attack", suite, "--out", "a.json")
    read = [
        parse_suite((evalwright.folder / name).read_bytes(), name) for name in ("a.yaml", "a.json")
    ]
    assert read[0] == read[1]


def test_without_a_file_the_suite_goes_to_stdout_in_the_form_of_its_origin(
    evalwright: Evalwright,
) -> None:
    suite = evalwright.suite()
    assert evalwright("attack", suite).json()["modes"] == ["adversarial"]
    (evalwright.folder / "suite.yaml").write_text(yaml.safe_dump(as_document(a_suite())))
    shown = evalwright("attack", "suite.yaml", "--strategy", "encoding").out
    assert yaml.safe_load(shown)["suiteId"].startswith("acme.shop.evals.refunds-attacked-")


def test_a_wide_suite_becomes_a_wide_suite_with_the_same_checks(evalwright: Evalwright) -> None:
    evalwright("init")
    made = evalwright("attack", "suite.yaml", "--strategy", "role-play", "--out", "attacked.yaml")
    assert made.code == 0, made.err
    attacked = yaml.safe_load((evalwright.folder / "attacked.yaml").read_text())
    assert attacked["modes"] == ["adversarial"]
    assert attacked["tasks"][0]["checks"] == [
        {"starts_with": "Hello"},
        {"not": {"contains": "sorry"}},
    ]
    assert evalwright("run", "attacked.yaml", "--agent", "agent.py:answer").code == 0


def test_nothing_that_exists_is_overwritten(evalwright: Evalwright) -> None:
    suite = evalwright.suite()
    refused = evalwright("attack", suite, "--out", suite)
    assert refused.code == 2
    assert "already exists" in refused.err


def test_attacks_are_not_attacked_again(evalwright: Evalwright) -> None:
    evalwright("attack", evalwright.suite(), "--out", "attacks.yaml")
    refused = evalwright("attack", "attacks.yaml")
    assert refused.code == 2
    assert "already a suite of attacks" in refused.err


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(evalwright: Evalwright) -> None:
    suite = evalwright.suite()
    first, again, other = (evalwright("attack", suite, "--seed", seed).out for seed in "778")
    assert first == again
    assert first != other


def test_strategies_and_their_number_can_be_chosen(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(4))
    chosen = evalwright("attack", suite, "--strategy", "role-play", "--strategy", "encoding")
    assert len(chosen.json()["tasks"]) == 8
    fewer = evalwright("attack", suite, "--per-task", "1")
    assert len(fewer.json()["tasks"]) == 4


def test_what_was_skipped_is_said(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite([a_task(f"t-{n}", input=n) for n in range(7)]))
    made = evalwright("attack", suite)
    assert made.code == 0
    assert "7 tasks" in made.err
    line = "skipped: role-play finds no input with text in t-0, t-1, t-2, t-3, t-4 and 2 more"
    assert line in made.err.splitlines()


def test_one_task_is_not_called_tasks(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(1))
    assert evalwright("attack", suite, "--per-task", "1").err.splitlines()[0].endswith(": 1 task")


def test_the_strategies_are_listed(evalwright: Evalwright) -> None:
    shown = evalwright("attack", "--list")
    assert shown.code == 0
    assert [line.split()[0] for line in shown.out.splitlines()] == list(STRATEGIES)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a suite"),
        (["missing.yaml"], "missing.yaml: cannot be read"),
        (["broken.yaml"], "broken.yaml: $.suiteId"),
        (["suite.json", "--strategy", "telepathy"], "'telepathy' is not one of"),
        (["suite.json", "--per-task", "0"], "--per-task"),
        (["suite.json", "--seed", "x"], "--seed"),
        (["suite.json", "--out", "no/such/folder.yaml"], "cannot be written"),
        (["numbers.json", "--strategy", "role-play"], "instruction-in-memory fits any task"),
    ],
    ids=str,
)
def test_bad_input_is_told_with_exit_code_2(
    evalwright: Evalwright, arguments: list[str], said: str
) -> None:
    evalwright.suite()
    evalwright.suite(a_suite([a_task(input=7)]), "numbers.json")
    (evalwright.folder / "broken.yaml").write_text("suiteId: x\ntasks: []\n")
    refused = evalwright("attack", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err


def test_invisible_characters_are_spelled_out_in_the_file(evalwright: Evalwright) -> None:
    suite = evalwright.suite()
    for name in ("a.yaml", "a.json"):
        evalwright("attack", suite, "--strategy", "unicode-smuggling", "--out", name)
        assert (evalwright.folder / name).read_bytes().isascii()


@given(document=suite_documents)
@pytest.mark.parametrize("name", ["suite.yaml", "suite.json"])
def test_a_file_holds_exactly_the_suite(name: str, document: dict[str, object]) -> None:
    suite = parse_suite(msgspec.json.encode(document), "suite.json")
    assert parse_suite(suite_file(suite, name), name) == suite


@pytest.mark.parametrize("text", ["1e3", "0o17", "no", "~", "null", "2026-01-01", "12:30", "", " "])
def test_a_text_stays_a_text(text: str) -> None:
    suite = a_suite([a_task(input={text: text}, value=text)])
    assert parse_suite(suite_file(suite, "a.yaml"), "a.yaml") == suite
