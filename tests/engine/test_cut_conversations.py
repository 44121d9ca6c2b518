"""Conversations that a killed process left go on where they were, and nothing is paid twice."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evalwright.reports.run.conversation import conversation_of
from evalwright.store.location import opened_log

AGENT = """\
import os, pathlib, signal

ASKED = pathlib.Path("asked.txt")

def answer(task):
    said = task.messages[-1]["content"]
    with ASKED.open("a") as file:
        file.write(f"{task.turn} {said} {len(task.messages)} {task.session.get('n')}\\n")
    task.session["n"] = task.session.get("n", 0) + 1
    row = task.call_tool("notes.create", {"text": said})
    task.report_usage(provider="acme", model="m", input_tokens=10, output_tokens=1, cost_usd=0.5)
    if "three" in said and not pathlib.Path("killed").exists():
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{said} is note {row['id']}, {task.session['n']}"
"""
WORLD = {"data": {"notes": [{"id": 1}]}, "tools": {"notes.create": {"create": "notes"}}}
WHOLE = [
    {"contains": "four is note 5, 4"},
    {"state": {"path": "$.notes[*].text", "equals": ["one", "two", "three", "four"]}},
    {"max": {"turns": 4, "tokens": 44}},
    {"calls": {"tool": "notes.create", "times": 4}},
]
SCRIPTED = {
    "turns": [
        {"user": "one", "checks": [{"contains": "one is note 2, 1"}]},
        *({"user": each} for each in ("two", "three", "four")),
    ]
}
PLAYED = {"user": {"goal": "Count.", "opening": "one", "max_turns": 4}}
USER = [
    {"when": {"turn": number}, "json": {"say": word, "status": "going_on"}}
    for number, word in ((2, "two"), (3, "three"), (4, "four"))
]


def evalwright(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evalwright", *args, "--db", "a.db"]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("task", [SCRIPTED, PLAYED])
def test_a_killed_run_goes_on_at_the_turn_where_it_stopped(
    task: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "user.json").write_text(json.dumps(USER))
    suite = {
        "evalwright": 1,
        "worlds": {"w": WORLD},
        "tasks": [{"id": "t", "world": "w", "checks": WHOLE, **task}],
    }
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    options = ["--agent", "agent.py:answer", "--user-model", "scripted:user.json"]
    killed = evalwright(tmp_path, "run", "suite.json", *options)
    assert killed.returncode < 0
    resumed = evalwright(tmp_path, "run", "--resume", "latest")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert (tmp_path / "asked.txt").read_text().splitlines() == [
        "1 one 1 None",
        "2 two 3 1",
        "3 three 5 2",
        "3 three 5 2",
        "4 four 7 3",
    ]
    with opened_log(str(tmp_path / "a.db")) as log:
        (run_id,) = log.run_ids()
        events = [each for each in log.read(run_id) if each.task_id == "t"]
    started = [each.payload() for each in events if each.type == "agent.invocation.started"]
    assert [each.get("continues") for each in started] == [None, "inv-0001"]
    said = [each.payload()["text"] for each in events if each.type == "evalwright.userSaid"]
    assert said == (["one", "two", "three", "four"] if "user" in task else [])
    scored = next(each.payload() for each in events if each.type == "eval.scored")
    assert scored["passed"]
    told = [each.text for each in conversation_of([], events) if each.kind == "agent"]
    assert [each.partition(" ")[0] for each in told] == ["one", "two", "three", "four"]
    again = evalwright(tmp_path, "rescore", run_id)
    assert again.returncode == 0, again.stdout + again.stderr
