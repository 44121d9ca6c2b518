"""Suites and data files from the command line: run, validate, export, schema."""

import json
import re

import pytest

from subjects.command import Evalwright

AGENT = """
def answer(task):
    return {"Where?": "In Rome.", "When?": "On Monday."}[task.input["question"]]
"""
SUITE = """\
evalwright: 1
agent: agent.py:answer
tasks:
  - id: where
    input: { question: "Where?" }
    checks: [ { contains: Rome } ]
  - id: when
    input: { question: "When?" }
    checks: [ { equals: On Tuesday. } ]
"""
END = "run.completed"  # with the summary
ROWS = "question,answer\nWhere?,Rome\nWhen?,Monday\n"


@pytest.fixture
def folder(evalwright: Evalwright):
    (evalwright.folder / "agent.py").write_text(AGENT)
    (evalwright.folder / "suite.yaml").write_text(SUITE)
    (evalwright.folder / "questions.csv").write_text(ROWS)
    return evalwright.folder


def verdicts(done) -> dict[str, bool]:
    return {task["taskId"]: task["passed"] for task in json.loads(done.out)["tasks"]}


def test_a_wide_suite_is_run_against_its_own_agent(evalwright: Evalwright, folder) -> None:
    done = evalwright("run", "suite.yaml", "--json")

    assert done.code == 1
    assert verdicts(done) == {"where": True, "when": False}


def test_from_elsewhere_its_agent_is_found_beside_it(evalwright: Evalwright, folder) -> None:
    (folder / "deep").mkdir()
    for name in ("agent.py", "suite.yaml"):
        (folder / name).rename(folder / "deep" / name)

    assert verdicts(evalwright("run", "deep/suite.yaml", "--json"))["where"]


def test_a_data_file_is_run_with_one_line(evalwright: Evalwright, folder) -> None:
    done = evalwright(
        *("run", "questions.csv", "--agent", "agent.py:answer", "--input", "question"),
        *("--expected", "answer", "--check", "contains", "--json"),
    )

    assert done.code == 0
    assert list(verdicts(done).values()) == [True, True]


@pytest.mark.parametrize(
    ("check", "told"),
    [
        ("contain", "--check: no check is called 'contain' (did you mean contains?)"),
        ("contains: Rome", "'contains: Rome' (write contains=VALUE)"),
        ("regex=(", "--check: not a pattern of RE2"),
        ("number", "line 2, column answer, --check: number cannot be this text, as in 1 more row"),
    ],
)
def test_a_wrong_option_is_told_once_and_not_for_each_row(
    evalwright: Evalwright, folder, check, told
) -> None:
    done = evalwright("run", "questions.csv", "--agent", "agent.py:answer", "--check", check)

    assert done.code == 2
    assert told in done.err
    assert done.err.count("--check") == 1


def test_columns_that_are_not_there_are_told_together(evalwright: Evalwright, folder) -> None:
    wrong = ("--input", "queston", "--expected", "anwser", "--check", "contains")
    done = evalwright("run", "questions.csv", "--agent", "agent.py:answer", *wrong)

    assert "'queston', for input.queston (did you mean question?)" in done.err
    assert "'anwser', for expected (did you mean answer?)" in done.err


def test_code_in_place_of_a_suite_is_told_how_to_test_it(evalwright: Evalwright, folder) -> None:
    done = evalwright("run", "agent.py")

    assert done.code == 2
    assert "`evalwright run SUITE --agent agent.py:NAME`" in done.err
    assert "agent.py:answer" in done.err


def test_what_was_guessed_is_told(evalwright: Evalwright, folder) -> None:
    done = evalwright("run", "questions.csv", "--agent", "agent.py:answer", "--check", "contains")

    assert "input.question from question, expected from answer" in done.err


def test_a_suite_has_checks_of_its_own(evalwright: Evalwright, folder) -> None:
    done = evalwright("run", "suite.yaml", "--check", "contains")

    assert done.code == 2
    assert "a suite says this itself" in done.err


def test_an_exported_suite_is_valid_and_scores_alike(evalwright: Evalwright, folder) -> None:
    assert evalwright("export", "suite.yaml", "--openwop", "portable.json").code == 0

    assert evalwright("validate", "portable.json").out == "portable.json: valid AgentEvalSuite\n"
    exported = evalwright("run", "portable.json", "--agent", "agent.py:answer", "--json")
    assert verdicts(exported) == verdicts(evalwright("run", "suite.yaml", "--json"))


def test_what_would_be_lost_is_named_and_nothing_is_written(evalwright: Evalwright, folder) -> None:
    text = SUITE.replace("{ contains: Rome }", "{ regex: R.me }, { contains: Rome }")
    (folder / "suite.yaml").write_text(text)
    done = evalwright("export", "suite.yaml", "--openwop", "portable.yaml")

    assert done.code == 1
    assert "task where: cannot be said: 2 checks in one task: regex, contains" in done.err
    assert not (folder / "portable.yaml").exists()
    assert evalwright("export", "suite.yaml", "--openwop", "portable.yaml", "--lossy").code == 0
    assert evalwright("validate", "portable.yaml").code == 0


def test_a_suite_is_not_exported_over_itself(evalwright: Evalwright, folder) -> None:
    assert evalwright("export", "suite.yaml", "--openwop", "./suite.yaml").code == 2


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("agent.py:answer", "agent.py:anwser"), "$.agent: line 2: agent.py has no 'anwser'"),
        (("agent.py:answer", "agnt.py:answer"), "$.agent: line 2: there is no file agnt.py"),
        (("agent.py:answer", "agent.py"), "name the function: agent.py:answer"),
        (
            ("contains: Rome", "python: agent.py:polite"),
            "$.tasks[0].checks[0]: line 6, task where: ",
        ),
        (("contains: Rome", "regex: (a"), "$.tasks[0].checks[0].regex: line 6, task where: "),
        (("contains: Rome", "no_signals: [nope]"), "no_signals[0]: line 6, task where: "),
        (("tasks:", "data: [ { file: nope.csv, checks: [ { equals: 1 } ] } ]\ntasks:"), "nope.csv"),
    ],
)
def test_validate_finds_what_leads_nowhere(evalwright: Evalwright, folder, wrong, told) -> None:
    (folder / "suite.yaml").write_text(SUITE.replace(*wrong))
    done = evalwright("validate", "suite.yaml")

    assert done.code == 2
    assert told in done.err
    assert "1 problem" in done.err


def test_schemas_are_printed(evalwright: Evalwright) -> None:
    assert "suite " in evalwright("schema").out
    assert json.loads(evalwright("schema", "suite").out)["title"] == "Suite with checks"
    assert evalwright("schema", "wide-suite").out == evalwright("schema", "suite").out
    assert evalwright("schema", "nope").code == 2


def test_a_row_without_an_id_is_named_by_its_question_wherever_an_id_may_be(
    evalwright: Evalwright,
) -> None:
    folder = evalwright.folder
    (folder / "q.csv").write_text("question,expected,title\nHow long is it?,30 m,\nHi,x,Greets\n")
    (folder / "agent.py").write_text("def answer(question): return '30 m'\n")
    (folder / "desk.yaml").write_text(
        "evalwright: 1\ndata: [{file: q.csv, checks: [contains: '{{ expected }}']}]\n"
    )
    done = evalwright("run", "desk.yaml", "--agent", "agent.py:answer", "--github")
    shown = evalwright("show", "latest", "--tasks", "--json").out
    tasks = [json.loads(line) for line in shown.splitlines()]
    assert [re.sub("[0-9a-f]{4}$", "…", task["title"]) for task in tasks] == [
        "how-long-is-it-…",
        "Greets",
    ]
    assert all(list(task).index("title") < list(task).index("input") for task in tasks)
    named = tasks[0]["title"]
    again = evalwright("run", "desk.yaml", "--agent", "agent.py:answer", "--task", named)
    assert (again.code, f"--task {named}" in again.out) == (0, True)
    assert evalwright("show", "latest", "--task", named).code == 0
    assert "::error file=q.csv,line=3,title=greets-" in done.out
    events = [
        json.loads(line)
        for line in evalwright("show", "latest", "--events", "--json").out.splitlines()
    ]
    kept = [msg for msg in events if msg["type"].startswith("eval.") or msg["type"] == END]
    assert len(kept) > 2
    assert "long" not in json.dumps(kept).lower()
