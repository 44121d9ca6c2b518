"""Values of arguments and the forms in which texts may write them."""

from collections.abc import Iterator

from evalwright.trace.model import Json

# A call with more values than this is data, not a set of arguments; the rest is not traced.
MOST_VALUES = 2_000

_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789.,")
_TO_SPACES = bytes(code if code in _KEPT or code > 127 else 32 for code in range(256))
_LONG = 1_000_000
_MONTHS = (
    b"january february march april may june july august september october november december"
).split()


def plain_words(text: str) -> bytes:
    """A text in lower case as words between single spaces, also before the first and the last.

    Punctuation goes, but for `.` and `,` inside a word, and so do escaped line breaks.
    """
    escaped = text.lower().encode("utf-8", "replace").replace(b"\\n", b" ")
    words = _single_spaced(escaped.translate(_TO_SPACES))
    for mark in (b". ", b", ", b"  "):
        while mark in words:
            words = words.replace(mark, b" ")
    return words


def _single_spaced(words: bytes) -> bytes:
    if len(words) < _LONG:
        return b" %b " % b" ".join(words.split())
    words = b" %b " % words  # splitting would take many times the memory of a long text
    while b"  " in words:
        words = words.replace(b"  ", b" ")
    return words


def leaves(value: Json) -> Iterator[tuple[str, str]]:
    """Every text and number in the arguments with its dotted path, in order."""
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
        pairs = [(str(place), inner) for place, inner in enumerate(value[:MOST_VALUES])]
    else:
        return []
    return pairs[:MOST_VALUES][::-1]


def _written(number: int | float) -> str:
    try:
        return repr(number)
    except ValueError:  # Python refuses to write out integers of thousands of digits
        return hex(int(number))


def written_forms(value: str) -> tuple[bytes, ...]:
    """How a value may be written: as plain words; a number with or without `,` and `.0`.

    A value without any word has no form.
    """
    words = plain_words(value)
    number = _number(value)
    if words == b" ":
        return ()
    if number is not None:
        return (words, *_number_forms(number))
    if words.startswith((b" http ", b" https ")):
        return (words[words.index(b" ", 1) :],)
    return (words,)


def _number_forms(number: float) -> list[bytes]:
    texts = {f"{number:.2f}", f"{number:,.2f}"} if round(number, 2) == number else {repr(number)}
    if number == int(number):
        texts |= {f"{number:.0f}", f"{number:,.0f}", f"{number:.1f}"}
    elif round(number, 1) == number:
        texts |= {f"{number:.1f}", f"{number:,.1f}"}
    return sorted(map(plain_words, texts))


def _number(value: str) -> float | None:
    if len(value) > 20 or "_" in value or not any(map(str.isdigit, value)):
        return None
    try:
        number = float(value.replace(",", "").strip(" $€£"))
    except ValueError:
        return None
    return number if abs(number) < 1e15 else None


def date_stands_in(value: str, words: bytes) -> bool:
    """Whether an ISO date is told in words: the month by its name and the day as a number."""
    if len(value) < 10 or not (value[4] == value[7] == "-" and value[:4].isdigit()):
        return False
    month, day = value[5:7], value[8:10]
    if not (month.isdigit() and day.isdigit() and 1 <= int(month) <= 12):
        return False
    name = _MONTHS[int(month) - 1]
    if b" %b " % name not in words and b" %b " % name[:3] not in words:
        return False
    return any(
        b" %d%b " % (int(day), ending) in words for ending in (b"", b"st", b"nd", b"rd", b"th")
    )
