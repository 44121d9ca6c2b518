"""Isolated agents: their code runs in other processes, and all that they may do works there."""

import os
from pathlib import Path
from typing import Any

import pytest

import evalwright as ew
from evalwright.agents.isolation import frames
from subjects import thorough
from subjects.command import SUBJECTS
from subjects.waiting import eventually, is_gone

ANY = ew.not_(ew.equals("?"))
FIXTURES = {
    "toolResponses": [
        {"tool": "shop:orders.get", "response": {"state": "sent"}},
        {"tool": "shop:find", "response": "two socks"},
    ],
    "memorySeed": [{"id": "m1", "content": "likes socks"}],
}
VOLATILE = {"latencyMs", "durationMs", "runId", "eventId", "timestamp", "causationId"}


def settled(value: Any) -> Any:
    """A log without what differs between any two runs."""
    if isinstance(value, dict):
        return {name: settled(each) for name, each in value.items() if name not in VOLATILE}
    return [settled(each) for each in value] if isinstance(value, list) else value


def seen(report: Any) -> Any:
    """All that a report says of a task, but for the time it took."""
    calls = [settled(dict(call)) for call in report.calls]
    return (
        report.output,
        report.error,
        calls,
        dict(report.usage),
        report.coverage,
        [(each.passed, each.reason) for each in report.checks],
    )


@pytest.mark.parametrize("name", ["do_everything", "do_everything_async"])
def test_a_log_of_an_isolated_agent_says_what_it_says_of_the_same_agent_in_process(
    tmp_path: Path, name: str
) -> None:
    tasks = [
        ew.Task(each, input={"id": each}, fixtures=FIXTURES, checks=[ew.calls("shop:orders.get")])
        for each in ("good", "bad")
    ]
    agent = f"{SUBJECTS}/thorough.py:{name}"
    here, isolated = (
        ew.run(tasks, agent, db=tmp_path / f"{isolate}.db", isolate=isolate)
        for isolate in (False, True)
    )
    for task in ("good", "bad"):
        assert seen(isolated.tasks[task]) == seen(here.tasks[task])
    assert isolated.tasks["good"].passed
    assert "ValueError: a bad order" in str(isolated.tasks["bad"].error)


def test_live_tools_are_called_by_the_run(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import os\n\n\ndef get(id: str) -> int:\n"
        "    '''The process that is asked.'''\n    return os.getpid()\n"
    )
    (tmp_path / "tools.yaml").write_text(
        "tools:\n  - name: shop:orders.get\n    python: shop.py:get\n"
    )
    (tmp_path / "agent.py").write_text(
        "import os\n\n\ndef answer(task):\n"
        "    return [task.call_tool('shop:orders.get', {'id': '1'}), os.getpid()]\n"
    )
    task = ew.Task("t", input="", checks=[ew.calls("shop:orders.get")])
    told = ew.run(
        [task], f"{tmp_path}/agent.py:answer", db=tmp_path / "log.db", isolate=True,
        modes=["live-shadow"], tools=str(tmp_path / "tools.yaml"),
    ).tasks["t"]  # fmt: skip
    assert told.passed
    assert told.output[0] == os.getpid()
    assert told.output[1] != os.getpid()


ENDS = {
    "exit": "the agent's process ended: exit code 0",
    "leave": "SystemExit: 0",
    "crash": "the agent's process ended: killed by SIGSEGV",
    "interrupt": "the agent's process ended: killed by SIGINT",
    "be killed": "killed by SIGKILL, as the system does where memory runs out",
    "close": "has closed its connection to the run",
}


def a_task(what: str, check: Any = ANY) -> ew.Task:
    return ew.Task(what.replace(" ", "-"), input=what, checks=[check])


@pytest.mark.parametrize("agent", [thorough.attack, thorough.attack_async])
def test_what_an_agent_does_to_its_process_fails_its_task_and_no_other(
    tmp_path: Path, agent: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    inputs = ["nothing", *ENDS, "stop", "nothing more"]
    tasks = [a_task(each, ew.regex("in [0-9]+$")) for each in inputs]
    run = ew.run(tasks, agent, db=tmp_path / "log.db", isolate=True, concurrency=2)
    for what, words in ENDS.items():
        told = run.tasks[what.replace(" ", "-")]
        assert not told.passed
        assert words in told.error["message"]
    assert [run.tasks[each].passed for each in ("nothing", "stop", "nothing-more")] == [True] * 3
    assert "Traceback" not in capfd.readouterr().err


def test_an_answer_that_the_run_cannot_hold_fails_its_task_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MOST_FROM_PROCESS", 1024**2)
    (tmp_path / "agent.py").write_text("def answer(task):\n    return 'a' * int(task.input)\n")
    tasks = [ew.Task(each, input=each, checks=[ANY]) for each in ("1000000", "2000000", "3")]
    run = ew.run(tasks, f"{tmp_path}/agent.py:answer", db=tmp_path / "log.db", isolate=True)
    assert [run.tasks[task.id].passed for task in tasks] == [True, False, True]
    assert "sent more than 1 MiB at once" in run.tasks["2000000"].error["message"]


def test_a_process_is_warm_for_the_next_task_and_none_is_left(tmp_path: Path) -> None:
    inputs = ["one", "leave a process", "two", "fork", "three"]
    tasks = [ew.Task(f"t{n}", input=each, checks=[ANY]) for n, each in enumerate(inputs)]
    run = ew.run(tasks, thorough.attack, db=tmp_path / "log.db", isolate=True, concurrency=1)
    told = [run.tasks[f"t{n}"].output for n in range(len(inputs))]
    processes = {int(words.split()[-1]) for words in told if " in " in words}
    assert len(processes) == 1
    for process in {*processes, int(told[1].split()[-1])}:
        eventually(lambda p=process: is_gone(p), f"the end of {process}")


def test_an_agent_that_holds_the_interpreter_is_killed_when_its_time_is_up(tmp_path: Path) -> None:
    tasks = [a_task("hold"), a_task("nothing")]
    run = ew.run(
        tasks, thorough.attack, db=tmp_path / "log.db", isolate=True, concurrency=1,
        task_timeout_s=2,
    )  # fmt: skip
    assert run.tasks["hold"].error["code"] == "agent_timeout"
    assert run.tasks["nothing"].passed


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import os; os._exit(0)", "ended its process while it was loaded: exit code 0"),
        ("def other(task): ...", "has no 'answer' (it has: other)"),
    ],
)
def test_an_agent_that_cannot_be_loaded_is_refused_as_in_process(
    tmp_path: Path, code: str, words: str
) -> None:
    (tmp_path / "agent.py").write_text(code)
    suite = [ew.Task("t", input="", checks=[ANY])]
    with pytest.raises(ew.EvalwrightError, match=words.replace("(", r"\(").replace(")", r"\)")):
        ew.run(suite, f"{tmp_path}/agent.py:answer", db=tmp_path / "log.db", isolate=True)


@pytest.mark.parametrize("agent", [lambda task: "yes", thorough.ew.Task, "http://127.0.0.1:1/"])
def test_what_no_other_process_can_load_is_refused(tmp_path: Path, agent: Any) -> None:
    suite = [ew.Task("t", input="", checks=[ANY])]
    with pytest.raises(ew.EvalwrightError):
        ew.run(suite, agent, db=tmp_path / "log.db", isolate=True)
