"""Recorded conversations beside each other, turn by turn, and as tasks again."""

import json
from pathlib import Path
from typing import Any

import yaml

import evalwright as ew
from subjects.command import Evalwright

SAID = ["I want my money back.", "It is A-17.", "Thank you."]
TURNS = [ew.turn(each) for each in SAID]
POLITE = [ew.not_(ew.contains("fool"))]


def once(turn: int, task: Any) -> str:
    if turn == 2:
        task.record_call("orders.get", {"id": "A-17"}, result={"days": 3})
    return f"answer {turn}"


def twice(turn: int, task: Any) -> str:
    if turn > 1:
        task.record_call("orders.get", {"id": "A-17"}, result={"days": 3})
    return f"answer {turn}"


def test_conversations_are_compared_turn_by_turn(tmp_path: Path) -> None:
    suite = ew.Suite("s", tasks=[ew.Task("talk", turns=TURNS, checks=POLITE)])
    runs = [ew.run(suite, each, db=tmp_path / "a.db", agent_id="acme.a") for each in (once, twice)]
    compared = ew.compare(*runs, out=tmp_path / "out")
    found = compared.report["items"][0]["first_divergence"]
    assert (found["turn"], found["new"]) == (3, "orders.get")
    assert found["reason"] == "only the new run has this step"
    (page,) = (tmp_path / "out").glob("case-*.html")
    assert "turn 3: only the new run has this step" in page.read_text()
    same = ew.compare(runs[0], runs[0])
    assert "first_divergence" not in same.report["items"][0]


def test_a_user_that_was_played_becomes_a_script(evalwright: Evalwright, tmp_path: Path) -> None:
    played = [{"when": {"turn": 2}, "json": {"say": SAID[1], "status": "going_on"}}]
    last = {"json": {"say": "Bye.", "status": "goal_reached"}}
    (tmp_path / "user.json").write_text(json.dumps([*played, last]))
    user = ew.user("Get a refund.", opening=SAID[0])
    model = f"scripted:{tmp_path / 'user.json'}"
    task = ew.Task("talk", user=user, checks=POLITE)
    run = ew.run([task], once, db=tmp_path / "log.db", user_model=model)
    made = evalwright(
        "tasks", "--from", run.id, "--db", str(tmp_path / "a.db"), "--out", "made.yaml"
    )
    assert made.code == 0, made.err
    (task,) = yaml.safe_load((tmp_path / "made.yaml").read_text())["tasks"]
    assert task["turns"] == [{"user": each} for each in SAID[:2]]
    assert task["fixtures"]["toolResponses"][0]["tool"] == "orders.get"
