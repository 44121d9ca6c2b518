"""Ctrl-C: the first stops the run in good order, the second at once; and no other sudden exits."""

import asyncio
import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeVar

from evalwright.cli.output import say
from evalwright.contracts.errors import Interrupted
from evalwright.engine.workers import run_until_signalled

T = TypeVar("T")


def run_until_interrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, or raise `Interrupted` on SIGINT and SIGTERM."""
    try:
        return run_until_signalled(work, (signal.SIGINT, signal.SIGTERM), _say_stopping)
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise Interrupted("interrupted") from None


def _say_stopping() -> None:
    with suppress(RuntimeError):  # the signal came while stderr was being written to
        say("stopping; Ctrl-C again stops at once")


@contextmanager
def no_sudden_exit() -> Iterator[None]:
    """Let `os._exit` fail in this process; in a forked child it ends the child, as it must.

    Exits from C code, and replacing the process, cannot be caught: a Python agent is trusted code.
    """
    real, process = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != process:
            real(status)
        raise RuntimeError(f"os._exit({status}) was called: an agent cannot end the run")

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = real
