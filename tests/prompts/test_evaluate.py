"""Tier 0 as a function: files in, results out, nothing printed."""

import pytest
from linted import FRONT_MATTER

from evalwright.contracts.errors import BadInput
from evalwright.engine.clock import SystemClock
from evalwright.prompts.evaluate import (
    MOST_TOGETHER,
    EvaluationSettings,
    evaluate_structure,
    lint_each,
    lint_files,
)
from evalwright.prompts.lint import ALL_RULES, selection
from evalwright.prompts.rules.duplicates import Library
from evalwright.prompts.sources import find_files, read_source

VAGUE = FRONT_MATTER + "Provide several options as a table.\n"


@pytest.fixture
def library(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.md").write_text(VAGUE, encoding="utf-8")
    (tmp_path / "a.md").write_text(FRONT_MATTER + "Sort the names as a table.\n", encoding="utf-8")
    return tmp_path


def rules_found(result):
    return [each.rule for each in result.details.findings]


def test_files_give_results_in_the_order_of_their_paths(library, capsys):
    results = lint_files([library / "b.md", library])

    assert [each.input.path for each in results] == ["a.md", "b.md"]
    assert [rules_found(each) for each in results] == [[], ["PE206"]]
    assert {each.execution.status for each in results} == {"success"}
    assert capsys.readouterr() == ("", "")


def test_rules_are_selected_and_ignored(library):
    assert rules_found(lint_files([library / "b.md"], ignore=["vague-quantifier"])[0]) == []
    assert rules_found(lint_files([library / "b.md"], select=["PE2"])[0]) == ["PE206"]
    with pytest.raises(BadInput, match="no rule is called"):
        lint_files([library], select=["PE9"])


def test_the_threshold_decides_what_passes(library):
    score = lint_files([library / "a.md"])[0].scores.overall_normalized

    assert lint_files([library / "a.md"], threshold=score)[0].passed
    assert not lint_files([library / "a.md"], threshold=score + 0.01)[0].passed


def test_a_file_that_cannot_be_read_is_an_error_and_never_passes(library):
    [result] = lint_files([library / "missing.md"])

    assert (result.execution.status, result.execution.error_code) == ("error", "file_not_found")
    assert not result.passed


def test_a_fault_in_a_rule_is_the_error_of_its_file_alone(library, monkeypatch):
    def fail(self, reading):
        if reading.prompt.path == "a.md":
            raise ZeroDivisionError("a fault")
        return ()

    monkeypatch.setattr(Library, "near_duplicate", fail)

    broken, sound = lint_files([library])

    assert broken.execution.error == "the linter failed: ZeroDivisionError: a fault"
    assert sound.execution.status == "success"


def test_a_file_is_read_when_the_one_before_it_is_done(library):
    seen = []

    def sources():
        for found in find_files([library]):
            seen.append(f"read {found.shown}")
            yield read_source(found)

    files = lint_each(sources(), ALL_RULES)
    results = evaluate_structure(files, EvaluationSettings(), SystemClock())
    seen.extend(f"done {result.input.path}" for result in results)

    assert seen == ["read a.md", "done a.md", "read b.md", "done b.md"]


def test_no_more_than_a_few_files_are_held_at_a_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(3 * MOST_TOGETHER):
        (tmp_path / f"{number:02}.md").write_text(VAGUE, encoding="utf-8")
    held = []

    def sources():
        for found in find_files([tmp_path]):
            held.append(found.shown)
            yield read_source(found)

    most = 0
    for done in lint_each(sources(), ALL_RULES):
        most = max(most, len(held))
        held.remove(done.source.path)

    assert most == MOST_TOGETHER


def test_large_files_are_held_one_by_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        (tmp_path / f"{number}.md").write_text(VAGUE * 8_000, encoding="utf-8")
    seen = []

    def sources():
        for found in find_files([tmp_path]):
            seen.append("read")
            yield read_source(found)

    seen.extend("done" for _ in lint_each(sources(), selection(select=["PE001"])))

    assert seen == ["read", "done"] * 3


def test_files_that_are_looked_at_together_give_what_each_gives_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = [
        FRONT_MATTER + f"Compare {{{{one}}}} with {{{{two_{number}}}}}, and list several points.\n"
        for number in range(MOST_TOGETHER + 2)
    ]
    for number, text in enumerate(texts):
        (tmp_path / f"{number:02}.md").write_text(text, encoding="utf-8")

    together = lint_files([tmp_path], ignore=["near-duplicate"])
    alone = [lint_files([tmp_path / each.input.path], ignore=["PE502"])[0] for each in together]

    assert [each.details.findings for each in together] == [each.details.findings for each in alone]
    assert [each.scores for each in together] == [each.scores for each in alone]
    assert any(rules_found(each) for each in together)
