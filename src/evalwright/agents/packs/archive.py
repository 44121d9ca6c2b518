"""Archives from anywhere: a `.tgz` as a map of its files in memory, within bounds, or refused.

Nothing is written to disk, and nothing but plain files and folders is accepted, so that an archive
means the same to every reader. `tarfile` does not read them: it follows extensions that give an
entry another name or size than its header has.
"""

import re
import unicodedata
import zlib
from typing import NamedTuple

from evalwright.contracts.manifest import problem_of_ref
from evalwright.contracts.pack import InvalidPack

MIB = 1024 * 1024
MAX_ARCHIVE = 16 * MIB
MAX_UNPACKED = 16 * MIB
MAX_FILE = 8 * MIB
MAX_ENTRIES = 1000
MAX_NAME = 255
MAX_RATIO = 200  # of the unpacked to the packed size
RATIO_FROM = MIB  # below this any ratio is fine
MAX_EXTENSION = 64 * 1024

BLOCK = 512
_GZIP = 16 + zlib.MAX_WBITS
_OCTAL = re.compile(rb" *([0-7]*)[\0 ]*")
_POSIX, _GNU = b"ustar\x0000", b"ustar  \0"
_FILE, _FOLDER, _EXTENSION = (b"0", b"\0"), b"5", (b"x", b"g")
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"K": "the long name of a link",
    b"L": "a name too long for the format",
    b"S": "a file with holes",
}
# What an extension may say about the next entry: not its name, size or kind.
_HARMLESS = re.compile(
    rb"mtime|atime|ctime|uid|gid|uname|gname|comment|LIBARCHIVE\..*|SCHILY\.xattr\..*", re.DOTALL
)


class Refused(Exception):
    """A rule that an archive breaks."""


class _EntryHeader(NamedTuple):
    kind: bytes
    name: bytes
    size: int


def read_archive(archive: bytes, name: str) -> dict[str, bytes]:
    """The files of an archive by name; raises `InvalidPack` with the place and the rule."""
    reading = _TarReader()
    try:
        reading.read(_unpacked(archive))
    except Refused as refused:
        raise InvalidPack(name, [f"{reading.place}{refused}"]) from None
    return reading.files


def _unpacked(archive: bytes) -> bytes:
    """The tar file in a gzip file; never more of it is unpacked than the bounds allow."""
    if len(archive) > MAX_ARCHIVE:
        raise Refused(f"the archive is larger than {MAX_ARCHIVE} bytes (leave files out)")
    bound = min(MAX_UNPACKED, max(RATIO_FROM, MAX_RATIO * len(archive)))
    inflater = zlib.decompressobj(_GZIP)
    try:
        tar = inflater.decompress(archive, bound + 1)
    except zlib.error as error:
        raise Refused(f"not a gzip file, or damaged: {error}") from None
    if len(tar) > bound:
        shown = f"{MAX_UNPACKED} bytes" if bound == MAX_UNPACKED else f"{MAX_RATIO} times its size"
        raise Refused(f"it unpacks to more than {shown} (leave files out)")
    if not inflater.eof:
        raise Refused("the gzip file ends too soon (fetch it again)")
    if inflater.unused_data:
        more = len(inflater.unused_data)
        raise Refused(f"{more} bytes follow the end of the gzip file (pack it as one member)")
    return tar


class _TarReader:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.place = ""
        self._names = EntryNames()

    def read(self, tar: bytes) -> None:
        """Read every entry up to the end mark, which nothing may follow."""
        at, number = 0, 1
        while any(block := tar[at : at + BLOCK]):
            self.place = f"entry {number}: "
            if number > MAX_ENTRIES:
                raise Refused(f"there are more than {MAX_ENTRIES} entries (leave files out)")
            header = _header(block)
            self.place = f"entry {number} {header.name.decode(errors='replace')!r}: "
            start = at + BLOCK
            at = start + -(-header.size // BLOCK) * BLOCK
            if at > len(tar):
                raise Refused(f"it has {header.size} bytes, but the archive ends before that")
            content = tar[start : start + header.size]
            if header.kind in _EXTENSION:
                _check_extension(content)
            elif header.kind == _FOLDER:
                if header.size:
                    raise Refused("a folder with content (pack it again)")
                if header.name not in {b".", b"./"}:
                    self._names.add(checked_name(header.name.removesuffix(b"/")), is_file=False)
            elif header.kind in _FILE:
                name = checked_name(header.name)
                self._names.add(name, is_file=True)
                self.files[name] = content
            else:
                kind = _KINDS.get(header.kind, f"of the kind {header.kind.decode('latin-1')!r}")
                raise Refused(f"it is {kind} (a pack holds only plain files and folders)")
            number += 1
        self.place = f"after {number - 1} entries: "
        if len(tar) - at < 2 * BLOCK:
            raise Refused("there is no end mark, so entries may be missing (fetch it again)")
        if tar[at:].strip(b"\0"):
            raise Refused("data after the end mark (pack it again)")


def _header(block: bytes) -> _EntryHeader:
    if len(block) < BLOCK:
        raise Refused("the archive ends within a header (fetch it again)")
    blank = block[:148] + b" " * 8 + block[156:]
    if _number(block[148:156]) != sum(blank):
        raise Refused("wrong checksum in its header (fetch it again)")
    magic, prefix = block[257:265], block[345:500]
    if magic not in {_POSIX, _GNU} or (magic == _GNU and any(prefix)):
        raise Refused("its header is not in ustar format (pack it in the format ustar)")
    name, folder = _text(block[:100]), _text(prefix)
    size = _number(block[124:136])
    kind = block[156:157]
    most = MAX_EXTENSION if kind in _EXTENSION else MAX_FILE
    if size > most:
        raise Refused(f"it has {size} bytes; at most {most} are allowed (shorten it)")
    return _EntryHeader(kind, folder + b"/" + name if folder else name, size)


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _number(field: bytes) -> int:
    found = _OCTAL.fullmatch(field)
    if found is None:
        raise Refused("a number in its header is not octal (pack it in the format ustar)")
    return int(found[1] or b"0", 8)


def _check_extension(content: bytes) -> None:
    """Refuse what tar readers interpret differently; see `_HARMLESS`."""
    while content:
        digits, _, _ = content.partition(b" ")
        length = int(digits) if re.fullmatch(rb"[0-9]{1,6}", digits) else 0
        record, content = content[len(digits) + 1 : length], content[length:]
        key, equals, _ = record.partition(b"=")
        if len(digits) + 1 + len(record) != length or not equals or not record.endswith(b"\n"):
            raise Refused("damaged extension header (pack it in the format ustar)")
        if not _HARMLESS.fullmatch(key):
            shown = key[:40].decode(errors="replace")
            raise Refused(f"it changes {shown!r} of an entry (pack it in the format ustar)")


def checked_name(raw: bytes) -> str:
    """The name of an entry, decoded and without a leading `./`."""
    try:
        name = raw.decode().removeprefix("./")
    except UnicodeDecodeError:
        raise Refused("the name is not UTF-8 (rename the file)") from None
    outside = problem_of_ref(name)
    if outside is not None:
        problem = f"{outside} (name files below pack.json)"
    elif any(part in {"", "."} for part in name.split("/")):
        problem = "a part of the name is empty or `.` (write it plainly)"
    elif not name.isprintable():
        problem = "the name contains an invisible character (rename the file)"
    elif unicodedata.normalize("NFC", name) != name:
        problem = "the name is not in Unicode NFC form (rename the file)"
    elif len(name.encode()) > MAX_NAME:
        problem = f"the name is longer than {MAX_NAME} bytes (shorten it)"
    else:
        problem = None
    if problem is not None:
        raise Refused(problem)
    return name


class EntryNames:
    """The names in an archive so far; no name may mean two things."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bool]] = {}

    def add(self, name: str, *, is_file: bool) -> None:
        parts = name.split("/")
        for length in range(1, len(parts)):
            self._claim("/".join(parts[:length]), is_file=False)
        if is_file and self._known.get(name.casefold()) == (name, True):
            raise Refused("duplicate name in the archive (keep one of them)")
        self._claim(name, is_file=is_file)

    def _claim(self, name: str, *, is_file: bool) -> None:
        other, other_is_file = self._known.setdefault(name.casefold(), (name, is_file))
        if other != name:
            raise Refused(f"it differs from {other!r} only by case (rename one of them)")
        if other_is_file != is_file:
            raise Refused(f"{name!r} is both a file and a folder (rename one of them)")
