"""The command line: one module per command; parsing, printing and exit codes."""

import os
import sys

EXIT_SECONDS = 2.0


def main() -> None:
    """Run the `evalwright` command."""
    if sys.argv[1:] == ["--version"]:  # answered before anything else is imported
        from evalwright import __version__

        sys.stdout.write(f"evalwright {__version__}\n")
        return
    from evalwright.cli.app import run_app

    _leave(run_app())


def _leave(code: int) -> None:
    """Exit with the code, within a bounded time: an agent's threads may never end."""
    import threading

    from evalwright.cli.output import let_go_of_streams

    let_go_of_streams()
    watchdog = threading.Timer(EXIT_SECONDS, os._exit, (code,))
    watchdog.daemon = True
    watchdog.start()
    sys.exit(code)
