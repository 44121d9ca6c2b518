"""The good traces of a baseline on disk, found by their case: memory does not grow with them."""

import os
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec

from evalwright.scans.partitions import disk_fault
from evalwright.scans.shards import Shard, TraceFiles, parts_in_order, read_shard
from evalwright.scans.spread import ShardEngine
from evalwright.signals.scan import GoodTrace, good_trace

_INDEX = "index.db"
_IN_A_PIECE = 4096
_MOST_OPEN = 64  # files of responses at a time
_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -4000;
BEGIN;
CREATE TABLE traces (place INTEGER PRIMARY KEY, key BLOB, file TEXT, start INTEGER, size INTEGER);
CREATE TABLE asked (place INTEGER PRIMARY KEY, digest TEXT, key BLOB);
"""
# Made once their tables are full: sorting is cheaper than inserting in any order.
_INDEXES = (
    "CREATE INDEX traces_by_key ON traces (key, place)",
    "CREATE INDEX asked_by_digest ON asked (digest, place)",
    "COMMIT",
)
_OF_CASE = "SELECT file, start, size FROM traces WHERE key = ? ORDER BY place LIMIT 1"
_OF_PROMPT = "SELECT key FROM asked WHERE digest = ? ORDER BY place LIMIT 1"


class KeptRow(msgspec.Struct, frozen=True, array_like=True):
    """Where a trace lies in the file of its part."""

    key: str
    asked: str | None
    start: int
    size: int


class BaselinePart(msgspec.Struct):
    """The traces of a part: which they are, the file that holds them, and what is missing."""

    shard: Shard
    file: str
    rows: list[KeptRow]
    faults: list[str]
    is_free: bool = True


class KeepTraces:
    """Writes the good traces of shards to files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, load: tuple[Shard, ...]) -> BaselinePart:
        stretches = [(shard, shard.stretch()) for shard in load]
        found = (
            good_trace(*each) for shard, stretch in stretches for each in read_shard(shard, stretch)
        )
        part = self._write(load[-1], found)
        part.is_free = all(shard.is_free(stretch) for shard, stretch in stretches)
        return part

    def pieces(self, shard: Shard) -> Iterator[BaselinePart]:
        found = (good_trace(*each) for each in read_shard(shard, shard.stretch()))
        while True:
            part = self._write(shard, islice(found, _IN_A_PIECE))
            yield part
            if len(part.rows) + len(part.faults) < _IN_A_PIECE:
                return

    def _write(self, shard: Shard, found: Iterator[GoodTrace | str]) -> BaselinePart:
        rows: list[KeptRow] = []
        faults: list[str] = []
        at = 0
        with NamedTemporaryFile(dir=self._folder, delete=False) as file:
            for each in found:
                if isinstance(each, str):
                    faults.append(each)
                    continue
                rows.append(KeptRow(each.key, each.asked, at, len(each.response)))
                at += file.write(each.response)
        return BaselinePart(shard, Path(file.name).name, rows, faults)


class TracesOnDisk:
    """Good traces in a folder, read by any number of processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: int | None = None
        self._index: sqlite3.Connection | None = None
        self._files: OrderedDict[str, int] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        with _kept():
            row = self._opened().execute(_OF_CASE, (_bytes(key),)).fetchone()
            return None if row is None else os.pread(self._file(row[0]), row[2], row[1])

    def asked(self, digest: str) -> str | None:
        with _kept():
            row: tuple[bytes] | None = self._opened().execute(_OF_PROMPT, (digest,)).fetchone()
        return None if row is None else row[0].decode("utf-8", "surrogatepass")

    def _opened(self) -> sqlite3.Connection:
        """The index; a connection must not be carried into another process."""
        if self._index is None or self._process != os.getpid():
            self._process = os.getpid()
            self._index = sqlite3.connect(f"{(self._folder / _INDEX).as_uri()}?mode=ro", uri=True)
        return self._index

    def _file(self, name: str) -> int:
        if name in self._files:
            self._files.move_to_end(name)
        else:
            self._files[name] = os.open(self._folder / name, os.O_RDONLY)
            if len(self._files) > _MOST_OPEN:
                os.close(self._files.popitem(last=False)[1])
        return self._files[name]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_process": None, "_index": None, "_files": OrderedDict()}


def keep_baseline(
    files: TraceFiles, folder: Path, engine: ShardEngine
) -> tuple[TracesOnDisk, list[str]]:
    """Write the traces of a baseline to a folder; gives what cannot be used of it, too."""
    faults: list[str] = []
    parts = parts_in_order(KeepTraces(folder), files, engine)
    try:
        with (
            closing(parts),  # whatever happens, its processes end first
            closing(sqlite3.connect(folder / _INDEX, isolation_level=None)) as index,
        ):
            index.executescript(_TABLES)
            for part in parts:
                faults += part.faults
                index.executemany(
                    "INSERT INTO traces VALUES (NULL, ?, ?, ?, ?)",
                    ((_bytes(each.key), part.file, each.start, each.size) for each in part.rows),
                )
                index.executemany(
                    "INSERT INTO asked VALUES (NULL, ?, ?)",
                    ((each.asked, _bytes(each.key)) for each in part.rows if each.asked),
                )
            for statement in _INDEXES:
                index.execute(statement)
    except (sqlite3.Error, OSError) as error:
        raise disk_fault(error) from None
    return TracesOnDisk(folder), faults


@contextmanager
def _kept() -> Iterator[None]:
    """Somebody may have cleared away what is kept while the command works."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise disk_fault(error) from None


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
