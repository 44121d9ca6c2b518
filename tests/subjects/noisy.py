"""Agents that print where a result should stand alone."""

import atexit
import os
import subprocess
import sys
import threading
from typing import Any

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\x08\r\u202e"


def shout(task: Any) -> str:
    """Print in every way there is."""
    print("NOISE by print")  # noqa: T201 - that is the point
    sys.stdout.write("NOISE by write\n")
    sys.__stdout__.write("NOISE by the first stdout\n")
    os.write(1, b"NOISE by descriptor\n")
    subprocess.run(["/bin/sh", "-c", "echo NOISE by a child"], check=True)
    return "yes"


def shout_at_the_end(task: Any) -> str:
    """Print when the process ends."""
    atexit.register(print, "NOISE at exit")
    return "yes"


def shout_after_the_timeout(task: Any) -> str:
    """Print without end, from a thread that nobody can stop, until the process is gone."""
    if task.id == "task-1":
        atexit.register(_wait_for_more)
        while True:
            print("NOISE by a lost thread", flush=True)  # noqa: T201
            _shouted.set()
            _pause.wait(0.0005)
    _shouted.wait()
    return "yes"


_orphans: list[subprocess.Popen[bytes]] = []
_shouted, _pause = threading.Event(), threading.Event()


def _wait_for_more() -> None:
    for _ in range(3):
        _shouted.clear()
        _shouted.wait(5)


def leave_a_shouting_child(task: Any) -> str:
    """Leave a child behind that prints when we are gone."""
    script = "cat; echo NOISE by an orphan"  # `cat` ends when this process does, and its pipe
    _orphans.append(subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE))
    return "yes"


def paint(task: Any) -> str:
    """Answer with what would steer a terminal."""
    if task.id == "task-2":
        raise ValueError(f"failed {ESCAPES}")
    return f"painted {ESCAPES}"


def paint_and_fail(task: Any) -> str:
    """Fail with what would steer a terminal."""
    raise ValueError(f"failed {ESCAPES}")
