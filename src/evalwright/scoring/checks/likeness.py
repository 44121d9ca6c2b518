"""How alike two texts are: ROUGE-L over words, and edit similarity over characters.

Both work on bit vectors as long as the text that is sought (Hyyrö 2004; Myers 1999), so that texts
of thousands of words are compared in milliseconds. What is longer is cut, and the result says so.
"""

import re
import unicodedata
from collections.abc import Hashable, Sequence
from functools import cached_property

MOST_WORDS = 10_000
MOST_CHARACTERS = 10_000
_FAR_LONGER = 8  # times as long as what is sought
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
    places: dict[Hashable, int] = {}
    for number, item in enumerate(items):
        places[item] = places.get(item, 0) | 1 << number
    return places


class Given:
    """A text that is compared with others."""

    def __init__(self, text: str) -> None:
        self.is_cut = len(text) > _MOST_READ
        self.folded = _folded(text[:_MOST_READ])
        self._words: list[str] | None = None

    @property
    def all_words(self) -> list[str]:
        if self._words is None:
            self._words = _WORD.findall(self.folded)
        return self._words

    @property
    def words(self) -> list[str]:
        found = self.all_words
        return found if len(found) <= MOST_WORDS else found[:MOST_WORDS]

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        return frozenset(self.words)

    @property
    def letters(self) -> str:
        return self.folded[:MOST_CHARACTERS]


class Sought:
    """A text that outputs are compared with."""

    def __init__(self, text: str) -> None:
        self._given = given = Given(text)
        self._words = given.words
        self._word_places = _places(self._words)
        self._letters = given.letters
        self._letter_places: dict[Hashable, int] = {}

    def likeness(self, output: Given, by: str, enough: float) -> tuple[float, str]:
        """How alike an output is, 0 to 1, and by what; letters count where words do not do."""
        if output.folded == self._given.folded and not output.is_cut:
            return 1.0, "ROUGE-L" if by != "edit" else "edit similarity"
        by_words = self._rouge(output) if by != "edit" else (0.0, "")
        if by == "rouge_l" or by_words[0] >= enough:
            return by_words
        cut = max(len(output.folded), len(self._given.folded)) > MOST_CHARACTERS
        longest = max(len(output.letters), len(self._letters))
        score = 1 - self._distance(output.letters) / longest if longest else 0.0
        said = f" of the first {MOST_CHARACTERS} characters" if cut else ""
        by_letters = (score, f"edit similarity{said}")
        return by_letters if by == "edit" or by_letters[0] > by_words[0] else by_words

    def _rouge(self, output: Given) -> tuple[float, str]:
        words, sought = output.words, self._words
        cut = len(output.all_words) > MOST_WORDS or len(sought) == MOST_WORDS
        total = len(words) + len(sought)
        score = 2 * self._common(words, output) / total if total else 0.0
        return score, "ROUGE-L" + (f" of the first {MOST_WORDS} words" if cut else "")

    def _common(self, words: Sequence[str], output: Given) -> int:
        sought, places = self._words, self._word_places
        if len(words) > _FAR_LONGER * len(sought):  # then most of its words need no look
            sought = [word for word in sought if word in output.vocabulary]
            places = _places(sought)
        size = len(sought)
        every = row = (1 << size) - 1
        for word in words:
            here = places.get(word)
            if here:
                both = row & here
                row = (row + both | row - both) & every
                if not row:
                    break
        return size - row.bit_count()

    def _distance(self, output: str) -> int:
        size = len(self._letters)
        if not size or not output:
            return size + len(output)
        if len(output) > _FAR_LONGER * size:
            within = _distance_within(self._letters, output)
            if within is not None:
                return within
        places = self._letter_places = self._letter_places or _places(self._letters)
        every, plus, minus = (1 << size) - 1, (1 << size) - 1, 0
        for letter in output:
            here = places.get(letter, 0)
            vertical = here | minus
            here = ((here & plus) + plus ^ plus) | here
            up = minus | ~(here | plus) & every
            down = plus & here
            up = up << 1 | 1
            plus = (down << 1 | ~(vertical | up)) & every
            minus = up & vertical & every
        return len(output) + plus.bit_count() - minus.bit_count()


def _distance_within(letters: str, text: str) -> int | None:
    """The edit distance to a text that has the letters in their order, scattered in it.

    Each character of the text is a letter or costs one. A letter that is nowhere in the text stands
    in the place of another character.
    """
    place, found = -1, 0
    for letter in letters:
        there = text.find(letter, place + 1)
        if there >= 0:
            place, found = there, found + 1
        elif letter in text:
            return None  # it is there, but not in this order
        else:
            place += 1
    return len(text) - found if place < len(text) else None
