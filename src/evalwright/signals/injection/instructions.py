"""Sentences in untrusted text that tell the reader to do something."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import TypeAlias

from evalwright.signals.injection.verbs import PARTICIPLE_KINDS, VERB_KINDS, kinds_of
from evalwright.signals.injection.words import (
    ASSAULT,
    DIRECTIVE,
    ELEMENT,
    FIELD,
    HEADING,
    IDENTIFIER,
    ITEM,
    JOINING,
    OWN_VALUE,
    PRESSURE,
    SENTENCE_END,
    TAKEOVER,
    is_no_order,
)
from evalwright.signals.patterns import first_in, occurs_in, spans_in
from evalwright.signals.searched_text import ANY_WORD, SearchedText, searched
from evalwright.signals.written_values import is_character, plain_bytes
from evalwright.trace.cached import cached

# Lengths in bytes. A sentence longer than this is a listing; an order follows its pressure closely.
_LONGEST_SENTENCE = 600
_LONGEST_PASSAGE = 900
_REACH_BEFORE = 400
_REACH_AFTER = 80
_LONGEST_SUBJECT = 200
_LONGEST_READ_WHOLE = 20_000
_SHORT_TEXT = 4_000
_MOST_PLACES = 1_000
_APART = "\n.?!\n"  # no instruction reaches across, nor any pressure
_STEM = 5
_ESCAPE = ord("\\")
_SHORT_WORD = 3
_LONGEST_VERB = 16
_SHORT_SENTENCE = 8
REPEATED = 4
_GLUE = (b".", b"@", b"_", b"/", b"-")  # within an address or a name
MARKS = b"\"'`*(.!?:;,>)]}|-"
_ACTS = frozenset(VERB_KINDS.values()) - {"say", "read"}
Span: TypeAlias = tuple[int, int]
_BOUNDS = (b". ", b"! ", b"? ", b"\n", b'"', b"',", b"':", b"<", b">", b"{", b"}")


class Instruction:
    """One sentence that gives an instruction, and the place of the pressure on its reader."""

    def __init__(self, text: "InstructionReader", start: int, verb_end: int) -> None:
        self._text = text
        self._raw = text.raw
        self._start = start
        self._verb_end = verb_end

    @cached
    def _pressure(self) -> int | None:
        """The first place near enough that speaks to the same reader: in the same field or item."""
        pressure = self._text.pressure
        nearest = bisect_left(pressure, self._start - _REACH_BEFORE)
        for place in pressure[nearest:]:
            if place >= self._start or self._text.reach(place) > self._start:
                return place
        return None

    @cached
    def pressed(self) -> bool:
        """Whether words near it speak to an agent about its orders or its task."""
        after = self._pressure - self._start if self._pressure is not None else _LONGEST_PASSAGE
        if not 0 < after < _LONGEST_SENTENCE + _REACH_AFTER:
            return after <= 0
        return self._start + after <= self._end + _REACH_AFTER

    @property
    def _verb(self) -> bytes:
        return self._text.verb(self._start, self._verb_end)

    @property
    def verb_stem(self) -> bytes:
        """The beginning of that verb."""
        return stem(self._verb)

    @property
    def deeds(self) -> frozenset[str]:
        """The kinds of what it tells to do: of its verb, or in the passive, of what is to be."""
        known = kinds_of(self._verb)
        told = [known] if known else [(PARTICIPLE_KINDS.get(word, ""),) for word in self.words]
        return frozenset(kind for kinds in told for kind in kinds)

    def is_near(self, places: list[int]) -> bool:
        """Whether the first of the places after its subject lies in its sentence or passage."""
        first = bisect_left(places, self._start - _LONGEST_SUBJECT)
        return places[first] < self._verb_end or places[first] < self._end or self.pressed

    def may_hold(self, keys: Iterable[bytes]) -> bool:
        """Whether a word is near enough for the sentence or the passage to contain it."""
        find, first, last = self._text.lower.find, self._opening, self._start + _LONGEST_PASSAGE
        for key in keys:  # noqa: SIM110  (asked very often)
            if find(key, first, last) >= 0:
                return True
        return False

    @cached
    def _opening(self) -> int:
        head = self._raw[self._start : self._start + 1]
        if not head.isalpha() and head != b",":
            return self._start
        first = max(0, self._start - _LONGEST_SUBJECT)
        before = self._raw[first : self._start]
        return first + max(map(before.rfind, _BOUNDS)) + 1

    @cached
    def _end(self) -> int:
        rest = self._raw[self._verb_end : self._verb_end + _LONGEST_SENTENCE]
        found = first_in(SENTENCE_END, rest)
        return self._verb_end + (found[0] + 1 if found else len(rest))

    @cached
    def sentence(self) -> bytes:
        """The sentence as plain words."""
        return plain_bytes(self._raw[self._opening : self._end])

    @property
    def is_prose(self) -> bool:
        """Whether it reads as a sentence: a long one has words that only join others."""
        words = self.sentence.split()
        if len(words) <= _SHORT_SENTENCE or not JOINING.isdisjoint(words):
            return True
        return sum(not is_character(word) for word in words) <= _SHORT_SENTENCE

    @property
    def order(self) -> bytes:
        """The sentence from its verb on, as plain words; after a semicolon comes another."""
        return plain_bytes(self._raw[self._start : self._end].partition(b";")[0])

    @cached
    def _head(self) -> bytes:
        """The verb and the words that follow it closely, which others have who repeat the order."""
        matched = self._raw[self._start : self._verb_end]
        verb = self._verb_end - len(matched.split()[-1].lstrip(MARKS))
        words = plain_bytes(self._raw[verb : self._end]).split()
        return b" %b " % b" ".join(words[:REPEATED]) if len(words) >= REPEATED else b""

    def is_repeated_in(self, words: bytes) -> bool:
        """Whether plain words hold the order itself, as a record does that has it in its name."""
        return bool(self._head) and words.find(self._head) >= 0

    @property
    def names_an_identifier(self) -> bool:
        """Whether the sentence holds a name such as programs give: `read_mail`, ReadMail."""
        return occurs_in(IDENTIFIER, self._raw[self._opening : self._end])

    @property
    def names_a_value(self) -> bool:
        """Whether it says which one: by a number, an address, or a name in quotes."""
        return occurs_in(OWN_VALUE, self._raw[self._verb_end : self._end])

    @cached
    def passage(self) -> bytes:
        """The text under pressure from the sentence on, as plain words."""
        if self._pressure is None or self._pressure > self._start:
            return b""
        end = min(self._text.reach(self._pressure), self._start + _LONGEST_PASSAGE)
        return plain_bytes(self._raw[self._start : end])

    @cached
    def words(self) -> frozenset[bytes]:
        """The words of the sentence."""
        return frozenset(self.sentence.split())

    @cached
    def stems(self) -> frozenset[bytes]:
        """The beginnings of its words."""
        return stems_of(self.words)

    @property
    def verb_stems(self) -> frozenset[bytes]:
        """The beginnings of those of its words that are verbs."""
        return frozenset(stem(word) for word in self.words if word in VERB_KINDS)

    @cached
    def kinds(self) -> frozenset[str]:
        """The kinds of the verbs in the sentence."""
        return frozenset(kind for word in self.words for kind in kinds_of(word))


class InstructionReader:
    """An untrusted text under search; of a long one, only what lies near the point is read."""

    def __init__(self, text: str, *, may_press: bool = True) -> None:
        self.raw = unescaped(text)  # line breaks that JSON or YAML escaped are line breaks
        self._may_press = may_press
        self._found: dict[bytes, list[int]] = {}
        self._made: dict[Span, Instruction] = {}

    @cached
    def pressure(self) -> list[int]:
        """The places that speak to an agent about its orders or its task, in order."""
        if not self._may_press:
            return []
        return [start for start, _ in spans_in(PRESSURE, self.raw)]

    @cached
    def asks_to_act(self) -> bool:
        """Whether a pressing instruction tells to do something."""
        return next(self._pressed(*_ACTS), None) is not None

    @cached
    def is_assault(self) -> bool:
        """Whether it speaks against the orders or the role of an agent."""
        return occurs_in(ASSAULT, self.raw)

    @cached
    def takes_over(self) -> bool:
        """Whether it speaks to an agent of its task or against its orders, not of rules alone."""
        return occurs_in(TAKEOVER, self.raw)

    @cached
    def presses(self) -> bool:
        """Whether it presses the reader to obey any instruction."""
        return next(self._pressed(), None) is not None

    @cached
    def pressed(self) -> list[Instruction]:
        """The instructions that the reader is pressed to obey, in order."""
        return list(self._pressed())

    def _pressed(self, *kinds: str) -> Iterator[Instruction]:
        for span in self._near_pressure:
            if not kinds or VERB_KINDS.get(self.verb(*span), "") in kinds:
                each = self._make(span)
                if each.pressed:
                    yield each

    @cached
    def _near_pressure(self) -> list[Span]:
        pressure, reach = self.pressure, _LONGEST_SENTENCE + _REACH_AFTER
        if not pressure:
            return []
        # A longer text is not read as a whole for this alone.
        near: Iterable[Span] | None = self._whole if len(self.raw) <= _SHORT_TEXT else None
        if near is None:
            near = self._near(pressure[:_MOST_PLACES], reach, _REACH_BEFORE)
        return list(_beside(pressure, near, _REACH_BEFORE, reach))

    def holding(self, words: Iterable[bytes]) -> Iterable[Instruction]:
        """The instructions whose sentences may hold one of the words, in order."""
        spans = self._whole
        if spans is not None and not spans:
            return ()
        places = sorted({place for word in words for place in self._places(word)})
        if not places:
            return ()
        near = self._near(places, _LONGEST_SENTENCE, _LONGEST_SUBJECT) if spans is None else spans
        beside = _beside(places, near, _LONGEST_SUBJECT, _LONGEST_PASSAGE)
        return (each for each in map(self._make, beside) if each.is_near(places))

    def _make(self, span: Span) -> Instruction:
        made = self._made.get(span)
        if made is None:
            made = Instruction(self, *span)
            if len(self._made) < _MOST_PLACES:
                self._made[span] = made
        return made

    @cached
    def _whole(self) -> list[Span] | None:
        """Where there are instructions in a text that is not too long to be read as a whole."""
        length = len(self.raw)
        return None if length > _LONGEST_READ_WHOLE else list(self._near([0], 0, length))

    def _places(self, word: bytes) -> list[int]:
        known = self._found.get(word)
        if known is None:
            known = list(islice(self._occurrences(word), _MOST_PLACES))
            if len(self._found) < _MOST_PLACES:
                self._found[word] = known
        return known

    def _occurrences(self, word: bytes) -> Iterator[int]:
        find, text = self._lower.find, self.lower
        place = find(word)
        while place >= 0:
            # A short word is part of many longer ones.
            if len(word) > _SHORT_WORD or not text[place - 1 : place].isalnum():
                yield place
            place = find(word, place + len(word))

    @cached
    def _lower(self) -> bytes | SearchedText:
        return searched(self.lower, ANY_WORD)

    def _near(self, places: list[int], before: int, after: int) -> Iterator[Span]:
        for begin, end in _merged(places, before, after):
            for span in spans_in(DIRECTIVE, self.raw, begin, end):
                if _is_order(self.raw, *span):
                    yield span

    @cached
    def lower(self) -> bytes:
        """The bytes in lower case, each in its place."""
        return self.raw.lower()

    def reach(self, place: int) -> int:
        """How far the pressure at a place reaches: to the next field or item beside its own."""
        known = self._reaches.get(place)
        if known is None:
            rest = self.raw[place : place + _LONGEST_PASSAGE + _REACH_BEFORE]
            ends = [first_in(FIELD, rest)]
            if self._is_record:
                ends.append(first_in(ELEMENT, rest))
            heading = first_in(HEADING, rest)
            if heading is not None and not rest[: heading[0]].rstrip().endswith(b":"):
                ends.append(heading)
            before = self.raw[max(0, place - _REACH_BEFORE) : place].rpartition(b"\n\n")[2]
            if occurs_in(ITEM, b"\n" + before):
                ends.append(first_in(ITEM, rest))
            self._reaches[place] = known = place + min(
                (end[0] + 1 for end in ends if end is not None), default=len(rest)
            )
        return known

    @cached
    def _reaches(self) -> dict[int, int]:
        return {}

    @cached
    def _is_record(self) -> bool:
        return self.raw.lstrip()[:1] in (b"{", b"[")

    def verb(self, start: int, end: int) -> bytes:
        """The verb with which an instruction opens that was found between two places."""
        return self.lower[max(start, end - _LONGEST_VERB) : end].split()[-1].strip(MARKS)


def _is_order(raw: bytes, start: int, verb_end: int) -> bool:
    """Whether it is not the name of a field, nor a statement that only looks like an order."""
    after = raw[verb_end : verb_end + 2]
    if after in (b'":', b"':") or (after[:1] in _GLUE and after[1:].isalnum()):
        return False
    return not is_no_order(raw[start:verb_end])


def _beside(places: list[int], spans: Iterable[Span], before: int, after: int) -> Iterator[Span]:
    for span in spans:
        first = bisect_left(places, span[0] - before)
        if first < len(places) and places[first] < span[0] + after:
            yield span


def _merged(places: list[int], before: int, after: int) -> Iterator[tuple[int, int]]:
    begin = end = 0
    for place in places:
        if place - before > end:
            if end > begin:
                yield begin, end
            begin = place - before
        end = place + after
    if end > begin:
        yield begin, end


def as_one(texts: Iterable[str]) -> str:
    """Texts to be looked through at once, which is faster than one by one."""
    return _APART.join(texts)


def read_as_one(texts: Iterable[str]) -> bytes:
    """The same in UTF-8, as instructions are looked for in it."""
    return unescaped(as_one(texts))


def unescaped(text: str) -> bytes:
    """A text in UTF-8, with the line breaks that JSON or YAML escaped."""
    raw = text.encode("utf-8", "replace")
    return raw.replace(b"\\n", b" \n").replace(b"\\", b" ") if _ESCAPE in raw else raw


def holding_instructions(together: bytes, texts: Sequence[str]) -> list[int]:
    """The places of the texts, read as one, that hold anything like an instruction."""
    span = first_in(DIRECTIVE, together)
    if span is None:
        return []
    lengths = list(map(len, texts))
    if sum(lengths) + len(_APART) * (len(texts) - 1) != len(together):  # not all is ASCII
        lengths = [len(unescaped(text)) for text in texts]
    ends = list(accumulate([length + len(_APART) for length in lengths]))
    found: list[int] = []
    while span is not None:
        # It may begin between two texts, but never ends there.
        found.append(bisect_right(ends, span[1] - 1))
        span = first_in(DIRECTIVE, together, ends[found[-1]] - len(_APART))
    return found


def stem(word: bytes) -> bytes:
    """The beginning of a word."""
    return word.removesuffix(b"s")[:_STEM]


def stems_of(words: frozenset[bytes]) -> frozenset[bytes]:
    """The beginnings of words, so that a reservation meets what reserves, and repo a repository."""
    return frozenset(map(stem, words)) | frozenset(word[: _STEM - 1] for word in words)
