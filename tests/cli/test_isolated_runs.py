"""`run --isolate`: nothing an agent does keeps the run, and no process stays after it."""

import signal
from pathlib import Path

import pytest

from builders import a_suite, a_task
from subjects import logs
from subjects.command import Evalwright, subject
from subjects.waiting import Journal, eventually, is_gone

HOLDING = """\
import os, re, sys
sys.path.insert(0, {subjects!r})
from journal import note

def answer(task):
    note(f"{{os.getpid()}}")
    if task.input == "hold":
        re.match(r"(a+)+$", "a" * 40 + "b")
    return "yes"
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_leaves_no_process_and_goes_on_from_its_log(
    evalwright: Evalwright, journal: Journal, stop: signal.Signals
) -> None:
    code = HOLDING.format(subjects=str(Path(subject("."))))
    (evalwright.folder / "agent.py").write_text(code)
    suite = evalwright.suite(a_suite([a_task("task-1"), a_task("task-2", input="hold")]))
    run = evalwright.start(
        "run", suite, "--agent", "agent.py:answer", "--isolate", "--concurrency", "1",
        env=journal.environment,
    )  # fmt: skip
    eventually(lambda: len(journal.lines()) == 2, "the second task")
    run.send_signal(stop)
    ended = evalwright.finish(run)
    assert ended.code == (-9 if stop == signal.SIGKILL else 130)
    for process in set(journal.lines()):
        eventually(lambda p=int(process): is_gone(p), f"the end of {process}")
    (evalwright.folder / "agent.py").write_text(code.replace('"hold"', '"never"'))
    resumed = evalwright("run", "--resume", "latest", env=journal.environment)
    assert resumed.code == 0, resumed.err
    # A task that was scored is not asked again; the last score before a kill may not be in the log.
    assert len(journal.lines()) in ((3, 4) if stop == signal.SIGKILL else (3,))
    logs.assert_complete(evalwright.events())


def test_suites_and_settings_ask_for_isolation_as_well(
    evalwright: Evalwright, journal: Journal
) -> None:
    (evalwright.folder / "agent.py").write_text(
        "import os\n\ndef answer(task):\n    os._exit(0) if task.id == 'task-1' else None\n"
        "    return 'yes'\n"
    )
    wide = {
        "evalwright": 1,
        "name": "a",
        "agent": {"ref": "agent.py:answer", "isolate": True},
        "tasks": [{"id": f"task-{n}", "input": "", "checks": [{"equals": "yes"}]} for n in (1, 2)],
    }
    ended = "the agent's process ended: exit code 0"
    ran = evalwright("run", evalwright.suite(wide, "wide.json"))
    assert (ran.code, ended in ran.out) == (1, True)
    (evalwright.folder / "evalwright.toml").write_text("isolate = true\n")
    suite = evalwright.suite(a_suite(tasks=2))
    ran = evalwright("run", suite, "--agent", "agent.py:answer")
    assert (ran.code, ended in ran.out) == (1, True)
    ran = evalwright("run", suite, "--agent", "cmd:false")
    assert "--isolate" not in ran.err  # the settings mean what can be isolated
    ran = evalwright("run", suite, "--agent", "cmd:false", "--isolate")
    assert ran.code == 2
    assert "--isolate is for agents in Python" in ran.err
