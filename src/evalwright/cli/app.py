"""The table of commands, each loaded when it is called, and the way out of every error."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from evalwright import __version__
from evalwright.cli.help import HelpContext
from evalwright.cli.output import (
    in_words,
    prepare_streams,
    print_exit,
    say,
    without_secrets,
)
from evalwright.contracts.errors import EvalwrightError, InvalidDocument

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "run": "Run a suite against an agent, or resume a run.",
    "runs": "List the runs in the log.",
    "show": "Show a run: scorecard, failures in full, events.",
    "replay": "Rebuild a run's summary from its log; nothing is invoked.",
    "rescore": "Score the recorded answers of a run again; nothing is invoked.",
    "score": "Score recorded traces by a suite; nothing is invoked.",
    "power": "Say how small a drop a suite finds, and what more would take.",
    "calibrate": "Say how good the judges of a run are, and correct its pass rate.",
    "mutants": "Damage recorded answers on purpose: would the suite notice?",
    "tasks": "Make a suite, with fixtures, from recorded traces.",
    "diff": "Show where two runs differ.",
    "baseline": "Name the runs that others are compared with.",
    "compare": "Compare two runs: causes, signals, a report folder and a gate.",
    "signals": "Find security signals in recorded traces.",
    "prompts": "Evaluate prompt files, from a linter to a panel of judges.",
    "validate": "Check suites, summaries, event logs and report folders.",
    "export": "Write a suite in a form that other tools read.",
    "schema": "Print the JSON Schemas that documents are checked by.",
    "attack": "Derive an adversarial suite from another suite.",
    "pack": "Build, verify and install packs of agents and suites.",
    "trust": "Let the evalwright.toml in a folder count.",
    "keys": "Create, list and revoke the keys of the host.",
    "db": "Look after the event log: check, back up, prune, move runs.",
    "view": "Open the log in the browser: runs, scorecards, traces.",
    "serve": "Serve evaluation runs over HTTP, for many tenants.",
    "worker": "Work on the tasks of runs that were handed to the fleet.",
    "cancel": "Cancel a run that has not ended.",
    "mcp": "Serve the log to coding agents, read-only, over MCP.",
    "completion": "Print the script that completes commands in a shell.",
    "init": "Write a small suite and agent that run as they are.",
    "demo": "Run the bundled suites against the bundled agents.",
}
MOST_PROBLEMS = 50
COULD_NOT = 3  # evaluate


class Commands(click.Group):
    """Commands by name; `--help` lists them without loading any."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"evalwright.cli.{cmd_name}").command
        for each in (command, *getattr(command, "commands", {}).values()):
            each.context_class = HelpContext
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The commands that begin so, from the table alone: a shell asks at every key."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=about)
            for name, about in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the command that was probably meant."""
        if args[0] not in COMMANDS:
            from difflib import get_close_matches

            for near in get_close_matches(args[0], COMMANDS, 1):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=Commands,
    name="evalwright",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: evalwright run suite.yaml --agent agent.py:answer",
)
@click.version_option(__version__, message="evalwright %(version)s")
def app() -> None:
    """Is this agent good enough to ship?

    Evalwright runs evaluation suites against agents, records every run in one event log, and
    turns logs into scorecards and gates.

    Exit codes: 0 passed, 1 the bar was not met, 2 bad usage or input, 3 could not evaluate,
    130 interrupted (resumable).
    """


def run_app(program: str = "evalwright") -> int:
    """Run a command and turn whatever comes of it into an exit code."""
    prepare_streams()
    try:
        command = app if program == "evalwright" else program_command(program)
        with command.make_context(program, sys.argv[1:]) as context:
            code = command.invoke(context)
        return code if isinstance(code, int) else 0  # it has said what it means
    except click.exceptions.Exit as request:  # --help and the like
        return request.exit_code
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and error.message and error.ctx is not None:
            path = error.ctx.command_path
            say(f"{error.ctx.get_usage()}\nTry '{path} -h' for help.\n")
            say(f"Error: {error.format_message()}")
        else:
            error.show()
        failed = error.exit_code
    except (click.Abort, KeyboardInterrupt) as stopped:
        complain(": ".join(filter(None, ("interrupted", str(stopped)))), program)
        failed = 130
    except EvalwrightError as error:
        words = "\n".join([_message(error), *getattr(error, "__notes__", ())])
        # What an agent, a provider or a file said may hold anything; bad usage is the user's own.
        is_quoted = error.exit_code == COULD_NOT or isinstance(error, InvalidDocument)
        complain(without_secrets(words) if is_quoted else words, program)
        failed = error.exit_code
    except BaseException as error:  # noqa: BLE001 - a crash must not leave with 1: "evaluated"
        import traceback

        whose = ", or ".join(["this is a bug in Evalwright", *getattr(error, "__notes__", ())])
        say(without_secrets(traceback.format_exc().rstrip()))
        complain(f"{whose}; what was recorded is kept", program)
        failed = 3
    return print_exit(failed, aside=True)


def program_command(program: str) -> click.Command:
    """What a program does: all commands, or that of `prompteval`."""
    if program == "evalwright":
        return app
    from evalwright.cli.prompts import command

    return command


def complain(message: str, program: str = "evalwright") -> None:
    """Say what went wrong, on stderr."""
    say(f"{program}: {message}")


def _message(error: EvalwrightError) -> str:
    if isinstance(error, InvalidDocument) and len(error.problems) > MOST_PROBLEMS:
        first = InvalidDocument(error.name, error.problems[:MOST_PROBLEMS])
        return f"{in_words(first)}\n… and {len(error.problems) - MOST_PROBLEMS} more problems"
    return in_words(error)
