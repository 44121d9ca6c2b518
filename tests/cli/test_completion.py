"""Shells complete commands, options and their values."""

import shutil
import subprocess
import sys

import pytest

from effort import takes_at_most
from evalwright.cli.app import COMMANDS
from evalwright.cli.completion import SHELLS
from subjects.command import COMMAND, Evalwright

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
TYPED = """
source <("$0" completion bash)
evalwright() { :; }
export PATH="$(dirname "$0"):$PATH"
unset -f evalwright
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
function=$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function" "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def typed(evalwright: Evalwright, *words: str) -> list[str]:
    """What bash offers for a line that was typed so far."""
    done = subprocess.run(
        ["bash", "-c", TYPED, str(COMMAND), *words],
        cwd=evalwright.folder,
        env=evalwright.environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@needs_bash
def test_bash_completes_commands_options_and_values(evalwright: Evalwright) -> None:
    assert typed(evalwright, "evalwright", "ru") == ["run", "runs"]
    assert typed(evalwright, "evalwright", "run", "--jud") == ["--judge", "--judge-samples"]
    assert typed(evalwright, "evalwright", "run", "--flaky-as", "") == ["fail", "warn"]
    assert typed(evalwright, "evalwright", "db", "pru") == ["prune"]
    assert "--list-models" in typed(evalwright, "prompteval", "--li")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_variable_of_the_library_gives_the_same_script(
    evalwright: Evalwright, shell: str
) -> None:
    asked = subprocess.run(
        [str(COMMAND)],
        env=evalwright.environment({"_EVALWRIGHT_COMPLETE": f"{shell}_source"}),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    ).stdout
    assert "_EVALWRIGHT_COMPLETE" in asked
    assert evalwright("completion", shell).out.startswith(asked.rstrip("\n"))


@pytest.mark.parametrize("command", ["run", "show"])
def test_options_are_completed_without_loading_what_the_command_does(command: str) -> None:
    code = f"import sys, evalwright.cli.{command}; print(*sys.modules)"
    asked = [sys.executable, "-c", code]
    loaded = subprocess.run(asked, capture_output=True, text=True, timeout=240, check=True).stdout
    assert f"evalwright.cli.{command}" in loaded
    assert "evalwright.engine" not in loaded
    assert "evalwright.store" not in loaded


def test_commands_are_completed_without_loading_any() -> None:
    from evalwright.cli.app import app

    context = app.make_context("evalwright", [], resilient_parsing=True)
    found: list[str] = []
    assert takes_at_most(
        0.02, lambda: found.extend(item.value for item in app.shell_complete(context, ""))
    )
    assert found[: len(COMMANDS)] == list(COMMANDS)
