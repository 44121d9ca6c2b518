"""Time and ids, passed in so that tests can choose them."""

import os
import time
from typing import Protocol

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, sorts like the number


class Clock(Protocol):
    """Tells the time, for stamps and for durations."""

    def now_us(self) -> int:
        """Microseconds since the epoch."""

    def monotonic_s(self) -> float:
        """Seconds that never run backwards."""


class SystemClock:
    """The clock of this machine."""

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        return time.time_ns() // 1000

    monotonic_s = staticmethod(time.perf_counter)


def new_run_id(clock: Clock) -> str:
    """A unique run id; ids made later sort later."""
    return run_id_at(clock.now_us(), os.urandom(10))


def run_id_at(now_us: int, distinct: bytes) -> str:
    """The id of a run that begins at a time, with 10 bytes that only this run has."""
    number = (now_us // 1000 << 80) | int.from_bytes(distinct, "big")
    digits = [_ALPHABET[(number >> shift) & 31] for shift in range(125, -5, -5)]
    return f"run_{''.join(digits)}"


def new_group_id(clock: Clock) -> str:
    """A unique id for the repeats of a run."""
    return f"group_{new_run_id(clock).removeprefix('run_')}"
