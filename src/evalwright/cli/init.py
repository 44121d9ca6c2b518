"""`evalwright init`: a small suite and agent to begin with."""

import os
import shlex
from pathlib import Path

import click

from evalwright.cli.bundled import bundled
from evalwright.cli.output import make_folder, tell, write_file
from evalwright.contracts.errors import BadInput

FILES = ("suite.yaml", "agent.py")


@click.command(epilog="Example: evalwright init my-evals")
@click.argument("directory", required=False, default=".", type=click.Path(path_type=Path))
def command(*, directory: Path) -> None:
    """Write suite.yaml and agent.py into DIRECTORY (here, unless said); they run as they are."""
    present = [name for name in FILES if os.path.lexists(directory / name)]
    if present:
        names = " and ".join(str(directory / name) for name in present)
        raise BadInput(f"{names}: already there, and not overwritten; choose another folder")
    make_folder(directory)
    for name in FILES:
        write_file(directory / name, [(bundled("starter") / name).read_bytes()])
    tell(f"wrote {directory / 'suite.yaml'} and {directory / 'agent.py'}; now try\n")
    inside = "" if directory == Path() else f"cd {shlex.quote(str(directory))} && "
    tell(f"  {inside}evalwright run suite.yaml --agent agent.py:answer")
