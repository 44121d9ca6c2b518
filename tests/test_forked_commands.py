"""Commands that tests call are forks of a process that has loaded them: do they do the same?"""

import os
import pkgutil
import re
import subprocess
import sys

import pytest

from builders import a_suite
from evalwright import cli
from subjects.command import COMMAND, Evalwright, subject
from subjects.forking import IS_POSSIBLE, the_forge
from subjects.waiting import eventually

pytestmark = pytest.mark.skipif(not IS_POSSIBLE, reason="commands are not forked here")
VARIABLE = re.compile(r"run_[0-9a-z]{26}|\d+ ms|[\d.]+ s|\b(?:run|show) \d+")
SLEEPER = """
import os, pathlib, time

def answer(task):
    pathlib.Path("pid").write_text(str(os.getpid()))
    time.sleep(600)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("run", "--help"),
        ("run", "suite.json", "--agent", subject("answers.py:yes")),
        ("run", "suite.json", "--agent", subject("answers.py:no")),
        ("run", "absent.json", "--agent", subject("answers.py:no")),
        ("run", "suite.json", "--agent", subject("answers.py:absent"), "--json"),
        ("no-such-command",),
    ],
)
def test_a_forked_command_does_what_a_real_one_does(
    evalwright: Evalwright, arguments: tuple[str, ...]
) -> None:
    evalwright.suite(a_suite())
    forked = evalwright(*arguments)
    real = subprocess.run(
        evalwright.line(*arguments),
        cwd=evalwright.folder,
        env=evalwright.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert str(COMMAND) == evalwright.line(*arguments)[0]
    assert (forked.code, masked(forked.out)) == (real.returncode, masked(real.stdout))
    assert masked(forked.err) == masked(real.stderr)


def masked(text: str) -> str:
    return VARIABLE.sub("…", text)


def test_a_forked_command_ends_with_whoever_waits_for_it(evalwright: Evalwright) -> None:
    evalwright.suite(a_suite())
    (evalwright.folder / "sleeper.py").write_text(SLEEPER)
    line = evalwright.line("run", "suite.json", "--agent", "sleeper.py:answer")[1:]
    noted = evalwright.folder / "pid"
    for seconds in (1, 4, 16, 64):  # until it has begun when nobody waits for it any more
        with pytest.raises(TimeoutError):
            the_forge().run(line, evalwright.folder, evalwright.environment(), seconds)
        if noted.exists() and noted.read_text():
            break
    pid = int(noted.read_text())
    eventually(lambda: not is_alive(pid), "the end of the command")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


ALONE = """
import importlib, os, sys

def is_ours(name): return name.partition(".")[0] in ("evalwright", "prompteval")

names = sys.argv[1:]
reading, writing = os.pipe()
if os.fork() == 0:
    for name in names:
        importlib.import_module(name)
    os.write(writing, " ".join(name for name in sys.modules if not is_ours(name)).encode())
    os._exit(0)
os.close(writing)
for name in open(reading).read().split():  # of others: once, for all of ours
    if not name.startswith("_"):
        try:
            importlib.import_module(name)
        except ImportError:
            pass
os.wait()
assert not any(map(is_ours, sys.modules))
for name in names:
    if os.fork() == 0:
        importlib.import_module(name)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(1)
"""


def test_every_command_loads_what_it_needs_itself() -> None:
    """In a fork of a process that has loaded all of it, nobody would see that it does not."""
    found = pkgutil.walk_packages(cli.__path__, f"{cli.__name__}.")
    names = [each.name for each in found if not each.name.endswith("__main__")]
    assert f"{cli.__name__}.run" in names
    line = [sys.executable, "-c", ALONE, *names]
    subprocess.run(line, capture_output=True, check=True, timeout=240)
