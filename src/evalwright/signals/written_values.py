"""Values of arguments and the forms in which texts may write them."""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from evalwright.trace.cached import recent
from evalwright.trace.model import Json

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


# A call with more values than this is data, not a set of arguments; the rest is not traced.
MOST_VALUES = 2_000
_MOST_IN_ONE = 500

_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789.,")
_TO_SPACES = bytes(code if code in _KEPT or code > 127 else 32 for code in range(256))
_NO_LETTERS = bytes(code for code in range(128) if code not in _KEPT or code in b".,")
# Quotes, dashes and marks of other scripts, and where a character of a script without spaces ends
# or begins: each is a word, since nothing tells where words begin.
_NO_WORD = re.compile(
    rb"\xe2\x80[\x93-\x9f\xa2\xa6]|\xc2[\xab\xbb\xa1\xbf]|\xe3\x80[\x80-\x9f]|\xef\xbc[\x81-\x8f\x9a-\x9f]"
)
_IN_WORDS = re.compile(
    rb"(?<=[\xe3-\xed][\x80-\xbf][\x80-\xbf])(?=[a-z0-9\xe3-\xed])"
    rb"|(?<=[a-z0-9])(?=[\xe3-\xed][\x80-\xbf])"
)
_ASCII = bytes(range(128))
# Bytes with which no such mark and no such script begins.
_NEVER_PARTED = bytes(code for code in range(128, 256) if code < 0xE2 and code != 0xC2)
_SPACE, _ESCAPE = b" \\"  # a byte is looked for sooner as a number
_MARKS = (b".", b",")
_NO_TEXT = b"\xff"  # never occurs in UTF-8, and plain words keep it
_BORDER = b" %b " % _NO_TEXT
_LONG = 1_000_000
_SHORT_VALUE = 200
_CHARACTER, _FIRST_CHARACTER = 3, 0xE3  # bytes in UTF-8
_SHORTEST_ACCOUNT, _LONGEST_ACCOUNT = 12, 34
_FEWEST_DIGITS = 8
_GROUP = 4
_MONTHS = (
    b"january february march april may june july august september october november december"
).split()


def plain_words(text: str) -> bytes:
    """A text in lower case as words between single spaces, also before the first and the last.

    Punctuation goes, but for `.` and `,` inside a word, and so do escaped line breaks.
    """
    return _plain(_lowered(text))


@recent(128)
def recent_words(text: str) -> bytes:
    """As `plain_words`, kept for a while: what a user said to many agents."""
    return plain_words(text)


def plain_lines(texts: Iterable[str]) -> bytes:
    """Texts as plain words, one line for each; that is much faster than one by one."""
    return _plain(_BORDER.join(map(_lowered, texts))).replace(_NO_TEXT, b"\n")


def letters_only(text: str) -> bytes:
    """The letters and digits of a text in lower case, without the spaces and marks between them.

    They take less time than plain words, and hold the letters of all plain words of the text.
    """
    lowered = _lowered(text)
    if _ESCAPE in lowered:
        lowered = lowered.replace(b"\\n", b"")
    return lowered.translate(None, _NO_LETTERS)


def letters_of(words: bytes) -> bytes:
    """The letters and digits of plain words."""
    return words.translate(None, b" .,")


def plain_bytes(text: bytes) -> bytes:
    """The plain words of a text in UTF-8."""
    return _plain(text.lower()) if text.isascii() else plain_words(text.decode("utf-8", "replace"))


def _lowered(text: str) -> bytes:
    lowered = text.lower().encode("utf-8", "replace")
    if text.isascii():
        return lowered
    # A text with spaces for the marks of other scripts, and around characters without any.
    foreign = lowered.translate(None, _ASCII)
    if not foreign.translate(None, _NEVER_PARTED):  # as where only letters have accents
        return lowered
    return _IN_WORDS.sub(b" ", _NO_WORD.sub(b" ", lowered))


def _plain(lowered: bytes) -> bytes:
    if _ESCAPE in lowered:
        lowered = lowered.replace(b"\\n", b" ")
    words = b" %b " % lowered.translate(_TO_SPACES)
    for mark in _MARKS:
        if mark[0] in words:
            words = _within_words(words, mark)
    if len(words) < _LONG:
        return b" %b " % b" ".join(words.split())
    return _without_runs(words, b" ")  # splitting would take many times the memory of a long text


def _within_words(words: bytes, mark: bytes) -> bytes:
    """Words with a mark only inside them, and no two in a row."""
    if len(words) >= _LONG:
        return _without_runs(words, mark).replace(mark + b" ", b" ")
    # To split at one byte takes much less time than to replace two.
    first, *others = words.split(mark)
    kept = [each if each[0] == _SPACE else mark + each for each in others if each]
    return b"".join((first, *kept))


def _without_runs(words: bytes, mark: bytes) -> bytes:
    while mark + mark in words:
        words = words.replace(mark + mark, mark)
    return words


def is_character(word: bytes) -> bool:
    """Whether one of plain words is a character of a script without spaces."""
    return len(word) == _CHARACTER and word[0] >= _FIRST_CHARACTER


def leaves(value: Json) -> list[tuple[str, str]]:
    """Every text and number in the arguments with its dotted path, in order."""
    if not isinstance(value, dict) or len(value) > _MOST_IN_ONE:
        return list(_walk(value))
    found = []  # usually texts and numbers are at the top level
    for key, each in value.items():
        if type(each) is str:
            if each and not each.isspace():
                found.append((str(key), each))
        elif type(each) is int or type(each) is float:
            found.append((str(key), _written(each)))
        elif each is not None and each is not True and each is not False:
            return list(_walk(value))
    return found


def _walk(value: Json) -> Iterator[tuple[str, str]]:
    waiting: list[tuple[str, Json]] = [("", value)]
    seen = 0
    while waiting and seen < MOST_VALUES:
        path, each = waiting.pop()
        seen += 1
        if isinstance(each, str):
            if each.strip():
                yield path, each
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield path, _written(each)
        else:
            waiting += [(f"{path}.{key}" if path else key, inner) for key, inner in _inside(each)]


def _inside(value: Json) -> list[tuple[str, Json]]:
    if isinstance(value, dict):
        pairs = [(str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list | tuple):
        pairs = [(str(place), inner) for place, inner in enumerate(value[:_MOST_IN_ONE])]
    else:
        return []
    return pairs[:_MOST_IN_ONE][::-1]


def _written(number: int | float) -> str:
    try:
        return repr(number)
    except ValueError:  # Python refuses to write out integers of thousands of digits
        return hex(int(number))


def written_forms(value: str) -> tuple[bytes, ...]:
    """How a value may be written: as plain words; a number with or without `,` and `.0`.

    An account is written in one piece or in groups of four; a value without a word has no form.
    """
    return _short_forms(value) if len(value) <= _SHORT_VALUE else _forms(value)


def _forms(value: str) -> tuple[bytes, ...]:
    words = plain_words(value)
    number = _number(value)
    if words.isspace():
        return ()
    if number is not None:
        texts = (
            {f"{number:.2f}", f"{number:,.2f}"} if round(number, 2) == number else {repr(number)}
        )
        if number == int(number):
            texts |= {f"{number:.0f}", f"{number:,.0f}", f"{number:.1f}"}
        elif round(number, 1) == number:
            texts |= {f"{number:.1f}", f"{number:,.1f}"}
        return (words, *sorted(map(plain_words, texts)))
    if words.startswith((b" http ", b" https ")):
        return (words[words.index(b" ", 1) :],)
    return (words, *(form for form in _account_forms(value) if form != words))


def _account_forms(value: str) -> tuple[bytes, ...]:
    """The number of an account or a card, in one piece and in groups of four."""
    compact = value.replace(" ", "").replace("-", "")
    if not _SHORTEST_ACCOUNT <= len(compact) <= _LONGEST_ACCOUNT or not compact.isalnum():
        return ()
    if sum(map(str.isdecimal, compact)) < _FEWEST_DIGITS or not compact.isascii():
        return ()
    groups = [compact[at : at + _GROUP] for at in range(0, len(compact), _GROUP)]
    return plain_words(compact), plain_words(" ".join(groups))


_short_forms = lru_cache(maxsize=4096)(_forms)


def _number(value: str) -> float | None:
    if len(value) > 20 or "_" in value or not any(map(str.isdigit, value)):
        return None
    text = value.replace(",", "").strip(" $€£")
    if text[:1].isalpha():  # as most names and ids: to refuse it takes longer
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e15 else None


def stands_in(text: bytes, values: Iterable[bytes]) -> bool:
    """Whether a text contains one of the values."""
    for value in values:  # noqa: SIM110  (asked very often)
        if text.find(value) >= 0:  # sooner than `in`, which takes the value for a number first
            return True
    return False


class Date(msgspec.Struct, frozen=True, gc=False):
    """A day as texts tell it: the month by its name, and the number of the day."""

    months: tuple[bytes, ...]
    days: tuple[bytes, ...]

    def stands_in(self, words: bytes) -> bool:
        """Whether a text, as plain words, tells the date."""
        return stands_in(words, self.months) and stands_in(words, self.days)


def read_date(value: str) -> Date | None:
    """The date that a value in the ISO form begins with."""
    if value[4:5] != "-" or value[7:8] != "-":
        return None
    year, month, day = value[:4], value[5:7], value[8:10]
    if len(day) < 2 or not (year + month + day).isdecimal() or not 1 <= int(month) <= len(_MONTHS):
        return None
    name = _MONTHS[int(month) - 1]
    days = tuple(b" %d%b " % (int(day), ending) for ending in (b"", b"st", b"nd", b"rd", b"th"))
    return Date((b" %b " % name, b" %b " % name[:3]), days)
