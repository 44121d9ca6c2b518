"""A pseudo-terminal around the command, and what a reader of it would have seen."""

import contextlib
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from subjects.command import Evalwright

_PART = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)|(\x1b.?)", re.DOTALL)


class Screen:
    """What stands on a terminal: lines that cursor movements can overwrite and erase."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = 0
        self._column = 0

    def write(self, text: str) -> None:
        """Take output as a terminal does, as far as progress displays go."""
        for codes, final, control, plain, _ in _PART.findall(text):
            if plain:
                self._put(plain)
            elif control == "\r":
                self._column = 0
            elif control == "\n":
                self._move(self._row + 1)
            elif final == "A":
                self._move(self._row - int(codes or 1))
            elif final == "K" and codes == "2":
                self.lines[self._row] = ""

    @property
    def text(self) -> str:
        """Everything that stands there now."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip()

    def _put(self, text: str) -> None:
        line = self.lines[self._row].ljust(self._column)
        self.lines[self._row] = line[: self._column] + text + line[self._column + len(text) :]
        self._column += len(text)

    def _move(self, row: int) -> None:
        self._row = max(0, row)
        while len(self.lines) <= self._row:
            self.lines.append("")


class OnTerminal:
    """A finished command: all that was written to the terminal, and stdout if it was apart."""

    def __init__(self, code: int, raw: str, out: str) -> None:
        self.code = code
        self.raw = raw
        self.out = out

    @property
    def left(self) -> str:
        """What stands on the terminal in the end."""
        screen = Screen()
        screen.write(self.raw)
        return screen.text


def on_terminal(
    evalwright: Evalwright,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    stdout_apart: bool = False,
    seen: Callable[[str], None] = lambda _: None,
) -> OnTerminal:
    """Run a command on a pseudo-terminal; `seen` is told of everything so far, again and again."""
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    options: dict[str, Any] = {"stderr": slave, "stdout": slave}
    if stdout_apart:
        options["stdout"] = subprocess.PIPE
    process = evalwright.start(*arguments, env={"TERM": "xterm-256color", **(env or {})}, **options)
    os.close(slave)
    raw = b""
    with contextlib.suppress(OSError):  # how a terminal tells that nobody writes any more
        while chunk := os.read(master, 65536):
            raw += chunk
            seen(raw.decode("utf-8", "replace"))
    os.close(master)
    finished = evalwright.finish(process)
    return OnTerminal(finished.code, raw.decode("utf-8", "replace"), finished.out)
