"""Exits of an agent that runs in this process: none may look like a pass."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


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
