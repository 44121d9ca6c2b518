"""A pool of processes that examine long answers, so that nothing else waits for them."""

import asyncio
import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from multiprocessing.connection import Connection

import msgspec

from evalwright.contracts.events import ErrorDetail
from evalwright.engine.examination import Examination, Seen
from evalwright.store.readers import ReadingThreads

SCORING_TIMEOUT = "scoring_timeout"
MOST_PROCESSES = 4  # each needs memory of its own
_PROCESS = "evalwright.engine.scoring_process"
_KEPT_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "TMPDIR", "LANG", "LC_ALL")


class ScoringPool:
    """Processes, started as they are needed; of several shares none gets all of them."""

    def __init__(self, most: int) -> None:
        self._threads = ReadingThreads(most, max(1, most // 2), "scoring")
        self._change = threading.Lock()  # guards the rest
        self._idle: list[_Process] = []
        self._busy: dict[_Process, _Assignment] = {}

    async def examine(self, share: str, examination: Examination, limit_s: float) -> Seen:
        """What an examination finds within a time that begins when a process does."""
        assignment = _Assignment(examination, limit_s)
        try:
            return await asyncio.wrap_future(
                self._threads.submit(share, lambda: self._examined(assignment))
            )
        except asyncio.CancelledError:
            assignment.stop()
            raise

    def _examined(self, assignment: "_Assignment") -> Seen:
        written = pickle.dumps(
            (assignment.examination.portable(), assignment.limit_s), pickle.HIGHEST_PROTOCOL
        )
        while True:
            with self._change:
                was_idle = bool(self._idle)
                process = self._idle.pop() if was_idle else _Process()
                assignment.process = process
                self._busy[process] = assignment
            seen = process.ask(written)
            with self._change:
                del self._busy[process]
                if seen is not None:
                    self._idle.append(process)
                    return seen
            code = process.end()
            is_last = not was_idle or code == -signal.SIGALRM or assignment.is_over
            if is_last:  # else it had ended before it was asked
                return Seen(error=_error(code, assignment.limit_s))

    def close(self) -> None:
        """End all processes at once; what they were at has no result."""
        with self._change:
            idle, self._idle = self._idle, []
            for assignment in self._busy.values():
                assignment.stop()  # whoever waits for it lets go of the process
        for process in idle:
            process.stop()
            process.end()


class _Assignment:
    """An examination, and the process that is at it."""

    def __init__(self, examination: Examination, limit_s: float) -> None:
        self.examination = examination
        self.limit_s = limit_s
        self.process: _Process | None = None
        self.is_over = False

    def stop(self) -> None:
        """Stop its process, whatever that is at: nobody waits for it any more."""
        self.is_over = True
        if self.process is not None:
            self.process.stop()


class _Process:
    """One process, and the connection to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._connection = Connection(ours.detach())
            kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
            self._popen = subprocess.Popen(  # noqa: S603 - our own words
                (sys.executable, "-P", "-m", _PROCESS, str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # a trace may hold what a tenant sent
                pass_fds=(theirs.fileno(),),
                env=kept,
                start_new_session=True,  # an interrupt is for the parent, who ends it
            )

    def ask(self, written: bytes) -> Seen | None:
        """What it finds; None if it ends instead."""
        try:
            self._connection.send_bytes(written)
            return msgspec.json.decode(self._connection.recv_bytes(), type=Seen)
        except (EOFError, OSError):
            return None

    def stop(self) -> None:
        """Stop it, whatever it is at."""
        self._popen.kill()

    def end(self) -> int:
        """Let go of one that has ended; returns how."""
        self._connection.close()
        return self._popen.wait()


def _error(code: int, limit_s: float) -> ErrorDetail:
    if code == -signal.SIGALRM:
        message = (
            f"scoring took longer than {limit_s:g} s: raise limits.scoring_s, or have fewer checks "
            "or a shorter answer; `evalwright rescore` scores the recorded answer again"
        )
        return ErrorDetail(SCORING_TIMEOUT, message)
    how = f"by signal {-code}" if code < 0 else f"with {code}"
    message = f"the process that scored the answer was ended {how}; is there enough memory?"
    return ErrorDetail("scoring_failed", message)


@cache
def scoring_pool() -> ScoringPool:
    """The pool of this process, for all its runs."""
    pool = ScoringPool(min(max(2, os.cpu_count() or 2), MOST_PROCESSES))
    atexit.register(pool.close)
    return pool
