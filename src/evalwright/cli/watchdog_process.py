"""The process that looks on while agents work in that of a run, or of a worker.

It needs nothing but Python.
"""

import math
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import NamedTuple

MOST_TEXT = 230
HEAD = struct.Struct("q4088s")  # how often the event loop has shown itself; how to go on
HEAD_BYTES = HEAD.size
SLOT = struct.Struct(f"ddq{MOST_TEXT}s")  # due, limit, thread, task; nobody works in one due at 0
SLOT_BYTES = 256
PATIENCE_SECONDS = 3.0  # with an event loop that does not go on
OTHERS_SECONDS = 60.0  # where a check may be what works, and so ends: longer than one may take
TICK_SECONDS = 0.25
_MEASURED_SECONDS = 0.3
_WAITING_SHARE = 0.05  # of a processor: a thread that waits for the interpreter polls every 5 ms
_WAITING_TICKS = 2  # the system rounds twice
_MOST_NAMED = 5
STOPS = (signal.SIGINT, signal.SIGTERM)


class Ward(NamedTuple):
    """What it looks after, and how long that may be held."""

    name: str
    grace_s: float  # from the first signal on; from the second on it has `PATIENCE_SECONDS`
    most_held_s: float  # whatever holds it


RUN = Ward("run", PATIENCE_SECONDS, math.inf)


class WatchedTask(NamedTuple):
    """A task that an agent works on."""

    due_s: float
    limit_s: float
    thread: int  # 0 in the event loop
    name: str


class Onlooker:
    """What is known of the run from outside."""

    def __init__(
        self, ward: Ward, run: int, seen: mmap.mmap, talk: socket.socket, exits: list[int]
    ) -> None:
        self._ward = ward
        self._seen = seen
        self._talk = talk
        self._exits = exits
        self._run = run
        self._beats = -1
        self._beat_at = self._looked_at = time.monotonic()
        self._stops_at = math.inf  # by a signal that may not have been heard

    def check(self) -> bool:
        """Look once; False when the run is gone."""
        if select.select([self._talk], [], [], TICK_SECONDS)[0]:
            data = self._talk.recv(4096)
            if not data:
                return False
            for _ in filter(STOPS.__contains__, data):
                is_first = self._stops_at == math.inf
                grace_s = self._ward.grace_s if is_first else PATIENCE_SECONDS
                self._stops_at = min(self._stops_at, time.monotonic() + grace_s)
        if os.getppid() != self._run:
            return False
        now, beats = time.monotonic(), HEAD.unpack_from(self._seen)[0]
        was_paused = now - self._looked_at > 4 * TICK_SECONDS or self._is_paused()
        self._looked_at = now
        if beats != self._beats or was_paused:
            self._beats, self._beat_at = beats, now
            return True
        if now - self._beat_at < PATIENCE_SECONDS:
            return True
        found = []
        for place in range(HEAD_BYTES, len(self._seen), SLOT_BYTES):
            due_s, limit_s, thread, name = SLOT.unpack_from(self._seen, place)
            if due_s:
                text = name.rstrip(b"\0").decode("utf-8", "replace")
                found.append(WatchedTask(due_s, limit_s, thread, text))
        tasks = found
        late = [each for each in tasks if now > each.due_s + PATIENCE_SECONDS]
        is_stopped = now > self._stops_at
        is_over = is_stopped or now - self._beat_at > self._ward.most_held_s
        if not late and not is_over:
            return True
        held = self._holding(late or tasks)
        if held is None or HEAD.unpack_from(self._seen)[0] != self._beats:  # it goes on after all
            return True
        if not held and not is_over and now - self._beat_at < OTHERS_SECONDS:
            return True
        self._end_run(held, late, is_stopped=is_stopped)
        return False

    def _holding(self, tasks: list[WatchedTask]) -> list[WatchedTask] | None:
        """Those of the tasks that may hold the interpreter: one that works does, if any works.

        None if it is the thread of the event loop that works, and no agent does so in that. No
        task if it is a thread of a check, or one that an agent has started.
        """
        began, before = time.monotonic(), self._work_of_threads()
        time.sleep(_MEASURED_SECONDS)  # longer on a busy machine
        after, seconds = self._work_of_threads(), time.monotonic() - began
        worked = {each: after[each] - before.get(each, 0) for each in after}
        busy = max(worked, key=worked.__getitem__, default=0)
        waiting = seconds * os.sysconf("SC_CLK_TCK") * _WAITING_SHARE
        if worked.get(busy, 0) <= max(waiting, _WAITING_TICKS):
            return tasks
        if busy == self._run:
            return [each for each in tasks if not each.thread] or None
        return [each for each in tasks if each.thread == busy]

    def _work_of_threads(self) -> dict[int, int]:
        """How long each thread of the run has worked, where the system tells."""
        found = {}
        with suppress(OSError):
            threads = f"/proc/{self._run}/task"
            for thread in os.listdir(threads):  # noqa: PTH208 - it starts sooner without pathlib
                fields = _stat(f"/proc/{self._run}/task/{thread}/stat")
                found[int(thread)] = int(fields[11]) + int(fields[12])
        return found

    def _is_paused(self) -> bool:
        with suppress(OSError):
            return _stat(f"/proc/{self._run}/stat")[0] in (b"T", b"t")
        return False

    def _end_run(
        self, held: list[WatchedTask], late: list[WatchedTask], *, is_stopped: bool
    ) -> None:
        """Say the truth, and end the run."""
        advice = HEAD.unpack_from(self._seen)[1].rstrip(b"\0").decode("utf-8", "replace")
        more = f" and {len(held) - _MOST_NAMED} more" if len(held) > _MOST_NAMED else ""
        names = ", ".join(each.name for each in held[:_MOST_NAMED]) + more
        whose = f"the agent's code for {'one of the tasks' if len(held) > 1 else 'task'} {names}"
        limit_s = late[0].limit_s if late else self._ward.most_held_s
        is_late = late or not is_stopped
        what = self._ward.name
        when = f"{limit_s:g} s are over" if is_late else f"the {what} is to stop"
        text = (
            f"evalwright: {when}, but {whose if held else 'code of the agent or of a check'} keeps "
            "the whole process busy, which only the end of the process stops: "
            f"the {what} ends here; with --isolate, "
            f"{'only the task fails' if held else 'an agent cannot do so'}\n"
            f"{advice}\n"
            f"exit {'3: could not be evaluated' if is_late else '130: interrupted'}\n"
        )
        if os.isatty(2):
            text = f"\n\x1b[?25h{text}"
        with suppress(OSError):
            os.write(2, text.encode())
        if self._exits:
            with suppress(OSError):
                os.eventfd_write(self._exits[0 if is_late else 1], 1)
            with suppress(OSError):
                select.select([self._talk], [], [], 1.0)
        if os.getppid() == self._run:
            time.sleep(TICK_SECONDS)
        if os.getppid() == self._run:
            with suppress(OSError):
                os.kill(self._run, signal.SIGKILL)


def _stat(path: str) -> list[bytes]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096).rpartition(b")")[2].split()
    finally:
        os.close(descriptor)


def main(ward: Ward, run: int, memory: int, talk: int, *exits: int) -> None:
    """Look on until the run is gone."""
    for each in STOPS:
        signal.signal(each, signal.SIG_IGN)
    seen = mmap.mmap(memory, 0)
    onlooker = Onlooker(ward, run, seen, socket.socket(fileno=talk), list(exits))
    while onlooker.check():
        pass


if __name__ == "__main__":
    _name, _grace_s, _most_held_s, *_numbers = sys.argv[1:]
    main(Ward(_name, float(_grace_s), float(_most_held_s)), *map(int, _numbers))
