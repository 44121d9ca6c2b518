"""A case file, read piece by piece: only the places of its cases are kept in memory."""

import json
import os
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from evalwright.contracts.documents import open_input
from evalwright.contracts.errors import BadInput
from evalwright.trace.model import Json

_BLOCK = 1 << 18
_MOST_IN_ONE_CASE = 256 << 20
_REMEDY = "expected an array of cases, or an object with such an array as its `cases`"
_SPACE = re.compile(r"[ \t\n\r]*")


class CaseFile:
    """The cases of a file by their number, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offsets = array("Q")
        self._lengths = array("I")
        self._handle: int | None = None
        try:
            with open_input(path) as file:
                if not file.seekable():
                    raise BadInput(f"{path}: the cases must be a file, not a pipe")
                for offset, length in CaseScanner(file, str(path)).elements():
                    self._offsets.append(offset)
                    self._lengths.append(length)
        except OSError as error:
            raise BadInput(f"{path}: the cases cannot be read: {error.strerror}") from None

    def __len__(self) -> int:
        return len(self._offsets)

    def ids(self) -> Iterator[Json]:
        for number in range(len(self)):
            try:
                yield msgspec.json.decode(self._raw(number), type=_Identified).id
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                yield None

    def case(self, number: int) -> Json:
        try:
            return msgspec.json.decode(self._raw(number))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return None

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _raw(self, number: int) -> bytes:
        if self._handle is None:
            self._handle = os.open(self.path, os.O_RDONLY)
        return os.pread(self._handle, self._lengths[number], self._offsets[number])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handle": None}


class _Identified(msgspec.Struct):
    id: Json = None


class CaseScanner:
    """Finds the elements of the array of cases, holding no more than one block and one case.

    Bytes are read as Latin-1, so that a place in the text is a place in the file; structure in
    JSON is ASCII alone.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._text = ""
        self._start = 0  # the place in the file of the text's first character
        self._at = 0
        # Only places are wanted: numbers of any size stay text.
        self._decoder = json.JSONDecoder(parse_int=str, parse_float=str)

    def elements(self) -> Iterator[tuple[int, int]]:
        """The offset and length of each case."""
        if self._peek() == "\xef":  # a byte order mark
            self._at += 3
        wrapped = self._peek() == "{"
        if wrapped:
            self._find_cases()
        if self._peek() != "[":
            raise self._wrong(_REMEDY)
        self._at += 1
        yield from self._array()
        if self._peek() not in ((",", "}") if wrapped else ("",)):
            raise self._wrong("there is something after the cases, or the file is cut off")

    def _array(self) -> Iterator[tuple[int, int]]:
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            self._peek()
            offset = self._start + self._at
            self._decoded()
            yield (offset, self._start + self._at - offset)
            mark = self._peek()
            self._at += 1
            if mark == "]":
                return
            if mark != ",":
                raise self._wrong("expected `,` or `]` after a case; is the file cut off?")

    def _find_cases(self) -> None:
        self._at += 1
        while self._peek() != "}":
            key = self._decoded()
            if self._peek() != ":":
                raise self._wrong("expected `:` after a key")
            self._at += 1
            self._peek()
            if key == "cases":
                return
            self._decoded()
            if self._peek() == ",":
                self._at += 1
        raise self._wrong(_REMEDY)

    def _decoded(self) -> Json:
        """The value here; more of the file is read until it is whole."""
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                if not self._more():
                    raise self._wrong("nested too deeply") from None
                continue
            except json.JSONDecodeError as error:
                if not self._more():
                    is_cut_off = error.pos >= len(self._text.rstrip())
                    cut_off = "; the file ends here" if is_cut_off else ""
                    reason = f"not valid JSON ({error.msg}){cut_off}"
                    raise self._wrong(reason, error.pos) from None
                continue
            # A number may go on in the next block, also after a point or `e+`.
            if end + 2 < len(self._text) or not self._more():
                self._at = end
                return value

    def _peek(self) -> str:
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Read on. What is done with goes only now: to move the rest for each case would cost."""
        rest = len(self._text) - self._at
        block = self._file.read(max(_BLOCK, rest))  # doubling is linear for one huge case
        if not block:
            return False
        self._text = self._text[self._at :] + block.decode("latin-1")
        self._start += self._at
        self._at = 0
        if len(self._text) > _MOST_IN_ONE_CASE:
            raise self._wrong("a single case of more than 256 MiB")
        return True

    def _wrong(self, reason: str, at: int | None = None) -> BadInput:
        offset = self._start + (self._at if at is None else at)
        self._file.seek(0)
        before = self._file.read(offset)
        column = offset - (before.rfind(b"\n") + 1) + 1
        line = before.count(b"\n") + 1
        place = f"line {line} column {column}"
        return BadInput(f"{self._name}: not a file of cases, {place}: {reason}")
