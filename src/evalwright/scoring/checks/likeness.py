"""How alike two texts are: ROUGE-L over words, and edit similarity over characters.

Both work on bit vectors as long as the text that is sought (Hyyrö 2004; Myers 1999), so that texts
of thousands of words are compared in milliseconds. What is longer is cut, and the result says so.
"""

import re
import unicodedata
from collections.abc import Hashable, Sequence

MOST_WORDS = 10_000
MOST_CHARACTERS = 10_000
_MOST_READ = 200_000  # characters of a text that are looked at for words

# Scripts that put no spaces between words are taken character by character: Thai, Lao, Myanmar,
# Khmer, kana, Han.
_WORD = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]|"
    r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]+"
)


def _folded(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def _places(items: Sequence[Hashable]) -> dict[Hashable, int]:
    """For each item a bit at each of its places."""
    places: dict[Hashable, int] = {}
    for number, item in enumerate(items):
        places[item] = places.get(item, 0) | 1 << number
    return places


class Sought:
    """A text that outputs are compared with."""

    def __init__(self, text: str) -> None:
        self._folded = _folded(text[:_MOST_READ])
        self._words = _WORD.findall(self._folded)[:MOST_WORDS]
        self._word_places = _places(self._words)
        self._letters = self._folded[:MOST_CHARACTERS]
        self._letter_places: dict[Hashable, int] = {}

    def likeness(self, output: str, by: str, enough: float) -> tuple[float, str]:
        """How alike an output is, 0 to 1, and by what; letters count where words do not do."""
        folded = _folded(output[:_MOST_READ])
        if folded == self._folded and len(output) <= _MOST_READ:
            return 1.0, "ROUGE-L" if by != "edit" else "edit similarity"
        by_words = self._rouge(folded) if by != "edit" else (0.0, "")
        if by == "rouge_l" or by_words[0] >= enough:
            return by_words
        by_letters = self._edit(folded)
        return by_letters if by == "edit" or by_letters[0] > by_words[0] else by_words

    def _rouge(self, output: str) -> tuple[float, str]:
        """The F-measure of the longest common subsequence of words."""
        words = _WORD.findall(output)
        cut = len(words) > MOST_WORDS or len(self._words) == MOST_WORDS
        words = words[:MOST_WORDS]
        total = len(words) + len(self._words)
        score = 2 * self._common(words) / total if total else 0.0
        return score, "ROUGE-L" + (f" of the first {MOST_WORDS} words" if cut else "")

    def _common(self, words: Sequence[str]) -> int:
        size = len(self._words)
        every = (1 << size) - 1
        row, places = every, self._word_places
        for word in words:
            here = places.get(word)
            if here:
                both = row & here
                row = (row + both | row - both) & every
        return size - row.bit_count()

    def _edit(self, output: str) -> tuple[float, str]:
        """One minus the edit distance, as a share of the longer text."""
        cut = max(len(output), len(self._folded)) > MOST_CHARACTERS
        output = output[:MOST_CHARACTERS]
        longest = max(len(output), len(self._letters))
        score = 1 - self._distance(output) / longest if longest else 0.0
        said = f" of the first {MOST_CHARACTERS} characters" if cut else ""
        return score, f"edit similarity{said}"

    def _distance(self, output: str) -> int:
        size = len(self._letters)
        if not size or not output:
            return size + len(output)
        places = self._letter_places = self._letter_places or _places(self._letters)
        every, last = (1 << size) - 1, 1 << size - 1
        plus, minus, distance = every, 0, size
        for letter in output:
            here = places.get(letter, 0)
            vertical = here | minus
            here = ((here & plus) + plus ^ plus) | here
            up = minus | ~(here | plus) & every
            down = plus & here
            distance += (up & last != 0) - (down & last != 0)
            up = up << 1 | 1
            plus = (down << 1 | ~(vertical | up)) & every
            minus = up & vertical & every
        return distance
