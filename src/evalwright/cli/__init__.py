"""The command line: one module per command; parsing, printing and exit codes."""

import sys


def main() -> None:
    """Run the `evalwright` command."""
    if sys.argv[1:] == ["--version"]:  # answered before anything else is imported
        from evalwright import __version__

        sys.stdout.write(f"evalwright {__version__}\n")
        return
    from evalwright.cli.app import run_app

    sys.exit(run_app())
