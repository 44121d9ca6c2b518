"""Rows kept by the hash of a key: what has one key is in one partition, and that fits in memory.

Rows that belong together are found without an index: each row is written once and read in a row,
so that a disk that is slow to seek is no slower. Small partitions are never written at all.
"""

import errno
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar
from zlib import crc32

import msgspec

from evalwright.contracts.errors import CannotEvaluate

_Row = TypeVar("_Row", bound=msgspec.Struct)

_ROWS = 20_000  # of a partition, about
_MOST = 1024
_BUFFERED = 8 << 20  # bytes of all partitions together that wait to be written

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# What keeps a command from working that has nothing to do with files, and what helps.
_SHORT_OF = {
    errno.EMFILE: "raise `ulimit -n`, or ask for fewer processes with --jobs",
    errno.ENFILE: "end other programs, or ask for fewer processes with --jobs",
    errno.EAGAIN: "end other programs, or ask for fewer processes with --jobs",
    errno.ENOMEM: "end other programs, or ask for fewer processes with --jobs",
}


def disk_fault(error: Exception) -> CannotEvaluate:
    """The error to raise where what is kept on disk for a while could not be written or found."""
    number = getattr(error, "errno", None)
    reason = getattr(error, "strerror", None) or str(error)
    if number in _SHORT_OF:
        return CannotEvaluate(f"{reason}; {_SHORT_OF[number]}")
    place = tempfile.gettempdir()
    file = getattr(error, "filename", None)
    if file is not None and number not in _NO_ROOM:
        if not Path(file).is_relative_to(place):
            return CannotEvaluate(f"{file}: {reason}")
        reason = f"{reason}: {file}"
    remedy = f"make room in {place}, or name another folder with TMPDIR"
    return CannotEvaluate(f"cannot write temporary files: {reason}; {remedy}")


def partitions_for(rows: int) -> int:
    """How many partitions are right for so many rows."""
    return min(_MOST, rows // _ROWS + 1)


class Partitions(Generic[_Row]):
    """Rows in partitions; those of one partition stay in the order in which they were added."""

    def __init__(self, folder: Path, name: str, kind: type[_Row], count: int) -> None:
        self._paths = [folder / f"{name}-{number}" for number in range(count)]
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(kind).decode
        self._waiting = [bytearray() for _ in range(count)]
        self._most = _BUFFERED // count

    def add(self, key: str, row: _Row) -> None:
        self.put(crc32(key.encode("utf-8", "surrogatepass")) % len(self._paths), row)

    def put(self, number: int, row: _Row) -> None:
        waiting = self._waiting[number]
        waiting += self._encode(row)
        waiting += b"\n"
        if len(waiting) > self._most:
            with self._paths[number].open("ab") as file:
                file.write(waiting)
            waiting.clear()

    def drained(self) -> Iterator[Callable[[], Iterator[_Row]]]:
        """Each partition in turn, to be read as often as need be; gone once the next is asked for.

        No row may be added any more.
        """
        for number, path in enumerate(self._paths):
            yield partial(self.rows, number)
            self._waiting[number] = bytearray()
            path.unlink(missing_ok=True)

    def rows(self, number: int) -> Iterator[_Row]:
        path = self._paths[number]
        if path.exists():
            with path.open("rb") as lines:
                yield from map(self._decode, lines)
        yield from map(self._decode, bytes(self._waiting[number]).splitlines())
