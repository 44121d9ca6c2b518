"""`--agent module:callable` and `path/file.py:callable`: what loads, what does not, and why."""

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from builders import a_suite
from evalwright.agents.load import load_agent
from evalwright.agents.python import callable_agent
from evalwright.contracts.errors import AgentBroken, BadInput
from subjects.command import Evalwright
from subjects.runs import Workshop

AGENTS = """
import asyncio
import functools

def plain(task):
    return "yes"

async def later(task):
    await asyncio.sleep(0)
    return "yes"

class Desk:
    def __init__(self, answer):
        self.answer = answer
    def method(self, task):
        return self.answer
    async def async_method(self, task):
        return self.answer
    def __call__(self, task):
        return self.answer
    @classmethod
    def of_class(cls, task):
        return "yes"
    @staticmethod
    async def static(task):
        return "yes"

class AsyncDesk:
    async def __call__(self, task):
        await asyncio.sleep(0)
        return "yes"

desk = Desk("yes")
async_desk = AsyncDesk()

def with_answer(answer, task):
    return answer

async def with_answer_later(answer, task):
    return answer

partial = functools.partial(with_answer, "yes")
async_partial = functools.partial(with_answer_later, "yes")
partial_of_partial = functools.partial(functools.partial(with_answer_later), "yes")
partial_of_async_instance = functools.partial(async_desk)

def traced(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

def awaited(function):
    @functools.wraps(function)
    async def wrapper(*args):
        return await function(*args)
    return wrapper

def made_sync(function):
    @functools.wraps(function)
    def wrapper(task):
        return asyncio.run(function(task))
    return wrapper

def made_async(function):
    @functools.wraps(function)
    async def wrapper(task):
        return function(task)
    return wrapper

decorated = traced(plain)
decorated_async = traced(later)
decorated_twice = traced(awaited(traced(later)))
async_made_sync = made_sync(later)
sync_made_async = made_async(plain)
lambda_agent = lambda task: "yes"

plain.nested = desk
"""

NAMES = [
    "plain",
    "later",
    "desk",
    "desk.method",
    "desk.async_method",
    "Desk.of_class",
    "Desk.static",
    "async_desk",
    "partial",
    "async_partial",
    "partial_of_partial",
    "partial_of_async_instance",
    "decorated",
    "decorated_async",
    "decorated_twice",
    "async_made_sync",
    "sync_made_async",
    "lambda_agent",
    "plain.nested.method",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder a user is in; what is loaded from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(path: Path, source: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(source))


@pytest.mark.parametrize("name", NAMES)
def test_whatever_can_be_called_with_a_task_is_an_agent(
    workshop: Workshop, folder: Path, name: str
) -> None:
    write(folder / "desk_agents.py", AGENTS)
    recording = workshop.run(a_suite(tasks=2), load_agent(f"desk_agents.py:{name}"))
    assert recording.summary.passed_count == 2, recording.decision("task-1")


@pytest.mark.parametrize(
    ("ref", "agent_id"),
    [
        ("rooms/desk.py:answer", "local.desk.answer"),
        ("./rooms/desk.py:answer", "local.desk.answer"),
        ("rooms.desk:answer", "local.rooms.desk.answer"),
        ("top:answer", "local.top.answer"),
    ],
)
def test_modules_and_files_are_found_from_here(
    workshop: Workshop, folder: Path, ref: str, agent_id: str
) -> None:
    source = "from datetime import date\ndef answer(task): return 'yes'"
    write(folder / "rooms" / "desk.py", source)
    write(folder / "top.py", source)
    agent = load_agent(ref)
    assert (agent.agent_id, agent.ref, agent.model_class) == (agent_id, ref, None)
    assert workshop.run(a_suite(tasks=1), agent).summary.passed


def test_a_file_may_import_its_neighbours(workshop: Workshop, folder: Path) -> None:
    write(folder / "rooms" / "phrases.py", "YES = 'yes'")
    write(folder / "rooms" / "front.py", "import phrases\ndef answer(task): return phrases.YES")
    agent = load_agent(str(folder / "rooms" / "front.py") + ":answer")
    assert workshop.run(a_suite(tasks=1), agent).summary.passed


def test_a_file_may_hold_what_looks_itself_up(workshop: Workshop, folder: Path) -> None:
    """Dataclasses and pickles find their module by its name."""
    write(
        folder / "ticket_desk.py",
        """
        from __future__ import annotations
        import pickle
        from dataclasses import dataclass, KW_ONLY

        @dataclass
        class Ticket:
            _: KW_ONLY
            text: str

        def answer(task):
            return pickle.loads(pickle.dumps(Ticket(text="yes"))).text
        """,
    )
    agent = load_agent("ticket_desk.py:answer")
    recording = workshop.run(a_suite(tasks=1), agent)
    assert recording.failure is None, recording.failure


def test_a_callable_may_say_who_it_is(folder: Path) -> None:
    write(
        folder / "named_desk.py",
        """
        class Desk:
            agent_id = "acme.clerk"
            model_class = "reasoning"
            def __call__(self, task): return "yes"
        desk = Desk()
        """,
    )
    own = load_agent("named_desk.py:desk")
    assert (own.agent_id, own.model_class) == ("acme.clerk", "reasoning")
    said = load_agent("named_desk.py:desk", "acme.other", "general")
    assert (said.agent_id, said.model_class) == ("acme.other", "general")


BAD: dict[str, str] = {
    "agent": "write module:callable",
    "": "write module:callable",
    ":": "write module:callable",
    ":answer": "write module:callable",
    "top:": "name the function: top:answer",
    "top.py": "name the function: top.py:answer",
    "top.py:": "name the function: top.py:answer",
    "empty.py": "name a function in it as empty.py:NAME; it has none yet",
    "nowhere:answer": "no module 'nowhere'",
    "rooms.nowhere:answer": "no module 'rooms.nowhere'",
    "top.nowhere:answer": "no module 'top.nowhere'",
    ".relative:answer": "no module '.relative'",
    "nowhere.py:answer": "no file nowhere.py",
    "rooms/nowhere.py:answer": "no file rooms/nowhere.py",
    "rooms:answer": "no 'answer'",
    "top:answr": "no 'answr' (it has: answer)",
    "top:answer.nothing": "no 'answer.nothing'",
    "top:TEXT": "not a function",
    "top:Clerk": "not a function",
}


@pytest.mark.parametrize(("ref", "why"), BAD.items())
def test_a_reference_that_leads_nowhere_is_bad_input(folder: Path, ref: str, why: str) -> None:
    write(folder / "top.py", "TEXT = 'x'\nclass Clerk: pass\ndef answer(task): return 'yes'")
    write(folder / "rooms" / "__init__.py", "")
    write(folder / "empty.py", "")
    with pytest.raises(BadInput) as raised:
        load_agent(ref)
    assert raised.value.exit_code == 2
    assert "agent" in str(raised.value)
    assert why in str(raised.value)


BROKEN: dict[str, tuple[str, str]] = {
    "a missing dependency": ("import not_installed_here", "not_installed_here"),
    "a syntax error": ("def answer(task) return 'yes'", "SyntaxError"),
    "an exception": ("1 / 0", "ZeroDivisionError"),
    "an exit": ("import sys; sys.exit(0)", "SystemExit"),
    "an import of itself that fails": ("raise ImportError('half installed')", "half installed"),
}


@pytest.mark.parametrize("where", ["file", "module", "package", "parent package"])
@pytest.mark.parametrize("kind", BROKEN)
def test_an_agent_whose_own_code_fails_while_it_is_loaded_is_broken(
    folder: Path, kind: str, where: str
) -> None:
    source, why = BROKEN[kind]
    paths = {
        "file": ("broken_desk.py", "broken_desk.py:answer"),
        "module": ("broken_desk.py", "broken_desk:answer"),
        "package": ("broken_desk/__init__.py", "broken_desk:answer"),
        "parent package": ("broken_desk/__init__.py", "broken_desk.front:answer"),
    }
    name, ref = paths[where]
    write(folder / name, source)
    if where == "parent package":
        write(folder / "broken_desk" / "front.py", "def answer(task): return 'yes'")
    with pytest.raises(AgentBroken) as raised:
        load_agent(ref)
    assert raised.value.exit_code == 3
    told = str(raised.value)
    assert "failed while loading" in told
    assert why in told
    assert f'File "{name}", line 1' in told
    assert "importlib" not in told
    assert "evalwright/agents" not in told


def test_the_command_leaves_with_2_or_3_before_anything_is_written(evalwright: Evalwright) -> None:
    suite = evalwright.suite()
    write(evalwright.folder / "broken.py", "import not_installed_here")
    nowhere = evalwright("run", suite, "--agent", "nowhere:answer")
    broken = evalwright("run", suite, "--agent", "broken.py:answer", "--json", "--out", "a/b")
    missing = evalwright("run", suite)
    assert (nowhere.code, broken.code, missing.code) == (2, 3, 2)
    assert "no module 'nowhere'" in nowhere.err
    assert "not_installed_here" in broken.err
    assert "--agent" in missing.err
    assert nowhere.out == broken.out == missing.out == ""
    assert not evalwright.db.exists()
    assert not (evalwright.folder / "a").exists()


def test_an_agent_is_given_its_task(workshop: Workshop, folder: Path) -> None:
    seen: list[Any] = []

    def agent(task: Any) -> str:
        seen.append((task.id, task.input))
        return "yes"

    workshop.run(a_suite(tasks=2), agent, concurrency=1)
    assert seen == [("task-1", "What is the answer?"), ("task-2", "What is the answer?")]


def test_a_function_of_a_file_is_referred_to_as_the_command_line_would(tmp_path, monkeypatch):
    (tmp_path / "own_desk.py").write_text("def answer(task):\n    return 'Hello'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    from own_desk import answer  # type: ignore[import-not-found]

    loaded = load_agent("own_desk.py:answer")
    given = callable_agent(answer)
    assert (given.ref, given.agent_id) == (loaded.ref, loaded.agent_id)
    inner = callable_agent(lambda task: answer(task) + "!")
    assert inner.ref.startswith(f"{__name__}:")
    assert callable_agent(functools.partial(answer)).agent_id == loaded.agent_id
