"""`evalwright init`: a small suite and agent to begin with."""

import os
import shlex
from pathlib import Path

import click

from evalwright.agents.bundled import bundled
from evalwright.cli.output import echo, make_folder, write_file
from evalwright.contracts.errors import BadInput

FILES = ("suite.yaml", "agent.py")
EXAMPLES = """\b
Examples:
  evalwright init my-evals
  evalwright init my-attacks --adversarial
"""


@click.command(epilog=EXAMPLES)
@click.argument("directory", required=False, default=".", type=click.Path(path_type=Path))
@click.option(
    "--adversarial",
    is_flag=True,
    help="A suite of attacks, with an agent that falls for them and one that does not.",
)
def command(*, directory: Path, adversarial: bool) -> None:
    """Write suite.yaml and agent.py into DIRECTORY (default: this folder); they run as they are."""
    present = [name for name in FILES if os.path.lexists(directory / name)]
    if present:
        names = " and ".join(str(directory / name) for name in present)
        raise BadInput(f"{names}: already there, and not overwritten; choose another folder")
    make_folder(directory)
    folder = bundled("adversarial" if adversarial else "starter")
    for name in FILES:
        write_file(directory / name, [(folder / name).read_bytes()])
    echo(f"wrote {directory / 'suite.yaml'} and {directory / 'agent.py'}; now try\n")
    inside = "" if directory == Path() else f"cd {shlex.quote(str(directory))} && "
    agents = ("vulnerable", "hardened") if adversarial else ("answer",)
    for agent in agents:
        echo(f"  {inside}evalwright run suite.yaml --agent agent.py:{agent}")
