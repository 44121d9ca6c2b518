"""Agents of the operator in processes of their own: what one does there stops nobody else."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import a_suite, a_task
from host.server import AGENTS, ServedHost, running_host
from subjects.waiting import eventually

HELD, MISSING = "acme.held", "acme.missing"

# `PyDLL` calls C without letting go of the interpreter, as `re` does.
AGENT = """
import ctypes, os
from pathlib import Path

def answer(task):
    if task.input == "wait":
        Path(__file__).with_name("held").write_text(f"{os.getpid()}\\n")
        ctypes.PyDLL(None).usleep(60_000_000)
    return "yes"
"""


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedHost]:
    (tmp_path / "agent.py").write_text(AGENT)
    isolated = {
        HELD: {"ref": f"{tmp_path}/agent.py:answer", "isolate": True},
        MISSING: {"ref": f"{tmp_path}/missing.py:answer", "isolate": True},
    }
    settings = {"agents": AGENTS | isolated, "task_timeout_s": 1.0}
    with running_host(tmp_path / "host.db", settings=settings) as served:
        yield served


def test_an_isolated_agent_that_holds_the_interpreter_is_killed_and_stops_nobody(
    served: ServedHost, tmp_path: Path
):
    mine, others = served.caller(), served.caller("globex")
    suite = a_suite([a_task("one"), a_task("two", input="wait")])
    run_id = mine.start(suite, HELD)
    held = tmp_path / "held"
    process = eventually(lambda: held.exists() and held.read_text().strip(), "a held agent")
    assert int(process) != os.getpid()
    others.evaluate(a_suite(2))
    told = str([frame.data for frame in mine.frames(run_id)])
    assert "agent_timeout" in told
    assert "run.completed" in told
    eventually(lambda: not is_there(int(process)), "the end of the held process")


def test_why_an_isolated_agent_cannot_be_loaded_is_told_to_the_operator_alone(
    served: ServedHost, caplog: pytest.LogCaptureFixture
):
    caller = served.caller()
    frames = caller.frames(caller.start(a_suite(1), MISSING))
    told = str([frame.data for frame in frames])
    assert f"agent {MISSING} cannot be loaded; ask the operator of the host" in told
    assert "missing.py" not in told
    assert "there is no file" in caplog.text
