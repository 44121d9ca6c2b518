"""`evalwright baseline`: names for the runs that others are compared with."""

import json
from pathlib import Path

import pytest

from builders import a_suite
from subjects.command import Evalwright, subject

SUITE = a_suite(2, modes=["golden", "regression"])


@pytest.fixture
def command(tmp_path: Path) -> Evalwright:
    """A folder with a suite of which one run is complete."""
    command = Evalwright(tmp_path)
    assert run(command, "yes").code == 0
    return command


def run(command: Evalwright, answer: str, *more: str):
    suite = command.suite(SUITE)
    return command("run", suite, "--agent", subject(f"answers.py:{answer}"), *more)


def test_a_name_finds_the_run_that_it_was_given_to(command: Evalwright):
    assert command("baseline", "set", "main").code == 0
    run(command, "no")
    compared = run(command, "no", "--baseline", "main")
    assert compared.code == 1
    assert "Against main (run_" in compared.flat
    assert "old): " in compared.flat
    assert "Newly failing (2)" in command("show", "latest").out


def test_every_command_that_takes_a_run_takes_its_name(command: Evalwright):
    command("baseline", "set", "release/1.2")
    run(command, "no")
    compared = command("compare", "--baseline", "release/1.2", "--new", "latest", "--out", "report")
    assert compared.code == 1, compared.err
    assert "2 cases got worse" in compared.out
    assert "PASSED" in command("show", "release/1.2").out
    assert command("diff", "release/1.2", "latest", "--exit-code").code == 1


def test_compare_takes_the_baseline_of_the_suite_of_the_new_run(command: Evalwright):
    command("baseline", "set", "main")
    other = command.suite(a_suite(3, suite_id="acme.shop.evals.other"), "other.json")
    command("run", other, "--agent", subject("answers.py:yes"))
    command("baseline", "set", "main")
    run(command, "no")
    compared = command("compare", "--baseline", "main", "--new", "latest", "--out", "report")
    assert "2 cases got worse" in compared.out
    several = command("show", "main")
    assert several.code == 2
    assert "'main' is the baseline of several suites or agents: run_" in several.err


def test_a_mistyped_name_is_recognised(command: Evalwright):
    command("baseline", "set", "main")
    for tried in (
        run(command, "no", "--baseline", "mian"),
        command("compare", "--baseline", "mian", "--new", "latest", "--out", "report"),
    ):
        assert tried.code == 2
        assert "did you mean the baseline main?" in tried.err


def test_baselines_go_to_another_machine_in_a_file(command: Evalwright, tmp_path: Path):
    command("baseline", "set", "main")
    command("baseline", "export", "main.jsonl", "main")
    other = Evalwright(tmp_path / "other")
    other.folder.mkdir()
    brought = other("baseline", "import", str(tmp_path / "main.jsonl"))
    assert brought.code == 0, brought.err
    (shown,) = json.loads(other("baseline", "list", "--json").out)
    assert (shown["name"], shown["aggregateScore"]) == ("main", 1.0)
    assert run(other, "no", "--baseline", "main").code == 1


def test_a_name_that_is_forgotten_finds_nothing(command: Evalwright):
    command("baseline", "set", "main")
    assert command("baseline", "rm", "main").code == 0
    missing = command("baseline", "show", "main")
    assert missing.code == 2
    assert "there is no baseline 'main'" in missing.err
    assert run(command, "yes", "--baseline", "main").code == 2


def test_a_name_of_another_suite_is_not_taken_for_this_one(command: Evalwright):
    command("baseline", "set", "main")
    other = command.suite(a_suite(2, suite_id="acme.shop.evals.other"), "other.json")
    done = command("run", other, "--agent", subject("answers.py:yes"), "--baseline", "main")
    assert done.code == 2
    assert "set for acme.shop.evals.refunds, not for acme.shop.evals.other" in done.err


def test_the_run_of_a_name_is_never_pruned(command: Evalwright):
    command("baseline", "set", "main")
    pruned = command("db", "prune", "--older-than", "0s", "--dry-run")
    assert "is the baseline 'main'" in pruned.out + pruned.err


@pytest.mark.parametrize("name", ["latest", "run_1", "", "a b", "-x"])
def test_a_name_that_could_be_taken_for_a_run_is_refused(command: Evalwright, name: str):
    done = command("baseline", "set", "--", name)
    assert done.code == 2


def test_a_file_that_was_changed_brings_nothing(command: Evalwright, tmp_path: Path):
    command("baseline", "set", "main")
    command("baseline", "export", "main.jsonl")
    lines = (tmp_path / "main.jsonl").read_text().splitlines()
    (tmp_path / "cut.jsonl").write_text("\n".join(lines[:4] + lines[5:]))
    other = Evalwright(tmp_path / "other")
    other.folder.mkdir()
    done = other("baseline", "import", str(tmp_path / "cut.jsonl"))
    assert done.code == 2
    assert "sequence is" in done.err
    assert other("runs", "--json").out.strip() in ("", "[]")


def test_a_file_without_a_baseline_is_refused(command: Evalwright, tmp_path: Path):
    for content in ("{}", "", '{"format":"evalwright-baselines","version":1}\n'):
        (tmp_path / "none.jsonl").write_text(content)
        done = command("baseline", "import", "none.jsonl")
        assert (done.code, "not a file of baselines" in done.err) == (2, True), done.err
