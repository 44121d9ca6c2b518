"""The command line: one module per command; parsing, printing and exit codes."""

import os
import sys


def main(program: str = "evalwright") -> None:
    """Run the `evalwright` command, or `prompteval`."""
    if sys.argv[1:] == ["--version"]:  # answered before anything else is imported
        from evalwright import __version__

        sys.stdout.write(f"{program} {__version__}\n")
        return
    asked = os.environ.get(f"_{program.upper()}_COMPLETE")
    if asked:
        from evalwright.cli.completion import complete

        sys.exit(complete(program, asked))
    from evalwright.cli import exit as way_out
    from evalwright.cli.app import run_app

    way_out.guard()
    way_out.leave(run_app(program))
