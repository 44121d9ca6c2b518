"""The command line: one module per command; parsing, printing and exit codes."""

import os
import sys

EXIT_SECONDS = 2.0


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
    from evalwright.cli.app import run_app

    _leave(run_app(program))


def _leave(code: int) -> None:
    """Exit with the code, within a bounded time: an agent's threads may never end."""
    import gc
    import threading

    from evalwright.cli.output import let_go_of_streams

    let_go_of_streams()
    workers = sys.modules.get("evalwright.engine.workers")
    if workers is not None and workers.LEFT_BEHIND:
        os._exit(code)
    watchdog = threading.Timer(EXIT_SECONDS, os._exit, (code,))
    watchdog.daemon = True
    watchdog.start()
    gc.freeze()  # else all that a run had in memory is searched once more, for nothing
    sys.exit(code)
