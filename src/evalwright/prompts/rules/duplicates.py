"""Prompts that are nearly the same as another of the library.

Each prompt is known by a sample of its runs of five words: those that start with a word which a
fixed hash chooses, so that the same passage gives the same runs everywhere. Of a run only its hash
is kept. An index keeps the first few prompts of each of a prompt's lowest hashes; a prompt is
compared only with those it meets there: two that share most of their runs share most of the lowest.
Prompts in different languages are not compared. Time grows with the text, not with the number of
pairs, and a prompt takes less than a kilobyte.
"""

from array import array
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from itertools import compress
from zlib import crc32

from evalwright.prompts.findings import Hit, Rule
from evalwright.prompts.rules.prompt_text import Reading

SIMILAR = 0.7  # the share of runs that both have, of those that either has
_RUN = 5
_ONE_IN = 8
_KEPT = 6  # prompts per run
_COMPARED = 3  # prompts that share most runs
_FEWEST = 5  # runs; of less, only what is the same throughout is reported
_FEWEST_WORDS = 15
_INDEXED = 16  # of a prompt's runs
_MOST_WORDS = 50_000  # that are remembered


class _Chosen(dict[str, bool]):
    """Whether runs are sampled that start with a word; found out once for each."""

    def __missing__(self, word: str) -> bool:
        if len(self) >= _MOST_WORDS:
            self.clear()
        chosen = self[word] = crc32(word.encode()) % _ONE_IN == 0
        return chosen


class Library:
    """The prompts that were looked at so far."""

    def __init__(self) -> None:
        self._prompts: list[tuple[str, str, array[int]]] = []  # path, language, runs
        self._index: dict[int, list[int]] = {}
        self._chosen = _Chosen()
        self._whole: dict[bytes, int] = {}

    def near_duplicate(self, reading: Reading) -> Iterator[Hit]:
        """The earlier prompt that this one repeats; it is itself an earlier one from now on."""
        words = reading.word_list
        number = len(self._prompts)
        starts = compress(range(len(words) + 1 - _RUN), map(self._chosen.__getitem__, words))
        runs = frozenset([crc32(" ".join(words[at : at + _RUN]).encode()) for at in starts])
        if len(runs) < _FEWEST:
            runs = frozenset()
        first = number
        if len(words) >= _FEWEST_WORDS:
            whole = blake2b(" ".join(words).encode(), digest_size=16).digest()
            first = self._whole.setdefault(whole, number)
        language = reading.prompt.language.code
        ordered = sorted(runs)
        indexed = ordered[:_INDEXED]
        best = (1.0, first) if first != number else None
        if best is None:
            # A translation shares names, code and headings with the original, and is no copy.
            met = Counter(
                other
                for run in indexed
                for other in self._index.get(run, ())
                if self._prompts[other][1] == language
            )
            alike = []
            for other in sorted(met, key=lambda number: (-met[number], number))[:_COMPARED]:
                theirs = self._prompts[other][2]
                shared = len(runs.intersection(theirs))
                alike.append((shared / (len(runs) + len(theirs) - shared), -other))
            similarity, negated = max(alike, default=(0.0, 0))  # of equals the earliest
            if similarity >= SIMILAR:
                best = (similarity, -negated)
        self._prompts.append((reading.prompt.path, language, array("I", ordered)))
        for run in indexed:
            numbers = self._index.setdefault(run, [])
            if len(numbers) < _KEPT:
                numbers.append(number)
        if best is not None:
            similarity, other = best
            yield Hit(
                reading.place(0),
                f"{int(100 * similarity)} % of the prompt is the same as "
                f"{self._prompts[other][0]}: keep one, with a variable such as `{{{{language}}}}` "
                "for what differs.",
            )


NEAR_DUPLICATE = Rule(
    id="PE502",
    name="near-duplicate",
    severity="warning",
    criterion="clarity",
    summary="A prompt that is nearly the same as another of the library.",
    explanation=(
        "Of two copies one gets fixed and the other gets used. Merge them, with a variable "
        "for what differs. The later file, by path, is reported with the earlier one's name."
    ),
    check=lambda reading: Library().near_duplicate(reading),
    library_check=lambda: Library().near_duplicate,
)
