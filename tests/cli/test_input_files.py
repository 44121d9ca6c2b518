"""`init` and `validate`, and what happens to input that cannot be used."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import a_log, a_suite, a_suite_document, a_task, as_document
from evalwright.contracts.errors import InvalidDocument
from evalwright.engine.suites.validation import check_file
from subjects import logs
from subjects.command import Evalwright, subject
from subjects.runs import AGENT_ID

YES = ["--agent", subject("answers.py:yes")]


# init and demo.


def test_init_writes_a_suite_and_an_agent_that_run_as_they_are(evalwright: Evalwright) -> None:
    made = evalwright("init", "my-evals")
    assert made.code == 0
    folder = evalwright.folder / "my-evals"
    assert sorted(path.name for path in folder.iterdir()) == ["agent.py", "suite.yaml"]
    assert "cd my-evals && evalwright run suite.yaml --agent agent.py:answer" in made.out
    assert evalwright("validate", "my-evals/suite.yaml").code == 0
    ran = evalwright("run", "suite.yaml", "--agent", "agent.py:answer", "--json", cwd=folder)
    assert ran.code == 0, ran.err
    assert ran.json()["passedCount"] == ran.json()["taskCount"] > 1


def test_init_works_here_too(evalwright: Evalwright) -> None:
    assert "\n  evalwright run suite.yaml" in evalwright("init").out
    assert evalwright("run", "suite.yaml", "--agent", "agent.py:answer").code == 0


@pytest.mark.parametrize("present", ["suite.yaml", "agent.py"])
def test_init_never_overwrites(evalwright: Evalwright, present: str) -> None:
    place = evalwright.folder / present
    place.write_text("mine")
    refused = evalwright("init")
    assert refused.code == 2
    assert present in refused.err
    assert place.read_text() == "mine"
    assert list(evalwright.folder.iterdir()) == [place]


def test_init_does_not_write_through_a_link_that_leads_nowhere(evalwright: Evalwright) -> None:
    link = evalwright.folder / "suite.yaml"
    link.symlink_to("elsewhere.yaml")
    refused = evalwright("init")
    assert refused.code == 2
    assert link.is_symlink()


def test_init_where_no_folder_can_be_is_bad_input(evalwright: Evalwright) -> None:
    (evalwright.folder / "file").write_text("mine")
    refused = evalwright("init", "file")
    assert refused.code == 2
    assert "file" in refused.err
    assert evalwright("init", "file/deeper").code == 2


def test_the_demo_runs_and_says_what_to_try_next(evalwright: Evalwright) -> None:
    ran = evalwright("demo")
    assert ran.code == 0, ran.err
    assert "PASSED" in ran.out
    assert "show latest" in ran.out
    logs.assert_complete(evalwright.events())


# validate.


def test_good_files_are_valid_and_told_apart(evalwright: Evalwright) -> None:
    suite = evalwright.suite()
    document = as_document(a_suite())
    (evalwright.folder / "suite.yaml").write_text(yaml.safe_dump(document))
    evalwright("run", suite, *YES, "--out", "results", "--quiet")
    events = evalwright.events()
    (evalwright.folder / "log.json").write_text(json.dumps(events))
    checked = evalwright(
        "validate", suite, "suite.yaml", "results/summary.json", "results/events.jsonl", "log.json"
    )
    assert checked.code == 0, checked.err
    assert checked.out.splitlines() == [
        "suite.json: valid AgentEvalSuite",
        "suite.yaml: valid AgentEvalSuite",
        "results/summary.json: valid EvalSummary",
        "results/events.jsonl: valid event log",
        "log.json: valid event log",
    ]


def bad_suite() -> dict[str, Any]:
    """One of everything that can be wrong with a suite."""
    document = a_suite_document([a_task("task-1"), a_task("task-2"), a_task("task-3")])
    document["version"] = "one"
    document["colour"] = "red"
    first, second, third = document["tasks"]
    second["taskId"] = "task-1"
    del third["expected"]["match"]
    first["expected"]["match"]["strategy"] = "similar"
    rubric = [{"criterion": "kind", "weight": 0}]
    document["tasks"] += [
        {"taskId": "task-4", "input": 1, "expected": {"kind": "rubric", "rubric": rubric}},
        {"taskId": "task-5", "input": 1, "expected": {"kind": "rubric"}},
    ]
    return document


def test_every_problem_of_a_suite_is_listed_with_its_path(evalwright: Evalwright) -> None:
    suite = evalwright.suite(bad_suite())
    checked = evalwright("validate", suite)
    assert (checked.code, checked.out) == (2, "")
    for place in (
        "suite.json: $: ",
        "suite.json: $.version: ",
        "suite.json: $.tasks[0].expected.match.strategy: ",
        "suite.json: $.tasks[1].taskId: ",
        "suite.json: $.tasks[2].expected: ",
        "suite.json: $.tasks[3].expected.rubric: ",
        "suite.json: $.tasks[4].expected: ",
    ):
        assert place in checked.err
    assert "'colour'" in checked.err
    assert "'task-1' is already used by $.tasks[0]" in checked.err
    refused = evalwright("run", suite, *YES)
    assert refused.code == 2
    assert "$.tasks[3].expected.rubric" in refused.err
    assert not evalwright.db.exists()


def test_one_bad_file_among_good_ones_is_enough(evalwright: Evalwright) -> None:
    good, bad = evalwright.suite(), evalwright.suite({}, "bad.json")
    checked = evalwright("validate", good, bad, "missing.json")
    assert checked.code == 2
    assert "suite.json: valid" in checked.out
    assert "bad.json: $" in checked.err
    assert "missing.json: cannot be read" in checked.err


Log = list[dict[str, Any]]


def _renumbered(events: Log) -> Log:
    return [event | {"sequence": n, "eventId": f"e{n}"} for n, event in enumerate(events)]


def _place(events: Log, kind: str) -> int:
    return logs.types(events).index(kind)


def _with_payload(events: Log, kind: str, **fields: Any) -> Log:
    events[_place(events, kind)]["payload"] |= fields
    return events


DAMAGES: dict[str, Callable[[Log], Log]] = {
    "a gap": lambda log: log[:5] + log[6:],
    "an event twice": lambda log: log[:6] + log[5:],
    "two runs": lambda log: [*log[:5], log[5] | {"runId": "run_other"}, *log[6:]],
    "two ends": lambda log: _renumbered([*log, log[-1]]),
    "an event after the end": lambda log: _renumbered([*log, log[5]]),
    "a score twice": lambda log: _renumbered([*log[:-1], log[_place(log, "eval.scored")], log[-1]]),
    "content in an eval event": lambda log: _with_payload(log, "eval.scored", output="yes"),
    "a payload out of shape": lambda log: _with_payload(log, "eval.scored", score=2),
    "an envelope out of shape": lambda log: [log[0] | {"timestamp": 5}, *log[1:]],
    "a bracket left open": lambda log: [
        event | ({"type": "acme.noted"} if event["type"] == "agent.invocation.completed" else {})
        for event in log
    ],
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_log_is_found_out_and_the_line_is_named(kind: str) -> None:
    events = [json.loads(event.to_json()) for event in a_log(a_suite(tasks=2))]
    lines = [json.dumps(event).encode() for event in DAMAGES[kind](events)]
    with pytest.raises(InvalidDocument, match=r"run\.jsonl: line \d+"):
        check_file(b"\n".join(lines), "run.jsonl")


def test_a_log_that_is_no_json_or_empty_is_found_out(evalwright: Evalwright) -> None:
    (evalwright.folder / "broken.jsonl").write_text('{"eventId": "a"\nhello\n')
    (evalwright.folder / "empty.jsonl").write_text("")
    checked = evalwright("validate", "broken.jsonl", "empty.jsonl")
    assert checked.code == 2
    assert "broken.jsonl: line 1" in checked.err
    assert "broken.jsonl: line 2" in checked.err
    assert "empty.jsonl" in checked.err


# Input that cannot be used.


def test_a_suite_that_cannot_be_read_is_bad_input(evalwright: Evalwright) -> None:
    folder = evalwright.folder
    (folder / "a-folder").mkdir()
    (folder / "empty.json").write_text("")
    (folder / "empty.yaml").write_text("")
    (folder / "binary.json").write_bytes(bytes(range(256)) * 100)
    (folder / "binary.yaml").write_bytes(b"\x00\x01\x02\x03")
    (folder / "text.json").write_text("not: json")
    (folder / "text.yaml").write_text("tasks: [")
    (folder / "latin.yaml").write_bytes("suiteId: Ärger".encode("latin-1"))
    places = {
        "missing.json": "cannot be read: No such file",
        "a-folder": "a-folder: no suite among its 0 files",
        "empty.json": "empty.json: line 1, column 1: the file is empty",
        "empty.yaml": "empty.yaml: line 1, column 1: the file is empty",
        "binary.json": "not UTF-8",
        "binary.yaml": "binary.yaml: line 1",
        "text.json": "text.json: line 1, column",
        "text.yaml": "text.yaml: line",
        "latin.yaml": "not UTF-8",
    }
    for name, words in places.items():
        refused = evalwright("run", name, *YES)
        assert (refused.code, refused.out) == (2, ""), name
        assert words in refused.err, name
        assert name in refused.err
        assert "Traceback" not in refused.err
    assert not evalwright.db.exists()
    assert evalwright("validate", *places).code == 2


def test_a_suite_without_the_right_to_read_it_is_bad_input(evalwright: Evalwright) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    name = evalwright.suite()
    (evalwright.folder / name).chmod(0)
    refused = evalwright("run", name, *YES)
    assert refused.code == 2
    assert "Permission denied" in refused.err


def test_an_agent_that_does_not_fit_is_refused_unless_told(evalwright: Evalwright) -> None:
    suite = evalwright.suite(
        a_suite(tasks=1, target_agent_id=AGENT_ID, allowed_models=["reasoning"])
    )
    refused = evalwright("run", suite, *YES)
    assert refused.code == 2
    assert "suite.json: $.targetAgentId" in refused.err
    assert "suite.json: $.allowedModels" in refused.err
    assert not evalwright.db.exists()
    named = ["--agent-id", AGENT_ID, "--model-class", "reasoning"]
    fits = evalwright("run", suite, *YES, *named, "--json")
    assert fits.code == 0
    assert fits.json()["evaluatedModelClass"] == "reasoning"
    assert evalwright("run", suite, *YES, "--allow-mismatch").code == 0
    assert evalwright("run", suite, *YES, "--model-class", "huge").code == 2


def test_modes_are_chosen_on_the_command_line(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=1, modes=["golden", "regression", "live-shadow"]))
    assert evalwright("run", suite, *YES, "--mode", "golden").code == 0
    for mode in ("rubric", "regression", "gold"):
        refused = evalwright("run", suite, *YES, "--mode", mode)
        assert refused.code == 2
        assert mode in refused.err
    assert len(evalwright.run_ids()) == 1


@pytest.mark.parametrize("option", ["--agent-id", "--tag", "--model-class"])
def test_text_that_is_no_unicode_is_bad_input(evalwright: Evalwright, option: str) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    refused = evalwright("run", suite, *YES, option, os.fsdecode(b"abc\xff"))
    assert refused.code == 2
    assert "Traceback" not in refused.err


def test_files_may_have_any_name(evalwright: Evalwright) -> None:
    name = os.fsdecode("sw\xfcite ★ \u2028.json".encode() + b"\xff.json")
    evalwright.suite(a_suite(tasks=1), name)
    assert evalwright("run", name, *YES).code == 0
    (evalwright.folder / name).write_text("{")
    refused = evalwright("run", name, *YES)
    assert refused.code == 2
    assert "Traceback" not in refused.err


def test_an_agent_file_may_have_any_name(evalwright: Evalwright) -> None:
    """Its reference goes into the log, which holds Unicode only."""
    suite = evalwright.suite(a_suite(tasks=1))
    name = os.fsdecode(b"agent\xff.py")
    (evalwright.folder / name).write_text("def answer(task): return 'yes'\n")
    ran = evalwright("run", suite, "--agent", f"{name}:answer", "--agent-id", AGENT_ID)
    assert ran.code in {0, 2}
    assert "Traceback" not in ran.err


# The log.


def test_the_log_is_where_the_environment_says_else_in_the_users_data(
    evalwright: Evalwright, tmp_path: Path
) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    place = {"EVALWRIGHT_DB": str(tmp_path / "deep" / "log.db")}
    evalwright.db = None
    assert evalwright("run", suite, *YES, env=place).code == 0
    assert len(evalwright("runs", "--json", env=place).json()) == 1
    assert evalwright("runs", "--json").json() == []
    assert evalwright("run", suite, *YES).code == 0
    assert len(evalwright("runs", "--json").json()) == 1
    assert (tmp_path / "data" / "evalwright" / "evalwright.db").is_file()


def test_an_agent_that_a_suite_names_is_told_with_the_suite(evalwright: Evalwright) -> None:
    (evalwright.folder / "agent.py").write_text("def answer(task):\n    return task.question\n")
    suite = "evalwright: 1\nagent: agent.py:{}\ntasks: [{{input: Hi, checks: [contains: Hi]}}]\n"
    (evalwright.folder / "suite.yaml").write_text(suite.format("answr"))
    refused = evalwright("run", "suite.yaml")
    assert "agent.py has no 'answr' (it has: answer)\nsuite.yaml names this agent\n" in refused.err
    (evalwright.folder / "suite.yaml").write_text(suite.format("answer"))
    failed = evalwright("run", "suite.yaml")
    assert "a task has no 'question'; what is asked is in task.input" in failed.err


@pytest.mark.parametrize(
    ("agent", "remedy"),
    [
        ("agent.py:nothing", "nothing() takes nothing; an agent takes the task: def nothing(task)"),
        ("openai:gpt-4.1", "a model is named with --model"),
        ("agent.py", "name the function: agent.py:nothing"),
    ],
)
def test_what_cannot_be_an_agent_is_told_with_the_remedy(
    evalwright: Evalwright, agent: str, remedy: str
) -> None:
    (evalwright.folder / "agent.py").write_text("def nothing():\n    return 1\n")
    refused = evalwright("run", evalwright.suite(), "--agent", agent)
    assert refused.code == 2
    assert remedy in refused.err
