"""A front door: `python -m prompteval` and `prompteval` are `evalwright prompts`."""

import atexit
import gc
import sys
from contextlib import suppress

from evalwright.cli import main as evalwright
from evalwright.cli.exit import exit_now

_NEW_OBJECTS = 500_000  # between two looks for cycles, of which prompts leave hardly any


def main() -> None:
    """Run the `prompteval` command."""
    gc.set_threshold(_NEW_OBJECTS)
    try:
        evalwright("prompteval")
    except SystemExit as leaving:
        if isinstance(leaving.code, int) and not _has_more_to_end():
            _end(leaving.code)
        raise
    finally:
        gc.freeze()  # the interpreter would look through all that is left twice more as it ends


def _has_more_to_end() -> bool:
    """Whether something is open that Python has to close: a database, or a thread at work."""
    threading = sys.modules["threading"]
    others = threading.active_count() - 1 - sum(map(_is_watchdog, threading.enumerate()))
    return others > 0 or "sqlite3" in sys.modules


def _is_watchdog(thread: object) -> bool:
    return getattr(thread, "function", None) is exit_now


def _end(code: int) -> None:
    """End as Python does, but for taking apart all that is in memory, which takes a while."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    exit_now(code)
