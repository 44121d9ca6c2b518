"""Checksums: of each event and document, and of each run over those of its events in their order.

An event has the CRC-32 of what it says and of the id of its run. The checksum of a run is a
polynomial of those, so that a batch is added to it without knowing it: whoever appends gives a
factor and an addend, and the database calculates. Events of older versions have no checksum; how
many have one is counted beside that of the run, so none can be lost.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

from evalwright.contracts.errors import DamagedEventLog

MODULUS = 2**31 - 1  # a prime; products fit into 64 bits with their sign
BASE = 1_664_525
_TIMES = 2**32 - 5  # a prime: no bit of a time is lost

CHANGED = "the event is not what was written: its checksum is another one"
NO_EVENT = -1
REMEDY = "`evalwright db check` lists all damage"
BROKEN = "events of the run are missing, added or exchanged: its checksum is another one"


def seed_of(run_id: str) -> int:
    """What the checksums of the events of a run begin with."""
    return crc32(run_id.encode(errors="surrogatepass"))


def of_event(seed: int, kind: str, task_id: str | None, at_us: int, body: bytes | None) -> int:
    """The checksum of an event; `NO_EVENT` where the values of a damaged row are of other types."""
    try:
        name = kind if task_id is None else f"{kind}={task_id}"
        return crc32(body, crc32(name.encode(), seed) ^ at_us % _TIMES)  # type: ignore[arg-type]
    except (TypeError, AttributeError, UnicodeEncodeError):
        return NO_EVENT


def of_values(*values: Any) -> int:
    """The checksum of a few values of a row."""
    return crc32(repr(values).encode(errors="surrogatepass"))


def batch(checksums: Sequence[int]) -> tuple[int, int]:
    """The factor and the addend by which events change the checksum of their run."""
    addend = 0
    for each in checksums:
        addend = (addend * BASE + each) % MODULUS
    return pow(BASE, len(checksums), MODULUS), addend


def refuse_changed(place: str, run_id: str, sequence: int) -> None:
    """Raise for an event that was read, and is not what was written."""
    raise DamagedEventLog(f"{place}: run {run_id}, event {sequence}: {CHANGED}; {REMEDY}")


def refuse_broken(place: str, run_id: str, found: Iterable[int], known: tuple[int, int]) -> None:
    """Raise unless the events of a run have the checksum of the run, known with their number."""
    checksums = list(found)
    if (len(checksums), batch(checksums)[1]) != known:
        raise DamagedEventLog(f"{place}: run {run_id}: {BROKEN}; {REMEDY}")
