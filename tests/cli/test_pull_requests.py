"""What `run` and `compare` leave for a pull request: summary, annotations, code quality."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.reports.formats.ci import Note, workflow_command
from subjects.command import Evalwright

SUITE = """\
evalwright: 1
name: desk
agent: agent.py:answer
data: [ { file: rows.csv, checks: [ { contains: "{{ expected }}" } ] } ]
tasks:
  - id: greeting
    input: { question: "hi" }
    checks: [ { contains: hello } ]
  - id: order
    input: { question: "where?" }
    checks: [ { contains: shipped } ]
"""
AGENT = 'import os\ndef answer(question):\n    return os.environ.get("ANSWER", "hello shipped 4")\n'


@pytest.fixture
def desk(evalwright: Evalwright, monkeypatch: pytest.MonkeyPatch) -> Evalwright:
    """A suite in a folder of its own below the top of a repository."""
    top = evalwright.folder
    (top / "evals").mkdir()
    (top / "evals" / "desk.yaml").write_text(SUITE)
    (top / "evals" / "rows.csv").write_text("id,question,expected\nsum,2+2?,4\n")
    (top / "evals" / "agent.py").write_text(AGENT)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(top))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(top / "summary.md"))
    return evalwright


def summary_of(desk: Evalwright) -> str:
    return (desk.folder / "summary.md").read_text()


def test_a_run_that_passes_says_so_and_annotates_nothing(desk: Evalwright) -> None:
    done = desk("run", "evals/desk.yaml", "--github")
    assert done.code == 0
    assert summary_of(desk).startswith(
        "### ● May ship: 3 of 3 tasks passed\n\n**desk** passes **100.0%**"
    )
    assert "::error" not in done.out


def test_a_summary_that_nobody_reads_is_not_waited_for(
    desk: Evalwright, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(desk.folder / "pipe")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(desk.folder / "pipe"))
    assert desk("run", "evals/desk.yaml").code == 0
    with open(os.open(desk.folder / "pipe", os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:  # noqa: PTH123
        assert desk("run", "evals/desk.yaml").code == 0
        assert reader.read().startswith("### ● May ship".encode())


def test_two_reports_in_one_place_are_refused(desk: Evalwright) -> None:
    done = desk("run", "evals/desk.yaml", "--junit", "x", "--codequality", "evals/../x")
    assert done.code == 2
    assert "--codequality" in done.err
    assert "--junit is written there" in done.err
    assert not (desk.folder / "x").exists()


def test_failed_tasks_are_named_in_the_summary_and_at_their_lines(
    desk: Evalwright, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk("run", "evals/desk.yaml")
    desk("baseline", "set", "main")
    monkeypatch.setenv("ANSWER", "hello | <b>\n")
    done = desk(
        "run", "evals/desk.yaml", "--github", "--baseline", "main", "--codequality", "q.json"
    )
    assert done.code == 1
    assert "::error file=evals/desk.yaml,line=9,title=order failed::contains" in done.out
    assert "::error file=evals/rows.csv,line=2,title=sum failed::contains" in done.out
    told = summary_of(desk).partition("### ■ Do not ship: ")[2]
    assert (
        "**desk** passes **33.3%** of 3 tasks (6\N{EN DASH}79%), every task must pass, 100.0% in"
        in told
    )
    assert "| ■ Pass rate: not met | 33.3% | 100.0% | every task must pass |" in told
    assert "- Score 1 → 0.3333 (\N{MINUS SIGN}0.6667, 95% interval" in told
    why = "contains: “shipped” is not in the output"
    assert f"**Start here:** where? `order`: {why}" in told
    assert "<details><summary>2 tasks got worse</summary>" in told
    assert f"| where? `order` | 1 → 0 | {why} |" in told
    assert "greeting" not in told
    issues = {issue["location"]["lines"]["begin"]: issue for issue in quality(desk)}
    assert set(issues) == {2, 9}
    assert issues[9]["severity"] == "major"
    assert issues[9]["location"]["path"] == "evals/desk.yaml"


def quality(desk: Evalwright) -> list[dict[str, object]]:
    issues = json.loads((desk.folder / "q.json").read_text())
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    return list(issues)


def test_the_same_failure_is_the_same_issue_in_the_next_run(
    desk: Evalwright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSWER", "no")
    desk("run", "evals/desk.yaml", "--codequality", "q.json")
    before = quality(desk)
    desk("run", "evals/desk.yaml", "--codequality", "q.json")
    assert quality(desk) == before


def test_with_json_the_annotations_leave_stdout_alone(
    desk: Evalwright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSWER", "no")
    done = desk("run", "evals/desk.yaml", "--github", "--json")
    assert done.json()["passed"] is False
    assert "::error file=evals/desk.yaml,line=6" in done.err


def test_a_run_without_a_result_is_an_error_and_several_suites_share_one_summary(
    desk: Evalwright,
) -> None:
    (desk.folder / "evals" / "broken.yaml").write_text(
        SUITE.replace("agent.py:answer", "broken.py:answer").replace("name: desk", "name: broken")
    )
    (desk.folder / "evals" / "broken.py").write_text("def answer(question):\n    1 / 0\n")
    done = desk("run", "evals/desk.yaml", "evals/broken.yaml", "--github")
    assert done.code == 3
    told = summary_of(desk)
    assert told.count("## ") == 2
    assert "### ▲ No result: agent_unavailable" in told
    assert "::error file=evals/broken.yaml,line=1,title=No result%3A agent_unavailable" in done.out


def test_of_many_failures_as_many_are_annotated_as_are_shown(
    desk: Evalwright, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"row-{number},q,4\n" for number in range(60))
    (desk.folder / "evals" / "rows.csv").write_text(f"id,question,expected\n{rows}")
    monkeypatch.setenv("ANSWER", "no")
    done = desk("run", "evals/desk.yaml", "--github")
    notes = [line for line in done.out.splitlines() if line.startswith("::error")]
    assert len(notes) == 10
    assert "more failed tasks" in notes[-1]
    assert "… and 12 more" in summary_of(desk)


def test_a_comparison_is_summarised_and_annotated(
    desk: Evalwright, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk("run", "evals/desk.yaml", "--out", "before")
    monkeypatch.setenv("ANSWER", "hello")
    desk("run", "evals/desk.yaml", "--out", "after")
    Path(desk.folder / "summary.md").unlink()
    sides = ("--baseline", "before", "--new", "after", "--out", "report")
    done = desk("compare", *sides, "--github", "--codequality", "q.json")
    assert done.code == 1
    assert summary_of(desk).startswith("### ■ Do not ship yet: 2 cases got worse")
    assert "::error title=order%3A got worse::“shipped” is not in the output" in done.out
    assert {issue["check_name"] for issue in quality(desk)} == {"evalwright/regression"}


@given(st.text(), st.text(), st.text())
def test_no_text_breaks_out_of_an_annotation(title: str, message: str, path: str) -> None:
    command = workflow_command(Note(title, message, path))
    head, _, rest = command.partition(",title=")
    assert not {"\n", "\r"} & set(command)
    assert rest.partition("::")[2].replace("%0A", "\n").replace("%0D", "\r").replace(
        "%25", "%"
    ) == (message)
    assert head.count(",") == 1
