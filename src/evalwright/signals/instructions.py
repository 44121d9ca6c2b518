"""Sentences in untrusted text that tell the reader to do something."""

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property

from evalwright.signals.instruction_words import (
    DIRECTIVE,
    FIELD,
    PRESSURE,
    SENTENCE_END,
    VERB_KINDS,
)
from evalwright.signals.provenance_values import plain_words

# Lengths in bytes. A sentence longer than this is a listing; an order follows its pressure closely.
_LONGEST_SENTENCE = 600
_LONGEST_PASSAGE = 900
_REACH_BEFORE = 400
_REACH_AFTER = 80
_LONGEST_READ_WHOLE = 200_000
_MOST_PLACES = 200


class Instruction:
    """One sentence that gives an instruction, and the place of the pressure on its reader."""

    def __init__(self, raw: bytes, start: int, end: int, pressure: int | None) -> None:
        self._raw = raw
        self._start = start
        self._end = end
        self._pressure = pressure

    @property
    def pressed(self) -> bool:
        """Whether words near it speak to an agent about its orders or its task."""
        return self._pressure is not None

    @cached_property
    def sentence(self) -> bytes:
        """The sentence as plain words."""
        return _words(self._raw[self._start : self._end])

    @cached_property
    def passage(self) -> bytes:
        """What stands under the pressure from the sentence on, as plain words."""
        if self._pressure is None or self._pressure > self._start:
            return b""
        rest = self._raw[self._end : self._start + _LONGEST_PASSAGE]
        field = FIELD.search(rest)
        end = self._end + (field.start() if field else len(rest))
        return _words(self._raw[self._start : end])

    @cached_property
    def words(self) -> frozenset[bytes]:
        """The words of the sentence."""
        return frozenset(self.sentence.split())

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of the verbs in the sentence."""
        return frozenset(VERB_KINDS[word] for word in self.words if word in VERB_KINDS)


class Reading:
    """An untrusted text under search; of a very long one, only what lies near pressure is read."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def raw(self) -> bytes:
        """The text in bytes, with line breaks that JSON or YAML escaped as line breaks."""
        escaped = self._text.encode("utf-8", "replace")
        return escaped.replace(b"\\n", b" \n").replace(b"\\", b" ")

    @cached_property
    def pressure(self) -> list[int]:
        """The places that speak to an agent about its orders or its task."""
        return [match.start() for match in PRESSURE.finditer(self.raw)]

    @cached_property
    def instructions(self) -> list[Instruction]:
        """The instructions in the text, in order."""
        found = []
        for start, verb_end in self._directives():
            end = _sentence_end(self.raw, verb_end)
            found.append(Instruction(self.raw, start, end, self._pressure_on(start, end)))
        return found

    @property
    def pressed(self) -> Iterator[Instruction]:
        """The instructions that the reader is pressed to obey."""
        if self.pressure:
            yield from (each for each in self.instructions if each.pressed)

    def _directives(self) -> Iterator[tuple[int, int]]:
        if len(self.raw) <= _LONGEST_READ_WHOLE:
            yield from (match.span() for match in DIRECTIVE.finditer(self.raw))
            return
        read = 0
        for place in self.pressure[:_MOST_PLACES]:
            begin = max(read, place - _LONGEST_SENTENCE)
            read = max(read, place + _LONGEST_PASSAGE)
            for match in DIRECTIVE.finditer(self.raw[begin:read]):
                yield begin + match.start(), begin + match.end()

    def _pressure_on(self, start: int, end: int) -> int | None:
        nearest = bisect_left(self.pressure, start - _REACH_BEFORE)
        if nearest == len(self.pressure) or self.pressure[nearest] > end + _REACH_AFTER:
            return None
        return self.pressure[nearest]


def _words(raw: bytes) -> bytes:
    return plain_words(raw.decode("utf-8", "replace"))


def _sentence_end(raw: bytes, start: int) -> int:
    rest = raw[start : start + _LONGEST_SENTENCE]
    found = SENTENCE_END.search(rest)
    return start + (found.start() + 1 if found else len(rest))
