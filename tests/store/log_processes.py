"""Other processes: started from the functions of `log_children.py`, spoken to line by line."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DEADLINE_SECONDS = 300  # of one that hangs
CHILDREN = Path(__file__).with_name("log_children.py")


class Child:
    """A process that runs one function of `log_children.py`."""

    def __init__(self, role: str, *arguments: object, within: Sequence[str] = ()) -> None:
        command = [sys.executable, "-W", "error", str(CHILDREN), role, *map(str, arguments)]
        self._process = subprocess.Popen(
            [*within, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._guard = threading.Timer(DEADLINE_SECONDS, self._process.kill)
        self._guard.start()

    def say(self, line: str = "go") -> None:
        """Give the child a line: what it waits for."""
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """The next line of the child; fails with its last words when it has ended."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise AssertionError(f"the child ended: {self._last_words()}")
        return line.rstrip("\n")

    def kill(self) -> list[str]:
        """kill -9, at whatever it is doing; what it had said and nobody heard."""
        self._process.kill()
        assert self._process.stdout
        said = self._process.stdout.read()
        self._process.wait()
        return said[: said.rfind("\n") + 1].splitlines()

    def finish(self) -> None:
        """Let the child come to its end, which must be a good one."""
        _, words = self._process.communicate()
        assert self._process.returncode == 0, words

    def end(self) -> None:
        """Leave nothing behind."""
        self._guard.cancel()
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream and not stream.closed:
                stream.close()

    def _last_words(self) -> str:
        assert self._process.stderr
        return self._process.stderr.read()


@contextmanager
def a_child(role: str, *arguments: object, within: Sequence[str] = ()) -> Iterator[Child]:
    """A process for the length of the context; another command may start it `within` itself."""
    child = Child(role, *arguments, within=within)
    try:
        yield child
    finally:
        child.end()


@contextmanager
def children(count: int, role: str, *arguments: object) -> Iterator[list[Child]]:
    """Several processes of one kind, each also told its number."""
    started = [Child(role, *arguments, number) for number in range(count)]
    try:
        yield started
    finally:
        for child in started:
            child.end()
