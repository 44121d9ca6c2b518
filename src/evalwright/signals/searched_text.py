"""A text in which many values are looked for: the time for all of them stays linear.

To look through a text once for each of its values takes the square of its length. After a while,
the places at which a value can begin are therefore sorted by what follows them, and a value is
found among them as a word is in a dictionary. Few searches, or a short text, never come to that.
"""

import re
from array import array
from bisect import bisect_left, bisect_right

_SHORT = 1 << 16
_SEARCHES = 256  # as many times the length of a text are searched before its places are sorted
_COMPARED = 200  # bytes by which places are sorted
_NEAR = 1 << 12
_MANY = 256  # a value with so many places is found soon by looking for it


WORDS = re.compile(b" ")  # plain words have one before each
LINKS = re.compile(b"http")
ANY_WORD = re.compile(rb"(?<![a-z0-9])[a-z0-9]")


def searched(text: bytes, beginning: "re.Pattern[bytes]") -> "bytes | SearchedText":
    """A text to find many values in: itself where it is so short that no search takes long."""
    return text if len(text) <= _SHORT else SearchedText(text, beginning)


class SearchedText:
    """A text with a quick `find` for values that begin as `beginning` says."""

    def __init__(self, text: bytes, beginning: "re.Pattern[bytes]") -> None:
        self.text = text
        self._beginning = beginning
        self._left = _SEARCHES * len(text)
        self._sorted: array[int] | None = None

    def __contains__(self, value: bytes) -> bool:
        return self.find(value) >= 0

    def find(self, value: bytes, start: int = 0, end: int | None = None) -> int:
        """The first place of a value between two places, or -1, as `bytes.find` gives it."""
        text = self.text
        last = len(text) if end is None else end
        if self._sorted is not None and self._beginning.match(value):
            place = text.find(value, start, min(last, start + _NEAR))
            return place if place >= 0 else self._look_up(value, start, last)
        place = text.find(value, start, last)
        if self._sorted is None and last > _SHORT:
            self._left -= (last if place < 0 else place) - start
            if self._left <= 0:
                text = self.text
                starts = [found.start() for found in self._beginning.finditer(text)]
                starts.sort(key=lambda at: text[at : at + _COMPARED])
                self._sorted = array("Q", starts)
        return place

    def _look_up(self, value: bytes, start: int, end: int) -> int:
        text, places = self.text, self._sorted
        assert places is not None
        head = value[:_COMPARED]
        size = len(head)
        first = bisect_left(places, head, key=lambda at: text[at : at + size])
        last = bisect_right(places, head, first, key=lambda at: text[at : at + size])
        if last - first > _MANY:
            return text.find(value, start, end)
        limit = end - len(value)
        found = [at for at in places[first:last] if start <= at <= limit]
        if len(value) > _COMPARED:
            found = [at for at in found if text.startswith(value, at)]
        return min(found, default=-1)


def as_bytes(text: str) -> bytes:
    """A text in UTF-8, also one with halves of surrogate pairs."""
    return text.encode("utf-8", "surrogatepass")
