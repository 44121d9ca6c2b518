"""A watchdog for agents in the process of a run, or of a worker: it ends one that they hold.

While a call into C holds the interpreter, no Python code of this process runs: no timeout, no
signal is heard. So a small process looks on. It sees in shared memory which tasks are worked on,
until when, and that the event loop goes on; of signals it hears what Python's handler in C writes.

It cannot choose the exit code of another process, but it can have that exit: two reads wait for it
in threads of the C library, which end this process without the interpreter when they are answered.
"""

import asyncio
import ctypes
import functools
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evalwright.agents.python import PythonAgent
from evalwright.cli.watchdog_process import (
    HEAD,
    HEAD_BYTES,
    MOST_TEXT,
    RUN,
    SLOT,
    SLOT_BYTES,
    STOPS,
    Ward,
)
from evalwright.contracts.run_plan import DEFAULT_SETTINGS
from evalwright.engine.session import Session

BEAT_SECONDS = 0.5  # of the event loop
_CODES = (3, 130)
# The process waits before it loads anything: most runs have ended by then, and would pay for that.
_LATER = """
import sys, time
time.sleep(0.25)
import runpy
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""
_NO_SLOT = -1
_IN_A_THREAD = 2  # SIGEV_THREAD: call a function when the read ends
_kept: list[object] = []  # what the C library still writes to


class Watchdog:
    """What the other process sees of a run; a task has a slot while an agent works on it."""

    def __init__(self, slots: int, ward: Ward) -> None:
        self._ward = ward
        size = HEAD_BYTES + slots * SLOT_BYTES
        with tempfile.TemporaryFile() as file:
            file.truncate(size)
            self._seen = mmap.mmap(file.fileno(), size)
            self._ours, theirs = socket.socketpair()
            self._ours.setblocking(False)
            exits = _exits()
            passed = [file.fileno(), theirs.fileno(), *exits]
            program = str(Path(__file__).with_name("watchdog_process.py"))
            told = [program, *ward, os.getpid(), *passed]
            # Signals that arrive until it ignores them would end it.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
            try:
                with theirs:
                    self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                        [sys.executable, "-I", "-S", "-c", _LATER, *map(str, told)],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        pass_fds=passed,
                        start_new_session=True,  # Ctrl-C is for the run
                    )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._free = list(range(slots))
        self._beats = 0

    def begin(self, run_id: str, task_id: str, due_s: float, limit_s: float) -> int:
        """Say that an agent works on a task, and until when; gives the number of its slot."""
        if not self._beats:
            self.beat(asyncio.get_running_loop())
        if not self._free:
            return _NO_SLOT
        slot, place = (number := self._free.pop()), HEAD_BYTES + number * SLOT_BYTES
        name = task_id if self._ward == RUN else f"{task_id} of run {run_id}"
        SLOT.pack_into(self._seen, place, due_s, limit_s, 0, name.encode()[:MOST_TEXT])
        return slot

    def works_here(self, slot: int) -> None:
        """Say that this thread works on the task of a slot."""
        if slot != _NO_SLOT:
            place = HEAD_BYTES + slot * SLOT_BYTES + 16
            struct.pack_into("q", self._seen, place, threading.get_native_id())

    def end(self, slot: int) -> None:
        """Say that nobody works on the task any more."""
        if slot != _NO_SLOT:
            struct.pack_into("d", self._seen, HEAD_BYTES + slot * SLOT_BYTES, 0.0)
            self._free.append(slot)

    def advise(self, text: str) -> None:
        """Say how to go on with the run."""
        HEAD.pack_into(self._seen, 0, self._beats, text.encode()[: HEAD.size - 8])

    def beat(self, loop: asyncio.AbstractEventLoop) -> None:
        """Show again and again that the event loop goes on."""
        self._beats += 1
        struct.pack_into("q", self._seen, 0, self._beats)
        loop.call_later(BEAT_SECONDS, self.beat, loop)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Have signals heard, as they arrive; end the other process afterwards."""
        before = signal.set_wakeup_fd(self._ours.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            with suppress(ValueError, OSError):
                signal.set_wakeup_fd(before)
            with suppress(OSError):  # an agent has closed it
                self._ours.close()
            with suppress(PermissionError):  # an agent has become another user
                self._process.kill()
                self._process.wait()


@contextmanager
def watching(session: Session) -> Iterator[Watchdog | None]:
    """Have a watchdog look on while a session executes runs, if its agent works in this process."""
    if not isinstance(session.agent, PythonAgent):
        yield None
        return
    slots = max(session.options.concurrency or 0, DEFAULT_SETTINGS.concurrency or 0)
    with watchdog_over(RUN, slots) as session.watch:
        yield session.watch


@contextmanager
def watchdog_over(ward: Ward, slots: int) -> Iterator[Watchdog | None]:
    """Have a watchdog look on while so many tasks are worked on at once; None if there is none."""
    if not hasattr(signal, "pthread_sigmask"):
        yield None
        return
    try:
        watchdog = Watchdog(slots, ward)
    except (OSError, ValueError):  # there is no room for another process, or no Python to start
        yield None
        return
    with watchdog.listening():
        yield watchdog


class _Notification(ctypes.Structure):
    """What is called when a read ends: `struct sigevent`."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("rest", ctypes.c_byte * 40),
    )


class _WaitingRead(ctypes.Structure):
    """A read that nobody waits for: `struct aiocb`."""

    _fields_ = (
        ("descriptor", ctypes.c_int),
        ("operation", ctypes.c_int),
        ("priority", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("notification", _Notification),
        ("rest", ctypes.c_byte * 256),
    )


@functools.cache
def _exits() -> tuple[int, ...]:
    """For each of the exit codes a descriptor: what is written to it ends this process so."""
    if sys.platform != "linux":
        return ()
    library, found = ctypes.CDLL(None), []
    for code in _CODES:
        count = os.eventfd(0)  # unlike a pipe it has no end, which would be read as well
        buffer = ctypes.create_string_buffer(8)
        end = ctypes.cast(library._exit, ctypes.c_void_p).value
        notification = _Notification(code, 0, _IN_A_THREAD, end)
        waiting = _WaitingRead(count, 0, 0, ctypes.addressof(buffer), 8, notification)
        _kept.extend((buffer, waiting))
        if library.aio_read(ctypes.byref(waiting)) != 0:
            return ()
        found.append(count)
    return tuple(found)
