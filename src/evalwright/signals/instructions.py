"""Sentences in untrusted text that tell the reader to do something."""

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property

from evalwright.signals.instruction_words import DIRECTIVE, PRESSURE, SENTENCE_END
from evalwright.signals.provenance_values import plain_words

_LONGEST_SENTENCE = 600
_LONGEST_PASSAGE = 900
_REACH_BEFORE = 400
_REACH_AFTER = 80


class Instruction:
    """One sentence that gives an instruction, in its text.

    It is `pressed` when words near it speak to an agent about its orders or its task.
    """

    def __init__(self, text: str, start: int, end: int, pressed: bool) -> None:
        self.text = text
        self.start = start
        self.end = end
        self.pressed = pressed

    @cached_property
    def sentence(self) -> bytes:
        """The sentence as plain words."""
        return plain_words(self.text[self.start : self.end])

    @cached_property
    def passage(self) -> bytes:
        """The sentence and what follows it, as plain words."""
        return plain_words(self.text[self.start : self.start + _LONGEST_PASSAGE])


def find_instructions(text: str) -> Iterator[Instruction]:
    """The instructions in a text, in order."""
    text = text.replace("\\n", " \n").replace("\\", " ")  # line breaks that JSON or YAML escaped
    pressure = find_pressure(text)
    for match in DIRECTIVE.finditer(text):
        end = _sentence_end(text, match.end())
        yield Instruction(text, match.start(), end, _near(pressure, match.start(), end))


def find_pressure(text: str) -> list[int]:
    """The places at which a text speaks to an agent about its orders or its task."""
    return [match.start() for match in PRESSURE.finditer(text)]


def _sentence_end(text: str, start: int) -> int:
    limit = min(len(text), start + _LONGEST_SENTENCE)
    found = SENTENCE_END.search(text, start, limit)
    return found.start() + 1 if found else limit


def _near(places: list[int], start: int, end: int) -> bool:
    nearest = bisect_left(places, start - _REACH_BEFORE)
    return nearest < len(places) and places[nearest] <= end + _REACH_AFTER
