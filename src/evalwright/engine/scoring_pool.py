"""A pool of processes for what strangers can make long, so that nothing else waits for it."""

import asyncio
import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection

import msgspec

from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.events import ErrorDetail
from evalwright.contracts.suite import Suite
from evalwright.engine.examination import Examination, Seen
from evalwright.engine.suites.loader import Lowered, SentSuite
from evalwright.store.readers import ReadingThreads

SCORING_TIMEOUT = "scoring_timeout"
MOST_PROCESSES = 4  # each needs memory of its own
LOWERING_S = 30.0  # for the templates of one suite
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
        assignment = _Assignment(examination.portable, limit_s)

        def examined() -> Seen:
            answer = self._answered(assignment)
            if not isinstance(answer, int):
                return msgspec.json.decode(answer, type=Seen)
            if answer == -signal.SIGALRM:
                message = (
                    f"scoring took longer than {limit_s:g} s: raise limits.scoring_s, or have "
                    "fewer checks or a shorter answer; `evalwright rescore` scores the recorded "
                    "answer again"
                )
                return Seen(error=ErrorDetail(SCORING_TIMEOUT, message))
            how = f"by signal {-answer}" if answer < 0 else f"with {answer}"
            message = f"the process that scored the answer was ended {how}; is there enough memory?"
            return Seen(error=ErrorDetail("scoring_failed", message))

        try:
            return await asyncio.wrap_future(self._threads.submit(share, examined))
        except asyncio.CancelledError:
            assignment.stop()
            raise

    def lowered(self, share: str, sent: SentSuite) -> Suite:
        """The suite that was sent, for which this thread waits; raises `InvalidDocument`."""
        limit_s = LOWERING_S
        assignment = _Assignment(lambda: sent, limit_s)
        answer = self._threads.submit(share, lambda: self._answered(assignment)).result()
        if isinstance(answer, int):
            is_late = answer == -signal.SIGALRM
            reason = f"longer than {limit_s:g} s" if is_late else "more than there is of something"
            message = f"to render the templates takes {reason}"
            remedy = "have fewer of them, or give them shorter lists and texts"
            raise InvalidDocument(sent.name, [Problem("$", message, remedy)])
        lowered = msgspec.json.decode(answer, type=Lowered)
        if lowered.suite is None:
            raise InvalidDocument(sent.name, lowered.problems)
        return lowered.suite

    def _answered(self, assignment: "_Assignment") -> bytes | int:
        """The answer of a process; the code with which it ended instead."""
        written = pickle.dumps(
            (assignment.make_work(), assignment.limit_s), pickle.HIGHEST_PROTOCOL
        )
        while True:
            with self._change:
                was_idle = bool(self._idle)
                process = self._idle.pop() if was_idle else _Process()
                assignment.process = process
                self._busy[process] = assignment
            answer = process.ask(written)
            with self._change:
                del self._busy[process]
                if answer is not None:
                    self._idle.append(process)
                    return answer
            code = process.end()
            is_last = not was_idle or code == -signal.SIGALRM or assignment.is_over
            if is_last:  # else it had ended before it was asked
                return code

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
    """Something to do, and the process that is at it."""

    def __init__(self, make_work: Callable[[], Examination | SentSuite], limit_s: float) -> None:
        self.make_work = make_work
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

    def ask(self, written: bytes) -> bytes | None:
        """What it answers; None if it ends instead."""
        try:
            self._connection.send_bytes(written)
            return self._connection.recv_bytes()
        except (EOFError, OSError):
            return None

    def stop(self) -> None:
        """Stop it, whatever it is at."""
        self._popen.kill()

    def end(self) -> int:
        """Let go of one that has ended; returns how."""
        self._connection.close()
        return self._popen.wait()


@cache
def scoring_pool() -> ScoringPool:
    """The pool of this process, for all its runs."""
    pool = ScoringPool(min(max(2, os.cpu_count() or 2), MOST_PROCESSES))
    atexit.register(pool.close)
    return pool
