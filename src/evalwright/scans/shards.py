"""Files and folders of recorded traffic, cut into shards that are read each for itself.

A shard is a stretch of a file, from the beginning of one line to that of another. Where more
cannot be told beforehand, as of a packed file, it is the whole file.
"""

import gzip
import os
import re
import shutil
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Protocol, TypeVar

import msgspec

from evalwright.contracts.documents import open_input
from evalwright.contracts.errors import BadInput
from evalwright.scans.partitions import disk_fault
from evalwright.scans.spread import LocalProcesses, ShardEngine
from evalwright.trace.importers.archives import ZIP_MAGIC, unpacked
from evalwright.trace.importers.formats import import_placed
from evalwright.trace.importers.records import (
    BOM,
    MAX_RECORD_BYTES,
    FileStretch,
    Imported,
    faulty,
)

_BLOCK = 1 << 20
_CUT_AT_ONCE = 1 << 16  # memory for more would come from the system anew each time
_HEAD = 4 << 20  # the most of each of the first two lines of a file that is cut
_MOST_AT_HEAD = 1000  # lines, if most of them are empty
_FILES_AT_ONCE = 512
_ENDINGS = (".json", ".jsonl", ".ndjson", ".eval")
MANY_TRACES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")  # how names of such files end
# Packed in a way that is not read, by how such files begin: how names of them end, and what unpacks
# them.
_NOT_READ = {
    b"\x28\xb5\x2f\xfd": (".zst", "zstd -d"),
    b"\xfd7zX": (".xz", "xz -d"),
    b"BZh": (".bz2", "bzip2 -d"),
}
_PACKED = (".gz", ".zip", *(ending for ending, _ in _NOT_READ.values()))
_SHORTER = "became shorter while it was read; give it when nothing writes to it, or a copy"
_NOT_TRACES = ("run.json", "cases.json")
_GZIP_MAGIC = b"\x1f\x8b"
_SPACE = rb"[ \t\r\x0b\x0c]*+"
# Lines that say nothing, or that begin a document of several lines.
_OTHER_LINES = re.compile(rb"\n" + _SPACE + rb"([\[{]?)" + _SPACE + rb"(?=\n)")


class Shard(msgspec.Struct, frozen=True):
    """A stretch of a file; `file` is its place among the files, `name` stands in faults.

    `lines` and `records` count those before it. `records_after` is how many there should be at its
    end; it is None where the shard ends with the file. `least` is how long the file was, at least.
    """

    path: str
    name: str
    file: int = 0
    in_folder: bool = False
    start: int = 0
    end: int | None = None
    lines: int = 0
    records: int = 0
    records_after: int | None = None
    least: int = 0

    def stretch(self) -> FileStretch:
        """What a reader has to know of what came before, and says of its end."""
        return FileStretch(self.lines, self.records, True if self.start else None)

    def is_free(self, stretch: FileStretch) -> bool:
        """Whether those after it were right to begin where they did."""
        planned = self.records_after
        return planned is None or (stretch.is_free and stretch.records == planned)

    def rest(self) -> "Shard":
        return msgspec.structs.replace(self, end=None, records_after=None)


class TraceFiles:
    """The files of recorded traffic that a user named: one, or all in a folder, in their order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if os.path.isdir(path):  # noqa: PTH112 - it knows no name that is too long
            names = sorted(_trace_files(path))
            if not names:
                kinds = ", ".join(_ENDINGS)
                raise BadInput(f"{path}: no file of traces in it; they end in {kinds} or .gz")
            shown = name_of(path.resolve())
            self._files = [
                Shard(f"{path}/{name}", f"{shown}/{_text(name)}", number, in_folder=True)
                for number, name in enumerate(names)
            ]
        else:
            self._files = [Shard(str(path), name_of(path))]

    def whole(self) -> Iterator[Shard]:
        yield from self._files

    def loads(self, first: int, size: int) -> Iterator[tuple[Shard, ...]]:
        """From a file on, shards of about this size; several where files are small."""
        load: list[Shard] = []
        waiting = 0
        for file in self._files[first:]:
            try:
                length = os.stat(file.path).st_size  # noqa: PTH116 - of each of many thousand files
            except OSError:
                length = 0
            if waiting + length > size or len(load) == _FILES_AT_ONCE:
                if load:
                    yield tuple(load)
                load, waiting = [], 0
            if length > size:
                yield from ((each,) for each in _cut(file, size))
            else:
                load.append(file)
                waiting += length
        if load:
            yield tuple(load)


def read_shard(
    shard: Shard, stretch: FileStretch, notes: list[str] | None = None
) -> Iterator[tuple[Imported, str]]:
    """The cases of a shard, each with its place.

    In a folder, one that nothing else names is named after its file, and a file that cannot be
    read is a case with a fault: it must not hide what is in the others.
    """
    found = import_placed(_blocks(shard), shard.name, notes, stretch)
    if not shard.in_folder:
        yield from found
        return
    try:
        for record, place in found:
            number = record.case_id
            if number.startswith("record-") and (
                record.named_by == "place" or "case_id" not in record.response
            ):
                stem = _text(os.path.basename(shard.path)).partition(".")[0]  # noqa: PTH119
                name = stem if number == "record-1" else f"{stem}/{number}"
                yield msgspec.structs.replace(record, case_id=name), place
            else:
                yield record, place
    except BadInput as error:
        fault = faulty(stretch.records + 1, str(error))
        yield msgspec.structs.replace(fault, case_id=shard.name), shard.name


def _blocks(shard: Shard) -> Iterator[bytes]:
    if not shard.start and shard.end is None:
        yield from blocks_of(Path(shard.path), shard.least)
        return
    try:
        with open_input(shard.path) as file:
            file.seek(shard.start)
            yield from _pieces(file, shard.end)
            _refuse_shorter(file, shard.path, shard.end or shard.least)
    except OSError as error:
        raise BadInput(f"{shard.path}: cannot be read: {error.strerror}") from None


def blocks_of(path: Path, least: int = 0) -> Iterator[bytes]:
    """The content of a file, unpacked where it is packed, piece by piece."""
    try:
        with open_input(path) as plain:
            magic = plain.peek(4)[:4]  # a pipe cannot be read twice
            if magic == ZIP_MAGIC:
                yield from _unpacked(plain, str(path))
            elif magic[:2] == _GZIP_MAGIC:
                yield from _pieces(gzip.GzipFile(fileobj=plain))
            else:
                for begin, (ending, unpack) in _NOT_READ.items():
                    if magic.startswith(begin):
                        kind = f"is packed as {ending}, which is not read"
                        raise BadInput(
                            f"{path}: {kind}; unpack it ({unpack}), or pack it with gzip"
                        )
                least = max(least, os.fstat(plain.fileno()).st_size)
                yield from _pieces(plain)
                _refuse_shorter(plain, path, least)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"{path}: cannot be read: {reason}") from None


def _pieces(file: BufferedReader | gzip.GzipFile, end: int | None = None) -> Iterator[bytes]:
    while block := file.read(_BLOCK if end is None else min(_BLOCK, end - file.tell())):
        yield block


def _refuse_shorter(file: BufferedReader, path: str | Path, least: int) -> None:
    """What is missing at the end of a file must not look as if it had never been there."""
    if file.seekable() and file.tell() < least:
        raise BadInput(f"{path}: {_SHORTER}")


def name_of(path: Path) -> str:
    """The name of a file as text: bytes that are not UTF-8 are replaced, JSON cannot hold them."""
    return _text(path.name)


def _text(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")


def _trace_files(folder: Path) -> Iterator[str]:
    """Files that may hold traces, by their paths in the folder; not what is hidden or captured."""

    def refuse(error: OSError) -> None:
        raise BadInput(f"{error.filename}: cannot be read: {error.strerror}")

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [each for each in folders if not each.startswith((".", "_"))]
        for name in names:
            plain = name.lower()
            for ending in _PACKED:
                plain = plain.removesuffix(ending)
            if plain.endswith(_ENDINGS) and name not in _NOT_TRACES and not name.startswith("."):
                yield os.path.relpath(os.path.join(place, name), folder)  # noqa: PTH118


def _unpacked(plain: BufferedReader, place: str) -> Iterator[bytes]:
    """The lines of a log that is packed; what lies in it is listed at its end."""
    with TemporaryFile() as copy:
        if not plain.seekable():
            try:
                shutil.copyfileobj(plain, copy)
            except OSError as error:
                raise disk_fault(error) from None
        yield from unpacked(plain if plain.seekable() else copy, place)


def _cut(whole: Shard, size: int) -> Iterator[Shard]:
    """A file in stretches, as far as each of its lines is a record that stands for itself."""
    try:
        with open_input(whole.path) as file:
            if file.seekable() and _is_line_by_line(file.peek(4)[:4], file, whole.name):
                length = os.fstat(file.fileno()).st_size
                file.seek(0)
                whole = msgspec.structs.replace(whole, least=length)
                whole = yield from _stretches(file, whole, size)
    except OSError:
        pass  # whoever reads the shard says it
    yield whole


def _is_line_by_line(magic: bytes, file: BufferedReader, name: str) -> bool:
    """Whether its first lines are records, and nothing of them is needed for the next."""
    if magic == ZIP_MAGIC or magic[:2] == _GZIP_MAGIC:
        return False
    head: list[bytes] = []
    written = 0
    while written < 2 and len(head) < _MOST_AT_HEAD and (line := file.readline(_HEAD)):
        head.append(line)
        written += bool(line.strip())
    stretch = FileStretch()
    for _ in import_placed(head, name, None, stretch):
        pass
    return stretch.is_free and stretch.line_by_line is True and stretch.records == written == 2


def _stretches(file: BufferedReader, whole: Shard, size: int) -> Generator[Shard, None, Shard]:
    """All stretches but the last; gives back the last, which goes to the end of the file."""
    rest, end = whole, whole.start
    lines, records = whole.lines, whole.records
    try:
        while True:
            data = file.read(min(size, _CUT_AT_ONCE))
            tail = b"" if data.endswith(b"\n") else file.readline(MAX_RECORD_BYTES)
            data = b"\n" + (data if end else data.removeprefix(BOM)) + tail
            end = file.tell()
            if not data.endswith(b"\n") or not file.peek(1):
                return rest
            others = _OTHER_LINES.findall(data)
            if any(others):  # a document of several lines: where it ends is not known
                return rest
            found = data.count(b"\n") - 1
            lines, records = lines + found, records + found - len(others)
            if end - rest.start >= size:
                yield msgspec.structs.replace(rest, end=end, records_after=records)
                rest = msgspec.structs.replace(rest, start=end, lines=lines, records=records)
    except OSError:
        return rest  # whoever reads it says so


class ShardPart(Protocol):
    """What came of a shard or of a piece of one; not free is one that has to be made anew."""

    @property
    def shard(self) -> Shard:
        """The last shard that it is of."""

    @property
    def is_free(self) -> bool:
        """Whether the shard after it was right to begin where it did."""


_Part = TypeVar("_Part", bound=ShardPart)
_Part_co = TypeVar("_Part_co", bound=ShardPart, covariant=True)


class ShardWork(Protocol[_Part_co]):
    """What is to be done with shards: of a load of them at once, or of one piece by piece."""

    def __call__(self, load: tuple[Shard, ...]) -> _Part_co:
        """One part for all of them."""

    def pieces(self, shard: Shard) -> Iterator[_Part_co]:
        """Parts of one shard, as they come; memory does not grow with its size."""


def parts_in_order(
    work: ShardWork[_Part], files: TraceFiles, engine: ShardEngine
) -> Generator[_Part, None, None]:
    """The parts of all files. The same, put together, whatever the engine and its shards."""
    if isinstance(engine, LocalProcesses) and engine.processes == 1:
        for shard in files.whole():
            yield from work.pieces(shard)
        return
    first: int | None = 0
    while first is not None:
        first = yield from _spread(work, files, engine, first)


def _spread(
    work: ShardWork[_Part], files: TraceFiles, engine: ShardEngine, first: int
) -> Generator[_Part, None, int | None]:
    """The parts from a file on; gives back with which to go on.

    Where records of a file turn out to need others, what is left of it is read in one go.
    """
    loads = files.loads(first, engine.shard_bytes)
    head = list(islice(loads, 2))
    if len(head) < 2:  # a pipe, or one packed file: what comes of it is given as it comes
        for shard in chain.from_iterable(head):
            yield from work.pieces(shard)
        return None
    with closing(engine.map_shards(work, chain(head, loads))) as parts:
        for part in parts:
            if not part.is_free:
                break
            yield part
        else:
            return None
    yield from work.pieces(part.shard.rest())
    return part.shard.file + 1
