"""`evalwright rescore`: recorded answers, other checks, a new run."""

import json
from typing import Any

from subjects.command import Evalwright


def a_suite(**checks: Any) -> str:
    tasks = [{"id": each, "input": each, "checks": [check]} for each, check in checks.items()]
    return json.dumps({"evalwright": 1, "name": "desk", "tasks": tasks})


def recorded(evalwright: Evalwright) -> None:
    folder = evalwright.folder
    (folder / "agent.py").write_text('def answer(task):\n    return "Order A-17 is shipped."\n')
    (folder / "evals.json").write_text(a_suite(first={"contains": "lost"}))
    out = str(folder / "kept")
    assert evalwright("run", "evals.json", "--agent", "agent.py:answer", "--out", out).code == 1
    (folder / "agent.py").unlink()
    changed = a_suite(first={"contains": "shipped"}, second={"contains": "x"})
    (folder / "changed.json").write_text(changed)


def test_answers_are_scored_by_another_suite_without_the_agent(evalwright: Evalwright) -> None:
    recorded(evalwright)
    assert evalwright("rescore", "latest").code == 1
    done = evalwright("rescore", "latest", "--suite", "changed.json")
    assert done.code == 0, done.err
    assert "left out, as new: second" in done.err
    assert "scored again" in done.out
    assert "rescored partial" in evalwright("runs").flat


PAID = """\
def answer(task):
    task.report_usage(
        provider="openai", model="gpt", inputTokens=1, outputTokens=1, costEstimateUsd=0.5
    )
    return "It is shipped."
"""


def test_a_run_that_ended_too_early_does_not_pass_when_it_is_scored_again(
    evalwright: Evalwright,
) -> None:
    """Its budget was spent after one of two tasks, which passed."""
    (evalwright.folder / "agent.py").write_text(PAID)
    both = {"contains": "shipped"}
    (evalwright.folder / "evals.json").write_text(a_suite(first=both, second=both))
    spent = ("--agent", "agent.py:answer", "--max-cost", "0.6")
    assert evalwright("run", "evals.json", *spent).code == 3
    (run_id,) = evalwright.run_ids()
    done = evalwright("rescore", run_id)
    assert done.code == 1
    told = "1 task has no answer in the run; --allow-partial accepts that"
    assert f"FAILED ■ Do not ship: {told}" in done.flat
    again = evalwright("rescore", "latest")
    assert (again.code, "FAILED" in again.out) == (1, True)
    allowed = evalwright("rescore", run_id, "--allow-partial")
    assert (allowed.code, "a part of the suite: 1 of 2 tasks" in allowed.out) == (0, True)


def test_a_part_that_is_scored_again_stays_a_part(evalwright: Evalwright) -> None:
    recorded(evalwright)
    (evalwright.folder / "agent.py").write_text('def answer(task):\n    return "shipped x"\n')
    some = ("--limit", "1", "--agent", "agent.py:answer")
    assert evalwright("run", "changed.json", *some).code == 0
    assert "a part of the suite: 1 of 2 tasks" in evalwright("rescore", "latest").out
    refused = evalwright("baseline", "set", "main")
    assert refused.code == 2
    assert "no evidence" in refused.err


def test_the_folder_that_a_run_left_is_enough(evalwright: Evalwright) -> None:
    recorded(evalwright)
    evalwright.db = evalwright.folder / "elsewhere.db"
    done = evalwright("rescore", "kept", "--suite", "changed.json", "--json")
    assert done.code == 0, done.err
    assert done.json()["passedCount"] == 1


def test_a_suite_that_does_not_fit_is_bad_input(evalwright: Evalwright) -> None:
    recorded(evalwright)
    (evalwright.folder / "other.json").write_text(a_suite(third={"contains": "x"}))
    done = evalwright("rescore", "latest", "--suite", "other.json")
    assert done.code == 2
    assert "no task of other.json has an answer" in done.err


def test_repeated_answers_that_were_scored_again_are_compared_as_answers(
    evalwright: Evalwright,
) -> None:
    folder = evalwright.folder
    (folder / "agent.py").write_text(
        "import itertools\nat = itertools.count(1)\ndef answer(task):\n"
        '    return f"Order A-17 is shipped, {next(at)}."\n'
    )
    task = {"id": "again", "input": "x", "repeat": 3, "checks": [{"contains": "shipped"}]}
    (folder / "evals.json").write_text(json.dumps({"evalwright": 1, "tasks": [task]}))
    assert evalwright("run", "evals.json", "--agent", "agent.py:answer", "--out", "one").code == 0
    assert evalwright("rescore", "one", "--out", "two").code == 0
    assert evalwright("compare", "--baseline", "one", "--new", "two", "--out", "report").code == 0
    for name in ("again", "again~r2", "again~r3"):
        before, after = (
            json.loads((folder / f"report/{side}/{name}.json").read_text())
            for side in ("baseline", "new")
        )
        assert before["final_output"] == after["final_output"]
        assert before["scored"] == after["scored"]
