"""In which script and language a text is written, and how many words and sentences it has.

Chinese, Japanese and Thai put no spaces between words: their runs of letters are cut into pieces
as long as a word is on average, so that a count means the same in every script.
"""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Literal
from unicodedata import category

import msgspec

from evalwright.signals.patterns import when_used
from evalwright.signals.word_tables import word_tables

Script = Literal[
    "latin",
    "han",
    "kana",
    "hangul",
    "cyrillic",
    "arabic",
    "thai",
    "greek",
    "hebrew",
    "devanagari",
    "none",
]


class Language(msgspec.Struct, frozen=True):
    """A language by its two letters (`und`: not known) and the script it is written in."""

    code: str
    script: Script

    @property
    def is_english(self) -> bool:
        """Whether rules that know English words can be applied."""
        return self.code == "en"


WITHOUT_SPACES: frozenset[Script] = frozenset({"han", "kana", "thai"})
UNKNOWN_LANGUAGE = Language("und", "none")
_ENGLISH = Language("en", "latin")

_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_THAI = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ede\u1000-\u109f\u1780-\u17d3"
# Letters of scripts with spaces, with the marks that stand on or between letters.
_SPACED = (
    "a-zªµº\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u05ff\u0610-\u061a\u0620-\u065f\u066e-\u06d3"
    "\u06d5-\u06dc\u06df-\u06e8\u06ea-\u06ef\u06fa-\u0963\u0966-\u0e00\u0ee0-\u0fff\u10a0-\u177f"
    "\u1800-\u1fff\u200c\u200d\u2c00-\u2dff\u3130-\u318f\ua000-\ud7ff\ufb00-\ufdff\ufe70-\ufefc"
    "\uff41-\uff5a"
)
_ASCII = bytes(range(128))
_EMOJI_MARK = "\ufe0f"  # says that the symbol before it is an emoji, and is on no letter
_WORD = when_used(rf"[{_SPACED}][{_SPACED}'-]*|[{_HAN}]{{1,2}}|[{_KANA}]{{1,3}}|[{_THAI}]{{1,5}}")
_ASCII_WORD = when_used("[a-z][a-z'-]*")
_PAST_LATIN = "\u0250"
_LATIN_WORD = when_used("[a-zªµºÀ-ÖØ-öø-\u024f][a-zªµºÀ-ÖØ-öø-\u024f'-]*")

# What a letter of a script weighs against one of an alphabet. Patterns that few texts need are
# compiled, and kept, by `re` when they are used.
_WEIGHTS: tuple[tuple[Script, str, float], ...] = (
    ("han", f"[{_HAN}]+", 3.0),
    ("kana", f"[{_KANA}]+", 2.0),
    ("hangul", "[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]+", 2.5),
    ("cyrillic", "[\u0400-\u052f]+", 1.0),
    ("arabic", "[\u0620-\u065f\u066e-\u06d3\u06d5-\u06ff\u0750-\u077f]+", 1.2),
    ("thai", f"[{_THAI}]+", 1.0),
    ("greek", "[\u0370-\u03ff\u1f00-\u1fff]+", 1.0),
    ("hebrew", "[\u0590-\u05ff]+", 1.2),
    ("devanagari", "[\u0900-\u097f]+", 1.0),
)
_LATIN = "[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]+"
_ACCENTED = "[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]"
# Names, code and tags are in Latin letters everywhere: so little of another script decides.
_DECIDES = 0.25
_KANA_SHARE = 0.05  # of the letters of a Japanese text, at least
_SAMPLE = 4000  # characters; where a text is long, its beginning tells
_LATIN_SAMPLE = 1500
_FEWEST_HITS, _FEWEST_SHARE = 2, 0.06

_TABLES = word_tables(__file__)
_COMMON_WORDS, _TELLING_LETTERS = _TABLES["common words"], _TABLES["telling letters"]
_ENGLISH_WORDS = frozenset(_COMMON_WORDS["en"])
ENGLISH_ALONE, SHARED_WITH_ENGLISH = map(frozenset, _TABLES["english"].values())
_FEW_SHARE = 0.01  # of the characters: a name or two
_MANY_SHARE = 0.15  # of the words of a text that is English for certain
_VOTES: dict[str, list[str]] = {}
for _code, _words in _COMMON_WORDS.items():
    for _word in _words:
        if len(_word) > 1:  # a letter alone is a name in code
            _VOTES.setdefault(_word, []).append(_code)
_SPOKEN_IN: dict[Script, str] = {
    "cyrillic": "ru",
    "han": "zh",
    "kana": "ja",
    "hangul": "ko",
    "arabic": "ar",
}
_BY_SCRIPT = {
    "hangul": "ko",
    "thai": "th",
    "greek": "el",
    "hebrew": "he",
    "devanagari": "hi",
}
_PERSIAN = "[پچژگکی]"
_ARABIC = "[ةىيكإأ]"
_UKRAINIAN = "[іїєґ]"
_RUSSIAN = "[ыэъё]"


def words(lowered: str) -> list[str]:
    """The words of a text in lower case; of scripts without spaces, pieces as long as a word."""
    return _word_pattern(lowered).findall(lowered)


def _word_pattern(lowered: str) -> re.Pattern[str]:
    """What finds the words of a text; that for all scripts takes long to compile."""
    others = beyond_ascii(lowered)
    is_latin = all(each < _PAST_LATIN or _is_symbol(each) for each in others)
    return _LATIN_WORD if is_latin else _WORD


def has_plain_letters(text: str) -> bool:
    """Whether all letters of a text are those of ASCII; dashes, quotes and symbols are none."""
    if text.isascii():
        return True
    rest = beyond_ascii(text)
    if _EMOJI_MARK in rest and all(map(_is_symbol, rest)):
        rest.discard(_EMOJI_MARK)
    return not any(each.isalpha() or category(each)[0] == "M" for each in rest)


def beyond_ascii(text: str) -> set[str]:
    """The different characters of a text that are not of ASCII."""
    others = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return set(others.decode("utf-8", "surrogatepass"))


def _is_symbol(each: str) -> bool:
    if each < "\u2c00":
        return each >= "\u2010" or each < "\u00c0"
    return "\U0001f000" <= each < "\U00020000" or each == _EMOJI_MARK


def lowered_in_place(text: str) -> str:
    """A text in lower case, letter for letter: the few that grow when lowered stay as they are."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(each.lower() if len(each.lower()) == 1 else each for each in text)


def language_of(text: str) -> Language:
    """The language of a text, told by its beginning."""
    sample = text[:_SAMPLE]
    others = len(sample) - len(sample.encode("ascii", "ignore"))
    if others <= _FEW_SHARE * len(sample):
        return _latin_language(sample)
    sample = sample.lower()  # takes a while, where not all is ASCII
    script = "latin" if has_plain_letters(sample) else _script(sample)
    if script == "latin":
        return _latin_language(sample)
    if script == "none":
        return UNKNOWN_LANGUAGE
    if script in ("han", "kana"):
        return Language(*_chinese_or_japanese(sample))
    if script == "arabic":
        persian = len(re.findall(_PERSIAN, sample)) > len(re.findall(_ARABIC, sample))
        return Language("fa" if persian else "ar", script)
    if script == "cyrillic":
        ukrainian = len(re.findall(_UKRAINIAN, sample)) > len(re.findall(_RUSSIAN, sample))
        return Language("uk" if ukrainian else "ru", script)
    return Language(_BY_SCRIPT[script], script)


def likely_languages(
    text: str, words: set[str], among: Iterable[str], fewest: int
) -> tuple[str, ...]:
    """The languages besides English that a text may be in, if it has so many of their words.

    Of a few words `language_of` cannot tell which; several are likely then.
    """
    least = max(fewest, len(words & (ENGLISH_ALONE | SHARED_WITH_ENGLISH)) + 1)
    likely = [each for each in among if len(words.intersection(_COMMON_WORDS[each])) >= least]
    if not text.isascii():
        likely += [
            _SPOKEN_IN[script]
            for script, letters, _ in _WEIGHTS
            if script in _SPOKEN_IN and re.search(letters, text)
        ]
    return tuple(likely)


def _script(sample: str) -> Script:
    weighed = {
        script: weight * sum(map(len, re.findall(letters, sample)))
        for script, letters, weight in _WEIGHTS
    }
    heaviest = max(weighed, key=weighed.__getitem__)
    latin = sum(map(len, re.findall(_LATIN, sample)))
    total = sum(weighed.values()) + latin
    if total < sum(map(str.isalpha, sample)) / 2:
        return "none"
    return heaviest if total and weighed[heaviest] / total >= _DECIDES else "latin"


def _chinese_or_japanese(sample: str) -> tuple[str, Script]:
    counts = {
        script: len("".join(re.findall(letters, sample))) for script, letters, _ in _WEIGHTS[:2]
    }
    if counts["kana"] >= _KANA_SHARE * (counts["kana"] + counts["han"]):
        return "ja", "kana"
    return "zh", "han"


def _latin_language(sample: str) -> Language:
    found = _ASCII_WORD.findall(sample[:_LATIN_SAMPLE].lower())
    if found and sum(map(_ENGLISH_WORDS.__contains__, found)) >= _MANY_SHARE * len(found):
        return _ENGLISH
    is_plain = has_plain_letters(sample)
    lowered = sample if is_plain else sample.lower()
    if not is_plain:
        found = _word_pattern(lowered).findall(lowered, 0, _LATIN_SAMPLE)
    if not found:
        return UNKNOWN_LANGUAGE
    votes = Counter(chain.from_iterable(filter(None, map(_VOTES.get, found))))
    if not is_plain:
        for code, letters in _TELLING_LETTERS.items():
            votes[code] += sum(map(lowered.count, letters)) // 2
    best = max(votes, key=votes.__getitem__, default="")
    if best and votes[best] >= max(_FEWEST_HITS, _FEWEST_SHARE * len(found)):
        return Language(best, "latin")
    # Too few words to tell: what needs no accent is most likely English.
    is_english = is_plain or re.search(_ACCENTED, lowered) is None
    return _ENGLISH if is_english else Language("und", "latin")
