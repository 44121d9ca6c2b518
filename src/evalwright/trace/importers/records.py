"""From bytes to records, one per line or document; and what an importer makes of a record."""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, Literal

import msgspec

from evalwright.contracts.jsonvalue import NotJson, too_heavy
from evalwright.trace.importers.canonical import is_message
from evalwright.trace.importers.values import parse_bounded
from evalwright.trace.model import Json, text_of

MAX_RECORD_BYTES = 128 * 1024 * 1024
_KEPT_OF_REFUSED = 4096
BOM = b"\xef\xbb\xbf"
_ID_IN_TEXT = re.compile(rb'"(case_id|trace_id)"\s{0,8}:\s{0,8}"([^"\\\x00-\x1f]{1,200})"')
_SEARCHED = 4096
_OPENING = re.compile(rb"\s*+[\[{]\s*+")
_BEGINNING = re.compile(rb"\{\s*+(?:[\"}]|$)|\[\s*+(?:[\[{\]]|$)")
_STRING_OR_NOT_FINITE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|-?\b(?:NaN|Infinity)\b', re.DOTALL)
_FOLLOWS = {b"}": b",]}", b"]": b",]}", b"{": b'"}'}


class ImportRecord(msgspec.Struct, frozen=True):
    """One JSON value of the input, or the fault that names why there is none."""

    number: int
    place: str
    value: Json = None
    fault: str | None = None
    head: bytes = b""


NamedBy = Literal["case_id", "conversation", "trace", "place"]


class Imported(msgspec.Struct, frozen=True):
    """One case as it was recorded; with a `fault`, what could be saved of it.

    `base_case_id` is the key by which a trace finds its baseline, where the record has one. A case
    that is not named by a case id may be found by what the user `asked`, of which that is a digest.
    """

    case_id: str
    response: dict[str, Any]
    base_case_id: str | None = None
    trace_id: str | None = None
    fault: str | None = None
    named_by: NamedBy = "case_id"
    asked: str | None = None


class Importer:
    """Reads the records of one format, of the one file that is named."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, record: ImportRecord) -> Iterable["Imported | PassedOver"]:
        """Take the next record; gives the cases that are complete with it."""
        raise NotImplementedError

    def pause(self) -> Iterable[Imported]:
        """A record of another format follows, or nothing: gives the cases that end with that."""
        return ()

    def rest(self) -> Iterable["Imported | PassedOver"]:
        """The file has ended: gives the cases that only now are complete."""
        return ()

    def is_idle(self) -> bool:
        """Whether later records are read as if there had been none before them."""
        return True


def words_of_user(response: dict[str, Any]) -> str:
    """All that the user said in a trace, with the space between words made alike."""
    events: list[dict[str, Any]] = response.get("events", [])
    said = [event["content"] for event in events if is_message(event, "user")]
    texts = [text_of(each) for each in (response.get("user_prompt"), *said)]
    return " ".join(" ".join(texts).split())


def digest_of(words: str) -> str | None:
    """A short text for a long one; None for none."""
    return blake2b(words.encode("utf-8", "replace"), digest_size=12).hexdigest() if words else None


class PassedOver(msgspec.Struct, frozen=True):
    """What of a file is no case, with how much of it there is; it has to be said."""

    reason: str


def numbered(number: int) -> str:
    """The id of a record that has none: the same in two files that hold the same cases."""
    return f"record-{number}"


def faulty(number: int, fault: str, head: bytes = b"") -> Imported:
    """A placeholder for a record that could not be read; ids near its beginning are kept."""
    ids = {
        key.decode(): value.decode("utf-8", "replace")
        for key, value in reversed(_ID_IN_TEXT.findall(head[:_SEARCHED]))
    }
    trace_id = ids.get("trace_id")
    return Imported(
        case_id=ids.get("case_id") or trace_id or numbered(number),
        response={},
        trace_id=trace_id,
        fault=fault,
    )


class FileStretch(msgspec.Struct):
    """Lines of a file that are read apart from those before and after them.

    `lines` and `records` count what came before. Whoever reads it says whether each line stands
    for itself, how many records there are up to its end, and whether what follows it `is_free` of
    it: nothing is held back for a later record.
    """

    lines: int = 0
    records: int = 0
    line_by_line: bool | None = None
    is_free: bool = False


class _Line(msgspec.Struct, frozen=True):
    number: int
    text: bytes
    refused: bool = False


def read_records(
    chunks: Iterable[bytes], name: str, stretch: FileStretch | None = None
) -> Iterator[ImportRecord]:
    """The records of a file: of each line its own, or of documents over many lines.

    Chunks are lines or blocks, cut anywhere.
    """
    stretch = stretch or FileStretch()
    lines = _lines(chunks, stretch.lines)
    head = list(islice(lines, 2))
    if not head:
        return
    if stretch.line_by_line is None:
        first, second = head[0], head[-1]
        stretch.line_by_line = (
            len(head) == 1
            or first.refused
            or isinstance(_value(first.text), dict | list)
            # A damaged first line must not make one broken document of all that follow.
            or (not _OPENING.fullmatch(first.text) and isinstance(_value(second.text), dict))
        )
    line_by_line = stretch.line_by_line
    for number, (document, alone) in enumerate(
        _documents(chain(head, lines), line_by_line=line_by_line), stretch.records + 1
    ):
        place = name if alone and not line_by_line else f"{name}: line {document.number}"
        fault = None if document.refused else too_heavy(document.text)
        value: Json = None
        if document.refused:
            size = MAX_RECORD_BYTES // 1024 // 1024
            fault = f"larger than {size} MiB, which is not read; write one record per line"
        elif fault is None:
            try:
                value = _parsed(document.text)
            except NotJson as error:
                fault = f"not readable as JSON ({error.reason}); repair or remove it"
        if fault is None:
            yield ImportRecord(number, place, value)
        else:
            beginning = document.text[:_KEPT_OF_REFUSED]
            yield ImportRecord(number, place, fault=f"{place}: {fault}", head=beginning)


def _parsed(text: bytes) -> Json:
    """A JSON value; numbers that JSON does not have, in Python's notation, are null."""
    try:
        return parse_bounded(text)
    except NotJson:
        if b"NaN" not in text and b"Infinity" not in text:
            raise
    return parse_bounded(
        _STRING_OR_NOT_FINITE.sub(
            lambda found: found[0] if found[0].startswith(b'"') else b"null", text
        )
    )


def _documents(lines: Iterable[_Line], *, line_by_line: bool) -> Iterator[tuple[_Line, bool]]:
    """Lines put together to documents, each with whether it is the only one.

    Console exporters print one document after another over many lines, between what else a
    program prints.
    """
    document: _Document | None = None
    count = 0
    for line in lines:
        if document is not None and document.ends_before(line, line_by_line=line_by_line):
            count += 1
            yield document.joined(), False
            document = None
        if document is None:
            document = _Document(line)
        else:
            document.add(line)
    if document is not None:
        yield document.joined(), not count


class _Document:
    """Lines of one document; beyond the limit only its beginning is kept."""

    def __init__(self, line: _Line) -> None:
        self._number = line.number
        self._opens_alone = _OPENING.fullmatch(line.text) is not None
        self._opens = self._opens_alone or _BEGINNING.match(line.text) is not None
        self._parts = [line.text]
        self._size = len(line.text)
        self._refused = line.refused
        self._last = line.text

    def ends_before(self, line: _Line, *, line_by_line: bool) -> bool:
        """Whether the next line cannot belong to this document.

        Strings hold no line ends, so the last character of a line says what may follow in a
        document: anything else begins something new.
        """
        if line_by_line and not self._opens_alone:
            return True
        if not self._opens:
            return _BEGINNING.match(line.text) is not None
        last = self._last.rstrip()[-1:]
        follows = _FOLLOWS.get(last)
        return follows is not None and line.text.lstrip()[:1] not in follows

    def add(self, line: _Line) -> None:
        """Take the next line."""
        self._last = line.text
        self._size += len(line.text) + 1
        self._refused = self._refused or line.refused or self._size > MAX_RECORD_BYTES
        if self._refused:
            self._parts = [b"\n".join(self._parts)[:_KEPT_OF_REFUSED]]
        else:
            self._parts.append(line.text)

    def joined(self) -> _Line:
        """The document as if it were one line."""
        return _Line(self._number, b"\n".join(self._parts), self._refused)


def _value(source: bytes) -> Json:
    try:
        return parse_bounded(source)
    except NotJson:
        return None


def _lines(chunks: Iterable[bytes], before: int) -> Iterator[_Line]:
    """The lines in which something is written."""
    pending = _Pending(before)
    stripped = False
    for place, chunk in enumerate(chunks):
        if place == 1:
            stripped = pending.is_first_line() and chunk[:1] != b"\n" and pending.is_whole()
        if stripped:
            yield from pending.line()
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            pending.add(part)
            yield from pending.line()
        pending.add(rest)
    yield from pending.line()


class _Pending:
    """The line that is being put together; beyond the limit only its beginning is kept."""

    def __init__(self, before: int) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._number = self._before = before

    def add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= MAX_RECORD_BYTES:
            self._parts.append(part)
        else:
            self._parts = [b"".join([*self._parts, part[:_KEPT_OF_REFUSED]])[:_KEPT_OF_REFUSED]]

    def is_first_line(self) -> bool:
        """Whether no line has ended yet."""
        return self._number == self._before

    def is_whole(self) -> bool:
        """Whether there is a whole value already: then chunks are lines without line ends."""
        return isinstance(_value(b"".join(self._parts)), dict | list)

    def line(self) -> Iterator[_Line]:
        self._number += 1
        content = b"".join(self._parts)
        content = content.removeprefix(BOM) if self._number == 1 else content
        if content.strip():
            yield _Line(self._number, content, self._size > MAX_RECORD_BYTES)
        self._parts, self._size = [], 0
