"""The exit code of a command is its own, whatever the code of users that it has loaded does.

An agent may call `os._exit`, replace `sys.exit`, or leave something behind that is called when the
process ends. What does not ask Python (a call into C, a signal) cannot be stopped in this process.
"""

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

EXIT_SECONDS = 2.0  # that threads and exit handlers of others may take

exit_now: Callable[[int], NoReturn] = os._exit
_REPLACING = ("execv", "execve")  # the process by another program, with that one's exit code


class _ExitOfProcess:
    """How this process ends, once that is known."""

    process = 0  # which forked children are not
    code: int | None = None


def guard() -> None:
    """Let nobody else end this process, or replace it: that raises `RuntimeError`."""
    if _ExitOfProcess.process == os.getpid():
        return
    _ExitOfProcess.process = os.getpid()
    posix = sys.modules.get("posix", os)
    for name in ("_exit", *_REPLACING):
        if hasattr(os, name):
            guarded = _guarded(name, getattr(os, name))
            setattr(os, name, guarded)
            setattr(posix, name, guarded)


def _guarded(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(*given: Any) -> Any:
        if os.getpid() != _ExitOfProcess.process:  # a forked child ends as it must
            return real(*given)
        if _ExitOfProcess.code is not None:
            exit_now(_ExitOfProcess.code)
        raise RuntimeError(f"os.{name} was called: an agent cannot end the run")

    return refuse


def leave(code: int) -> NoReturn:
    """Exit with the code, within a bounded time: an agent's threads may never end."""
    import gc
    import threading

    from evalwright.cli.output import Streams, let_go_of_streams

    _ExitOfProcess.code = code
    let_go_of_streams()
    # Python exits with another code where those that it has cannot be written to.
    sys.stdout, sys.stderr = Streams.out, Streams.err
    workers = sys.modules.get("evalwright.engine.workers")
    if workers is not None and workers.LEFT_BEHIND:
        exit_now(code)
    watchdog = threading.Timer(EXIT_SECONDS, exit_now, (code,))
    watchdog.daemon = True
    watchdog.start()
    gc.freeze()  # else all that a run had in memory is searched once more, for nothing
    raise SystemExit(code)  # `sys.exit` may be another by now
