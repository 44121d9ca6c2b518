"""Logs of Inspect that are packed: one line of JSON for their header, and for each sample."""

import io
import sys
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from evalwright.contracts.errors import BadInput
from evalwright.trace.importers.records import MAX_RECORD_BYTES

ZIP_MAGIC = b"PK\x03\x04"
_ZSTD = 93  # the method of a member; `zipfile` knows it from Python 3.14 on
_LOCAL_HEADER = 30
_BLOCK = 1 << 20
_LARGEST_WINDOW = 1 << 27
_HEADERS = ("header.json", "_journal/start.json")  # a run that broke off has only the latter


def unpacked(file: BinaryIO, place: str) -> Iterator[bytes]:
    """The lines of a log, piece by piece; raises `BadInput` where the file is no such log."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = {member.filename: member for member in archive.infolist()}
            header = next((members[name] for name in _HEADERS if name in members), None)
            samples = [
                member
                for name, member in members.items()
                if name.startswith("samples/") and name.endswith(".json")
            ]
            if header is None:
                raise BadInput(
                    f"{place}: is a zip file, but not a log of Inspect, which has a header.json; "
                    "unpack it and name the file in it"
                )
            for member in [header, *samples]:
                # Blocks as one line, which ends with the last; of one too long to be read no more
                # follow.
                before = b""
                size = 0
                for block in _content(archive, file, member, place):
                    if before:
                        yield before
                    before = block.replace(b"\n", b" ")
                    size += len(block)
                    if size > MAX_RECORD_BYTES:
                        break
                yield before + b"\n"
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise BadInput(f"{place}: cannot be unpacked: {error}; download it again") from None


def _content(
    archive: zipfile.ZipFile, file: BinaryIO, member: zipfile.ZipInfo, place: str
) -> Iterator[bytes]:
    if member.compress_type != _ZSTD or sys.version_info >= (3, 14):
        with archive.open(member) as plain:
            while block := plain.read(_BLOCK):
                yield block
        return
    # Where the content of a member begins: after its header, its name and what else is told.
    file.seek(member.header_offset)
    header = file.read(_LOCAL_HEADER)
    if len(header) < _LOCAL_HEADER or header[:4] != ZIP_MAGIC:
        raise zipfile.BadZipFile(f"{member.filename} has no header")
    lengths = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    packed = _Stretch(
        file, member.header_offset + _LOCAL_HEADER + sum(lengths), member.compress_size
    )
    checksum = 0
    for block in _from_zstd(packed, f"{place}: {member.filename}"):
        checksum = zlib.crc32(block, checksum)
        yield block
    if checksum != member.CRC:
        raise zipfile.BadZipFile(f"{member.filename} is damaged")


class _Stretch(io.RawIOBase):
    """A stretch of a file that others read too."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file = file
        self._at = start
        self._end = start + size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        left = self._end - self._at
        self._file.seek(self._at)
        found = self._file.read(left if size < 0 else min(size, left))
        self._at += len(found)
        return found


def _from_zstd(packed: _Stretch, place: str) -> Iterator[bytes]:
    try:
        import zstandard  # only such logs need it
    except ImportError:
        raise BadInput(
            f"{place}: is packed with zstd, which needs the package zstandard: "
            "pip install zstandard"
        ) from None
    source = cast("BinaryIO", packed)
    unpacker = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    try:
        with unpacker.stream_reader(source, read_across_frames=True, closefd=False) as plain:
            while block := plain.read(_BLOCK):
                yield block
    except zstandard.ZstdError as error:
        raise BadInput(f"{place}: cannot be unpacked: {error}; download it again") from None
