"""Agents of all kinds in conversations: what lasts from turn to turn, and what is begun anew."""

import os
import shlex
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import evalwright as ew

TURNS = [
    ew.turn("a", checks=[ew.equals("a1")]),
    ew.turn("b", checks=[ew.equals("b2")]),
    ew.turn("c", checks=[ew.equals("c3")]),
]


def talks(**fields: Any) -> list[ew.Task]:
    return [ew.Task(name, turns=TURNS, **fields) for name in ("one", "two")]


class Clerk:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, message: str) -> str:
        self.count += 1
        return f"{message}{self.count}"


class AsyncClerk(Clerk):
    async def __call__(self, message: str) -> str:  # type: ignore[override]
        return super().__call__(message)


def by_generator() -> Iterator[Any]:
    count, message = 0, (yield)
    while True:
        count += 1
        message = yield f"{message}{count}"


async def by_async_generator(task: Any) -> AsyncIterator[Any]:
    message = yield
    while True:
        message = yield f"{message}{task.turn}"


def by_session(message: str, session: dict[str, Any]) -> str:
    session["count"] = session.get("count", 0) + 1
    return f"{message}{session['count']}"


def by_objects(message: str, session: dict[str, Any]) -> str:
    session.setdefault("said", set()).add(message)
    return f"{message}{len(session['said'])}"


@pytest.mark.parametrize(
    "agent",
    [Clerk, AsyncClerk, by_generator, by_async_generator, by_session, by_objects],
)
@pytest.mark.parametrize("isolate", [False, True])
def test_an_agent_in_python_keeps_its_state(agent: Any, isolate: bool) -> None:  # noqa: FBT001
    single = ew.Task("single", input={"message": "x"}, checks=[ew.equals("x1")])
    tasks = [*talks(), single] if agent is Clerk and not isolate else talks()
    run = ew.run(tasks, agent, isolate=isolate)
    assert run.passed, run.report()


def test_a_generator_that_ends_too_soon_fails() -> None:
    def short() -> Iterator[Any]:
        message = yield
        yield f"{message}1"

    run = ew.run([*talks(), ew.Task("brief", turns=TURNS[:1])], short)
    assert run.tasks["brief"].passed
    assert "generator has ended" in run.tasks["one"].error["message"]


def test_a_world_and_what_was_used_reach_an_isolated_agent_in_all_turns() -> None:
    shop = ew.world("w", data={"notes": []}, tools={"note": {"create": "notes"}})
    checks = [ew.state("$.notes[*].text", equals=["a", "b", "c"]), ew.at_most(tokens=6)]
    run = ew.run(talks(world=shop, checks=checks), noting, isolate=True)
    assert run.passed, run.report()


def noting(message: str, turn: int, task: Any) -> str:
    task.call_tool("note", {"text": message})
    task.report_usage(provider="a", model="m", input_tokens=1, output_tokens=1)
    return f"{message}{turn}"


def test_an_isolated_agent_that_ends_its_process_fails_and_the_next_one_is_asked() -> None:
    brief = ew.Task("brief", turns=TURNS[:1])
    run = ew.run([*talks(), brief], leaving, isolate=True, concurrency=1)
    for name in ("one", "two"):
        assert "the agent's process ended" in run.tasks[name].error["message"]
    assert run.tasks["brief"].passed


def leaving(turn: int, message: str) -> str:
    if turn == 2:
        os._exit(3)
    return f"{message}{turn}"


LOOP = """\
import json, os, sys
count = 0
for line in sys.stdin:
    request = json.loads(line)
    count += 1
    print(json.dumps({"output": f"{request['input']}{count}"}), flush=True)
    open("pids.txt", "a").write(f"{request['conversation']['id']} {os.getpid()}\\n")
"""
ONE_LINE = """\
import json, sys
request = json.loads(sys.stdin.readline())
print(json.dumps({"output": f"{request['input']}{request['conversation']['turn']}"}))
"""
TO_THE_END = ONE_LINE.replace("json.loads(sys.stdin.readline())", "json.load(sys.stdin)")
INDENTED = ONE_LINE.replace('"}))', '"}, indent=2))')


@pytest.mark.parametrize("program", [LOOP, ONE_LINE, TO_THE_END, INDENTED])
def test_a_command_is_given_a_line_for_each_turn(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text(program)
    run = ew.run(talks(), f"cmd:{shlex.join([sys.executable, 'agent.py'])}")
    assert run.passed, run.report()
    if program is LOOP:
        told = {*Path("pids.txt").read_text().splitlines()}
        assert len(told) == 2, "a process for each conversation"


def test_a_command_that_fails_in_a_turn_fails_the_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text(LOOP.replace("count += 1", "count += 1; assert count < 2, 'tired'"))
    tasks = [*talks(), ew.Task("brief", turns=TURNS[:1])]
    run = ew.run(tasks, f"cmd:{shlex.join([sys.executable, 'agent.py'])}")
    message = run.tasks["one"].error["message"]
    assert "exit code 1" in message
    assert "tired" in message
    assert run.tasks["brief"].passed
