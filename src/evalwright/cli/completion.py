"""`evalwright completion`: the script that makes a shell complete commands, options and files."""

import click
from click.shell_completion import get_completion_class, shell_complete

from evalwright.cli.app import program_command
from evalwright.cli.output import echo

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """\b
Examples:
  evalwright completion bash >> ~/.bashrc
  evalwright completion zsh >> ~/.zshrc
  evalwright completion fish > ~/.config/fish/completions/evalwright.fish
"""


@click.command(epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(SHELLS))
def command(*, shell: str) -> None:
    """Print what a SHELL has to read at its start, for `evalwright` and `prompteval`."""
    echo("\n".join(_script(program, shell) for program in ("evalwright", "prompteval")))


def _script(program: str, shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None
    return kind(program_command(program), {}, program, variable(program)).source()


def variable(program: str) -> str:
    """The environment variable by which a shell asks for completions."""
    return f"_{program.upper()}_COMPLETE"


def complete(program: str, instruction: str) -> int:
    """Answer a shell: `bash_source` asks for the script, `bash_complete` for completions."""
    return shell_complete(program_command(program), {}, program, variable(program), instruction)
