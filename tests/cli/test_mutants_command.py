"""`evalwright mutants`: what a suite does not notice, and a gate on it."""

import json

import pytest

from subjects.command import Evalwright

AGENT = 'def answer(task):\n    return "Order A-17 is shipped."\n'


def recorded(evalwright: Evalwright, *checks: object) -> None:
    tasks = [{"id": "where", "input": "Where is order A-17?", "checks": list(checks)}]
    suite = {"evalwright": 1, "name": "desk", "tasks": tasks}
    (evalwright.folder / "evals.json").write_text(json.dumps(suite))
    (evalwright.folder / "agent.py").write_text(AGENT)
    judge = ["--judge", "scripted:judge.json"] if "judge" in str(checks) else []
    evalwright("run", "evals.json", "--agent", "agent.py:answer", *judge)


def test_the_first_screen_names_checks_of_one_word(evalwright: Evalwright) -> None:
    recorded(evalwright, {"contains": "shipped"})
    done = evalwright("mutants", "latest")
    assert (done.code, done.err) == (0, "")
    first = done.out.splitlines()[:24]
    assert "Weak: tasks with contains of one word noticed" in " ".join(first)
    assert "damaged answers were noticed" in first[0]
    assert '  add      - contains: "A-17"' in done.out
    assert "AKIA" not in done.out.replace("AKIA[A-Z0-9]{16}", "")  # masked, as all secrets are
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_a_share_below_the_bar_fails(evalwright: Evalwright) -> None:
    recorded(evalwright, {"contains": "shipped"})
    assert evalwright("mutants", "latest", "--fail-under", "0.5").code == 0
    failed = evalwright("mutants", "latest", "--fail-under", "0.9")
    assert failed.code == 1
    assert "■" in failed.out
    assert evalwright("mutants", "latest", "--kinds", "id,negated", "--fail-under", "0.1").code == 1


def test_the_report_is_json_with_every_survivor(evalwright: Evalwright) -> None:
    recorded(evalwright, {"contains": "A-17"})
    report = evalwright("mutants", "latest", "--json", "--kinds", "id", "--kinds", "negated").json()
    assert (report["score"], report["counted"], report["noticed"]) == (0.5, 2, 1)
    assert report["kinds"]["id"] == {"counted": 1, "noticed": 1}
    (survivor,) = report["survivors"]
    assert survivor == {
        "taskId": "where",
        "kind": "negated",
        "original": "Order A-17 is shipped.",
        "damaged": "Order A-17 is not shipped.",
        "check": '- contains: "Order A-17 is shipped."',
    }
    assert report["unchecked"] == []


@pytest.mark.parametrize("judge", ["scripted:judge.json", ""])
def test_judges_are_asked_when_that_is_wanted_and_their_number_comes_first(
    evalwright: Evalwright, judge: str
) -> None:
    said = json.dumps({"c1": {"reason": "so", "met": True}})
    (evalwright.folder / "judge.json").write_text(json.dumps([{"reply": said}]))
    recorded(evalwright, {"judge": "It is polite."})
    left_out = evalwright("mutants", "latest")
    assert left_out.code == 3
    assert "judges or models have to be asked" in left_out.flat
    asked = evalwright("mutants", "latest", "--kinds", "negated", "--judge", *filter(None, [judge]))
    assert "judges are asked 1 question" in asked.err, asked.err
    assert "0 of 1 damaged answers were noticed" in asked.out


def test_options_of_judges_need_one(evalwright: Evalwright) -> None:
    recorded(evalwright, {"contains": "A-17"})
    refused = evalwright("mutants", "latest", "--judge-samples", "2")
    assert (refused.code, "--judge" in refused.err) == (2, True)


def test_the_bundled_suites_notice_nine_of_ten(evalwright: Evalwright) -> None:
    evalwright("demo")
    for run_id in evalwright.run_ids():
        done = evalwright("mutants", run_id, "--fail-under", "0.9")
        assert done.code == 0, done.out
