"""What a text speaks of, counted by tables of words for each language (`vocabulary.txt`)."""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Literal, cast, get_args

import msgspec

from evalwright.signals.patterns import when_used
from evalwright.signals.word_tables import word_tables

Concept = Literal[
    "asks", "you", "self", "claims", "hedges", "cases", "limits", "forms", "examples", "inputs"
]
CONCEPTS: tuple[Concept, ...] = get_args(Concept)
_ENGLISH = "en"
_SHORTEST_STEM, _LONGEST_STEM = 2, 20
_NOT_IN_WORDS = frozenset(".:")  # what holds one, such as `e.g.`, is a piece of text
_EXAMPLE_TITLE = when_used(
    r"\b(?:examples?|samples?|few[- ]?shots?|demonstrations?|beispiele?n?|exemples?|ejemplos?"
    r"|exemplos?|esempi[o]?|voorbeeld(?:en)?|przykład\w*|пример\w*|приклад\w*|örne[kğ]\w*|ví dụ"
    r"|contoh|exempel)\b|例|예시|مثال|أمثلة|نمونه|ตัวอย่าง|उदाहरण|דוגמ"
)
_DECORATION = when_used(r"[^\w/&' -]+|_+")

_Meanings = dict[str, tuple[Concept, ...]]


class Vocabulary(msgspec.Struct, frozen=True):
    """The words of a language and of English: whole ones, their beginnings, pieces of text."""

    words: _Meanings
    stems: _Meanings
    pieces: _Meanings

    def meanings(self, word: str) -> set[Concept]:
        """What a word stands for, as a whole and by the longest stem that it begins with."""
        for length in range(min(len(word), _LONGEST_STEM), _SHORTEST_STEM - 1, -1):
            if found := self.stems.get(word[:length]):
                return {*found, *self.words.get(word, ())}
        return set(self.words.get(word, ()))


@lru_cache(maxsize=512)
def title_key(title: str) -> str:
    """A title in lower case, without emphasis, numbers or symbols around it."""
    return " ".join(_DECORATION.sub(" ", title).lower().split()).lstrip("0123456789. ")


@lru_cache(maxsize=512)
def shows_example(key: str) -> bool:
    """Whether the key of a title says that an example follows."""
    return _EXAMPLE_TITLE.search(key) is not None


def has_vocabulary(language: str) -> bool:
    """Whether there is a table of the words of a language."""
    return language in _tables()


def concept_counts(language: str, lowered: str, words: Mapping[str, int]) -> dict[Concept, int]:
    """How often each concept occurs in a text in lower case with these words."""
    vocabulary = _vocabulary(language if has_vocabulary(language) else _ENGLISH)
    counts: dict[Concept, int] = dict.fromkeys(CONCEPTS, 0)
    known: Iterable[str] = words if vocabulary.stems else words.keys() & vocabulary.words.keys()
    meanings = vocabulary.meanings if vocabulary.stems else vocabulary.words.__getitem__
    for word in known:
        for concept in meanings(word):
            counts[concept] += words[word]
    for piece, concepts in vocabulary.pieces.items():
        if found := lowered.count(piece):
            for concept in concepts:
                counts[concept] += found
    return counts


@cache
def _vocabulary(language: str) -> Vocabulary:
    vocabulary = Vocabulary({}, {}, {})
    for code in dict.fromkeys((_ENGLISH, language)):
        is_anywhere, rows = _tables()[code]
        for concept, entries in rows.items():
            for entry in entries:
                if is_anywhere or not _NOT_IN_WORDS.isdisjoint(entry):
                    table, key = vocabulary.pieces, entry
                elif entry.endswith("*"):
                    table, key = vocabulary.stems, entry[:-1]
                else:
                    table, key = vocabulary.words, entry
                table[key] = (*table.get(key, ()), concept)
    return vocabulary


@cache
def _tables() -> dict[str, tuple[bool, dict[Concept, list[str]]]]:
    """For each language: whether its words are looked for anywhere, and those of each concept."""
    titles = ((title.partition(" "), table) for title, table in word_tables(__file__).items())
    return {
        code: (bool(anywhere), cast("dict[Concept, list[str]]", table))
        for (code, _, anywhere), table in titles
    }
