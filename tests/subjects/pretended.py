"""A command in this process, before a terminal that is only pretended."""

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest.mock import patch

from evalwright.cli.app import run_app
from evalwright.cli.output import Streams


class Pretended(NamedTuple):
    """What came of a command: its exit code, and all that it printed, in order."""

    code: int
    text: str


class _Terminal(io.TextIOWrapper):
    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding, "backslashreplace", "\n", write_through=True)

    def isatty(self) -> bool:
        return True


@contextmanager
def _as_before() -> Iterator[None]:
    """Give streams and signals back that a command took."""
    streams = Streams.out, Streams.err
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        Streams.out, Streams.err = streams
        for number, handler in handlers.items():
            signal.signal(number, handler)


def pretended(*arguments: str, columns: int = 80, encoding: str = "utf-8") -> Pretended:
    """Run a command; where it draws, the drawing is in what it printed."""
    terminal = _Terminal(encoding)
    environment = {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"}
    with (
        _as_before(),
        patch.dict(os.environ, environment),
        patch.multiple(sys, stdout=terminal, stderr=terminal, argv=["evalwright", *arguments]),
    ):
        code = run_app()
    return Pretended(code, terminal.buffer.getvalue().decode(encoding))
