"""What differs between two texts, in words, at a cost that is linear in their length."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from evalwright.reports.formats.text import display_text, shortened

Segment: TypeAlias = tuple[bool, str]  # whether it differs, and the text
Marked: TypeAlias = list[Segment]

_LONGEST = 4_000  # of both texts; longer ones are not searched for common words
_LONGEST_SHOWN = 20_000
_LEAST_COMMON = 10  # a tenth of the shorter text


def marked_versions(a: str, b: str, most: int = _LONGEST_SHOWN) -> tuple[Marked, Marked]:
    """Both texts as they may be shown; unmarked where they are long or have little in common."""
    if a != b and max(len(a), len(b)) <= min(most, _LONGEST):
        marked = mark_differences(display_text(a), display_text(b))
        if marked is not None:
            return marked
    return [(False, display_text(shortened(a, most)))], [(False, display_text(shortened(b, most)))]


def mark_differences(a: str, b: str) -> tuple[Marked, Marked] | None:
    """Both texts, cut into parts that are common and parts that are not.

    Nothing where their starts and ends hardly agree: such texts were not edited but replaced,
    and marks on the few words that they happen to share would only confuse.
    """
    start = _common_start(a, b)
    end = _common_end(a, b, start)
    if _LEAST_COMMON * (start + end) < min(len(a), len(b)):
        return None
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    inner_a, inner_b = _inner(middle_a, middle_b)
    before, after = a[:start], a[len(a) - end :] if end else ""
    return _joined(before, inner_a, after), _joined(before, inner_b, after)


def _joined(before: str, inner: list[Segment], after: str) -> Marked:
    parts = [(False, before), *inner, (False, after)]
    return [part for part in parts if part[1]]


def _common_start(a: str, b: str) -> int:
    """The length of the common start, ending where a word ends."""
    if a[:1] != b[:1]:
        return 0
    count = agreeing(a, b)
    if count == len(a) == len(b):
        return count
    while count and not _between_words(a, count):
        count -= 1
    return count


def agreeing(a: str, b: str) -> int:
    """How many characters two texts have in common at their start."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _between_words(text: str, place: int) -> bool:
    return place >= len(text) or not (text[place - 1].isalnum() and text[place].isalnum())


def _common_end(a: str, b: str, start: int) -> int:
    if a[-1:] != b[-1:]:
        return 0
    low, high = 0, min(len(a), len(b)) - start
    while low < high:
        middle = (low + high + 1) // 2
        if a[len(a) - middle :] == b[len(b) - middle :]:
            low = middle
        else:
            high = middle - 1
    while low and not _between_words(a, len(a) - low):
        low -= 1
    return low


def _inner(a: str, b: str) -> tuple[list[Segment], list[Segment]]:
    """The middles, held together at words that each of them has exactly once."""
    if not a or not b or len(a) + len(b) > _LONGEST:
        return [(True, a)], [(True, b)]
    words_a, words_b = a.split(" "), b.split(" ")
    runs = _common_runs(words_a, words_b)
    return (
        _segments(words_a, [(i, i + length) for i, _, length in runs]),
        _segments(words_b, [(j, j + length) for _, j, length in runs]),
    )


def _common_runs(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int, int]]:
    """Where equal words begin on both sides and how many: the unique ones and their neighbours."""
    runs = []
    start_i = start_j = i = j = 0
    places = _unique_places(b)
    for next_i, next_j in [
        *_rising([(i, places[word]) for word, i in _unique_places(a).items() if word in places]),
        (len(a), len(b)),
    ]:
        while i < next_i and j < next_j and a[i] == b[j]:
            i, j = i + 1, j + 1
        runs.append((start_i, start_j, i - start_i))
        start_i, start_j = next_i, next_j
        while start_i > i and start_j > j and a[start_i - 1] == b[start_j - 1]:
            start_i, start_j = start_i - 1, start_j - 1
        i, j = next_i, next_j
    runs.append((start_i, start_j, i - start_i))
    return [run for run in runs if run[2]]


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, given in the order of one side, that is in the other's order."""
    ends: list[int] = []
    holders: list[int] = []
    previous: list[int] = []
    for place, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        previous.append(holders[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        holders[length : length + 1] = [place]
    run = []
    place = holders[-1] if holders else -1
    while place >= 0:
        run.append(pairs[place])
        place = previous[place]
    return run[::-1]


def _unique_places(words: Sequence[str]) -> dict[str, int]:
    count = len(words)
    last = dict(zip(words, range(count), strict=True))
    if len(last) == count:
        return last
    first = dict(zip(reversed(words), range(count - 1, -1, -1), strict=True))
    return {word: place for word, place in last.items() if first[word] == place}


def _segments(words: Sequence[str], common: Iterable[tuple[int, int]]) -> list[Segment]:
    """The words from each start to each end in `common`, and what differs around them."""
    segments: list[Segment] = []
    done = 0
    for start, end in common:
        if start > done:
            segments.append((True, " ".join(words[done:start]) + " "))
        segments.append((False, " ".join(words[start:end]) + (" " if end < len(words) else "")))
        done = end
    if done < len(words):
        segments.append((True, " ".join(words[done:])))
    return segments
