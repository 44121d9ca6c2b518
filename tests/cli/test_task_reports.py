"""Every task of a run: lines of JSON, a table, CSV and Markdown, from the command line."""

import csv
import json
from pathlib import Path

import pytest

from cli.test_masked_output import TOKEN
from subjects.command import Evalwright

SUITE = """
evalwright: 1
name: desk
agent: {ref: agent.py:answer, tools: none}
tasks:
  - id: formula
    input: { question: "=1+1" }
    checks: [ { contains: shipped }, { does_not_call: shop.delete } ]
  - id: fine
    input: { question: It is shipped }
    checks: [ { contains: shipped } ]
  - id: broken
    input: { question: break }
    checks: [ { contains: shipped } ]
  - id: leak
    input: { question: leak }
    checks: [ { contains: shipped } ]
"""
AGENT = f"""
def answer(task):
    question = task.input["question"]
    if question == "break":
        raise ValueError("too hard")
    return "take {TOKEN}" if question == "leak" else question
"""
KILLED = """
import os, sqlite3

SCORED = "SELECT count(*) FROM events WHERE type = 'eval.scored'"

def answer(task):
    if task.input["question"] == "break":
        log = sqlite3.connect(os.environ["LOG"])
        while log.execute(SCORED).fetchone()[0] < 2:
            pass
        os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Evalwright:
    """A folder with a run; those who run again take another log."""
    evalwright = Evalwright(tmp_path_factory.mktemp("ran"))
    (evalwright.folder / "suite.yaml").write_text(SUITE)
    (evalwright.folder / "agent.py").write_text(AGENT)
    assert evalwright("run", "suite.yaml", "--quiet").code == 1
    return evalwright


@pytest.fixture
def again(ran: Evalwright, tmp_path: Path) -> Evalwright:
    """The same folder with a log of its own."""
    evalwright = Evalwright(ran.folder)
    evalwright.db = tmp_path / "log.db"
    return evalwright


def test_tasks_are_shown_as_a_table_and_as_lines_of_json(ran: Evalwright) -> None:
    done = ran("show", "latest", "--tasks", "--json")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    assert [line["taskId"] for line in lines] == ["formula", "fine", "broken", "leak"]
    assert [line["passed"] for line in lines] == [False, True, False, False]
    assert [check["check"] for check in lines[0]["checks"]] == ["contains", "does_not_call"]
    assert TOKEN not in done.out
    assert TOKEN in ran("show", "latest", "--tasks", "--json", "--show-secrets").out
    table = ran("show", "latest", "--tasks").out
    assert "contains: “shipped” is not in the output" in table
    assert TOKEN not in table


def test_tasks_cannot_be_shown_with_one_task(ran: Evalwright) -> None:
    done = ran("show", "latest", "--tasks", "--task", "fine")
    assert done.code == 2
    assert "without --task" in done.err


def test_csv_and_markdown_hold_every_task_and_no_formula(ran: Evalwright) -> None:
    ran("show", "latest", "--csv", "tasks.csv", "--markdown", "tasks.md")
    with (ran.folder / "tasks.csv").open(newline="") as file:
        rows = {row["taskId"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["formula", "fine", "broken", "leak"]
    assert rows["formula"]["output"] == "'=1+1"
    assert rows["formula"]["failedChecks"] == "contains"
    assert rows["broken"]["error"] == "agent_error: ValueError: too hard"
    text = (ran.folder / "tasks.md").read_text()
    assert text.startswith("## Failed: desk")
    assert TOKEN not in (ran.folder / "tasks.csv").read_text() + text


def test_a_run_writes_them_too(again: Evalwright) -> None:
    done = again("run", "suite.yaml", "--quiet", "--csv", "tasks.csv")
    assert done.code == 1
    assert (again.folder / "tasks.csv").read_text().count("\n") == 5


def test_a_page_is_a_run_that_other_commands_take(
    evalwright: Evalwright, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (evalwright.folder / "suite.yaml").write_text(SUITE.partition("  - id: leak")[0])
    (evalwright.folder / "agent.py").write_text(AGENT)
    page = evalwright.folder / "run.html"
    assert evalwright("run", "suite.yaml", "--quiet", "--html", str(page)).code == 1
    elsewhere = Evalwright(tmp_path_factory.mktemp("elsewhere"))
    lines = evalwright("show", "latest", "--tasks", "--json").out
    assert elsewhere("show", str(page), "--tasks", "--json").out == lines
    report = ("--out", "report", "--json")
    done = elsewhere("compare", "--baseline", str(page), "--new", str(page), *report)
    assert json.loads(done.out)["summary"]["new_pass"] == 1
    page.write_bytes(page.read_bytes().replace(b'id="events">', b'id="events">####'))
    assert "are damaged" in elsewhere("show", str(page)).err


def test_a_page_with_a_masked_secret_cannot_stand_for_the_run(ran: Evalwright) -> None:
    assert ran("show", "latest", "--html", "run.html").out == ""
    assert TOKEN not in (ran.folder / "run.html").read_text()
    done = ran("show", "./run.html")
    assert done.code == 2
    assert "secrets are masked in this page" in done.err


def test_several_runs_have_a_page_each_and_one_that_sets_them_side_by_side(
    again: Evalwright,
) -> None:
    again("run", "suite.yaml", "--quiet", "--repeat", "2", "--html", "two.html")
    names = sorted(path.name for path in again.folder.glob("two*"))
    assert names == ["two-1.html", "two-2.html", "two.html"]
    matrix = (again.folder / "two.html").read_text()
    assert matrix.count("data-cell=") == 2 * matrix.count('<tr role="row" data-task=')
    assert 'href="two-2.html#q=' in matrix


def test_a_run_without_a_result_shows_how_far_it_came(again: Evalwright) -> None:
    (again.folder / "killed.py").write_text(KILLED)
    agent = ("--agent", "killed.py:answer", "--concurrency", "1")
    again("run", "suite.yaml", "--quiet", *agent, env={"LOG": str(again.db)})
    done = again("show", "latest", "--tasks", "--json", "--markdown", "tasks.md")
    assert done.code == 3
    passed = [json.loads(line)["passed"] for line in done.out.splitlines()]
    assert passed == [False, False, None, None]
    assert (again.folder / "tasks.md").read_text().startswith("## No result: incomplete")
