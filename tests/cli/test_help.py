"""`--help` and `--version`: complete, and quick because they load next to nothing."""

import re
import shlex
import subprocess
import sys

import click
import pytest

from evalwright import __version__
from evalwright.cli.app import COMMANDS, app
from subjects.command import COMMAND, Evalwright

HEAVY = ("aiohttp", "rich", "yaml", "jsonschema_rs", "asyncio", "sqlite3", "platformdirs")


def test_the_help_lists_every_command_and_every_exit_code(evalwright: Evalwright) -> None:
    shown = evalwright("--help")
    assert (shown.code, shown.err) == (0, "")
    for name, about in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(about)}", shown.out, re.MULTILINE)
    for code in ("0 passed", "1 the bar", "2 bad", "3 could", "130 interrupted"):
        assert code in " ".join(shown.out.split())
    assert "Example" in shown.out
    assert evalwright("-h").out == shown.out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_an_example(evalwright: Evalwright, name: str) -> None:
    shown = evalwright(name, "--help")
    assert (shown.code, shown.err) == (0, "")
    assert re.search(rf"Examples?:\s+evalwright {name}\b", shown.out)
    last = shown.out.splitlines()[-1]
    assert last.startswith(("  Example: ", "  Examples: ", "    ")), "an example is broken in two"


@pytest.mark.parametrize("group", ["db", "keys", "pack"])
def test_the_commands_of_a_group_are_listed_with_whole_sentences(
    evalwright: Evalwright, group: str
) -> None:
    listed = evalwright(group, "--help").out.partition("Commands:")[2].partition("Examples:")[0]
    assert "..." not in listed


def test_the_version_is_told(evalwright: Evalwright) -> None:
    assert evalwright("--version").out == f"evalwright {__version__}\n"


def test_the_command_can_be_called_as_a_module(evalwright: Evalwright) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "evalwright", "--version"],
        env=evalwright.environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"evalwright {__version__}\n")


@pytest.mark.parametrize(
    "arguments", [[], ["nope"], ["run", "--nope"], ["runs", "--limit", "0"], ["cancel"]], ids=str
)
def test_bad_usage_is_told_on_stderr_with_exit_code_2(
    evalwright: Evalwright, arguments: list[str]
) -> None:
    shown = evalwright(*arguments)
    assert shown.code == 2
    assert "Usage: evalwright" in shown.out + shown.err


@pytest.mark.parametrize("option", ["--timeout", "--run-timeout", "--concurrency"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon"])
def test_a_limit_that_is_none_is_refused(evalwright: Evalwright, option: str, value: str) -> None:
    refused = evalwright("run", "suite.json", "--agent", "a:b", option, value)
    assert refused.code == 2
    assert option in refused.err


def test_a_limit_that_is_not_a_number_is_told_with_its_unit(evalwright: Evalwright) -> None:
    for option, unit in (("--max-cost", "dollars"), ("--timeout", "seconds")):
        refused = evalwright("run", "suite.json", "--agent", "a:b", option, "much")
        assert f"Invalid value for '{option}': 'much' is not a number of {unit}." in refused.err


@pytest.mark.parametrize(
    ("option", "imported"), [("--version", "evalwright.cli"), ("--help", "click")]
)
def test_nothing_heavy_is_imported_for(option: str, imported: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(COMMAND), option],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert imported in modules
    loaded = [name for name in modules if name.partition(".")[0] in HEAVY]
    assert loaded == []


@pytest.mark.parametrize("name", COMMANDS)
def test_what_the_examples_type_is_understood(name: str) -> None:
    """Every option of them, and every argument, in every command of a group."""
    command = app.get_command(click.Context(app), name)
    assert command is not None
    for each in (command, *getattr(command, "commands", {}).values()):
        examples = re.findall(r"evalwright [a-z][^,\n]*", (each.epilog or "").replace("\b", ""))
        for example in examples:
            typed = shlex.split(re.split(" >>? ", example)[0], comments=True)[1:]
            try:
                understand(app, typed)
            except click.UsageError as error:
                pytest.fail(f"{example}: {error.format_message()}")


def understand(group: click.Group, typed: list[str]) -> None:
    """Parse a command line as its command would, and go no further."""
    with click.Context(group) as context:
        name, command, rest = group.resolve_command(context, typed)
        assert command is not None
        if isinstance(command, click.Group):
            understand(command, rest)
        else:
            command.make_context(name, rest)


def test_many_options_stand_in_groups(evalwright: Evalwright) -> None:
    for name in COMMANDS:
        listed = evalwright(name, "--help").out.partition("Examples:")[0]
        if len(re.findall(r"^  -", listed, re.MULTILINE)) > 16:
            assert "\nOptions:" not in listed, f"{name}: add them to GROUPS of cli/help.py"
            assert "\nResults:\n" in listed
