"""Sentences in untrusted text that tell the reader to do something."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property

from evalwright.signals.instruction_words import (
    ALSO,
    DIRECTIVE,
    FIELD,
    PARTICIPLE_KINDS,
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
_LONGEST_SUBJECT = 200
_LONGEST_READ_WHOLE = 20_000
_MOST_PLACES = 1_000
_MARKS = b"\"'`*(.!?:;,>)]}|-"
_BOUNDS = (b". ", b"! ", b"? ", b"\n", b'"', b"',", b"':", b"<", b">", b"{", b"}")


class Instruction:
    """One sentence that gives an instruction, and the place of the pressure on its reader."""

    def __init__(self, raw: bytes, start: int, verb_end: int, pressure: int | None) -> None:
        self._raw = raw
        self._start = start
        self._verb_end = verb_end
        self._pressure = pressure

    @cached_property
    def pressed(self) -> bool:
        """Whether words near it speak to an agent about its orders or its task."""
        if self._pressure is None:
            return False
        return self._pressure <= self._start or self._pressure <= self._end + _REACH_AFTER

    @property
    def verb_kind(self) -> str:
        """The kind of the verb that opens the instruction; empty for one that is not known."""
        verb = self._raw[self._start : self._verb_end].lower().split()[-1]
        return VERB_KINDS.get(verb.strip(_MARKS), "")

    def may_hold(self, keys: Iterable[bytes]) -> bool:
        """Whether a word stands near enough for the sentence or the passage to hold it."""
        near = self._near
        return any(key in near for key in keys)

    @cached_property
    def _near(self) -> bytes:
        return self._raw[self._opening : self._start + _LONGEST_PASSAGE].lower()

    @cached_property
    def _opening(self) -> int:
        """Where the sentence begins: its subject, and what it is about, may precede the verb."""
        head = self._raw[self._start : self._start + 1]
        if not head.isalpha() and head != b",":
            return self._start
        first = max(0, self._start - _LONGEST_SUBJECT)
        before = self._raw[first : self._start]
        return first + max(map(before.rfind, _BOUNDS)) + 1

    @cached_property
    def _end(self) -> int:
        rest = self._raw[self._verb_end : self._verb_end + _LONGEST_SENTENCE]
        found = SENTENCE_END.search(rest)
        return self._verb_end + (found.start() + 1 if found else len(rest))

    @cached_property
    def sentence(self) -> bytes:
        """The sentence as plain words."""
        return _words(self._raw[self._opening : self._end])

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
        return frozenset(kind for word in self.words for kind in kinds_of(word))


class Reading:
    """An untrusted text under search; of a long one, only what lies near the point is read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[bytes, list[int]] = {}

    @cached_property
    def raw(self) -> bytes:
        """The text in bytes, with line breaks that JSON or YAML escaped as line breaks."""
        raw = self._text.encode("utf-8", "replace")
        return raw.replace(b"\\n", b" \n").replace(b"\\", b" ") if b"\\" in raw else raw

    @cached_property
    def pressure(self) -> list[int]:
        """The places that speak to an agent about its orders or its task."""
        return [match.start() for match in PRESSURE.finditer(self.raw)]

    @cached_property
    def pressed(self) -> list[Instruction]:
        """The instructions that the reader is pressed to obey, in order."""
        if not self.pressure:
            return []
        reach = _LONGEST_SENTENCE + _REACH_AFTER
        near = self._whole
        if near is None:
            near = list(self._near(self.pressure[:_MOST_PLACES], reach, _REACH_BEFORE))
        return [each for each in near if each.pressed]

    def holding(self, words: Iterable[bytes]) -> Iterable[Instruction]:
        """The instructions whose sentences may hold one of the words, in order."""
        if self._whole is not None:
            return self._whole
        places = sorted({place for word in words for place in self._places(word)})
        return self._near(places, _LONGEST_SENTENCE, _LONGEST_SUBJECT)

    @cached_property
    def _whole(self) -> list[Instruction] | None:
        """All instructions of a text that is not too long to be read as a whole."""
        length = len(self.raw)
        return None if length > _LONGEST_READ_WHOLE else list(self._near([0], 0, length))

    def _places(self, word: bytes) -> list[int]:
        known = self._found.get(word)
        if known is None:
            known = []
            place = self._lower.find(word)
            while place >= 0 and len(known) < _MOST_PLACES:
                known.append(place)
                place = self._lower.find(word, place + len(word))
            self._found[word] = known
        return known

    @cached_property
    def _lower(self) -> bytes:
        return self.raw.lower()

    def _near(self, places: list[int], before: int, after: int) -> Iterator[Instruction]:
        read = 0
        for place in places:
            begin, end = max(read, place - before), place + after
            for match in DIRECTIVE.finditer(self.raw, begin, end) if end > begin else ():
                start, read = match.span()
                if _is_key(self.raw, read):
                    continue
                yield Instruction(self.raw, start, read, self._pressure_near(start))
            read = max(read, end)

    def _pressure_near(self, start: int) -> int | None:
        nearest = bisect_left(self.pressure, start - _REACH_BEFORE)
        return self.pressure[nearest] if nearest < len(self.pressure) else None


def kinds_of(word: bytes) -> tuple[str, ...]:
    """The kinds of verb that a word may be."""
    kind = VERB_KINDS.get(word) or PARTICIPLE_KINDS.get(word)
    return (kind, *ALSO.get(word, ())) if kind else ()


def _is_key(raw: bytes, end: int) -> bool:
    """Whether a word is the name of a field of a JSON object."""
    return raw[end : end + 2] in (b'":', b"':")


def _words(raw: bytes) -> bytes:
    return plain_words(raw.decode("utf-8", "replace"))
