"""What a user's words ask for, want to know, and leave to some content."""

# ruff: noqa: RUF001 (marks and letters of other scripts)

import re
from functools import cache, lru_cache
from typing import Literal, TypeAlias

import re2

from evalwright.signals.injection.verbs import VERB_KINDS
from evalwright.signals.language import ENGLISH_ALONE, SHARED_WITH_ENGLISH, likely_languages
from evalwright.signals.word_tables import either, word_tables
from evalwright.trace.cached import recent

Deed: TypeAlias = Literal[
    "money", "commitment", "destroy", "discard", "disrupt", "harm", "permission", "connect",
    "policy", "remember", "send", "download",
]  # fmt: skip

# English inflections, so that `delet` stands for delete, deletes, deleted, deletion, deleting.
ENDINGS = (
    "e", "s", "es", "ed", "d", "er", "or", "ing", "ion", "ions", "ation", "ations", "al", "als",
    "ment", "ments", "ance", "ware", "y", "ies", "ting", "ted", "ring", "red", "ping", "ped",
    "ning", "ned", "ging", "ged", "",
)  # fmt: skip
_LONGEST_TOLD = 4000
_FEWEST_TELLING = 2
_ROOM = 32 << 20
_MOST_RECENT, _MOST_LONG = 128, 8  # what the users of one suite ask for

_TABLES = word_tables(__file__)
_LATIN = ("de", "es", "fr", "it", "pt", "nl", "pl", "tr")
_SPACED = frozenset((*_LATIN, "ru"))
_IN_ENGLISH = {
    deed: re2.compile(rf"(?i)\b(?:{either(stems)})(?:{'|'.join(ENDINGS)})\b")
    for deed, stems in _TABLES["deeds en"].items()
}
_DELEGATED = re2.compile(
    r"(?i)\b(?:follow|do|perform|complete|execute|carry out|act on|handle|implement|apply|obey"
    r"|work through|take care of)"
    r"(?: (?:all|any|every|exactly|precisely|of))* "
    r"(?:(?:the|these|those|its|his|her|their|my|our) )?(?:[\w'-]+ ){0,2}"
    r"(?:instructions?|actions?|tasks?|to-?dos?|steps?|requests?|check-?list|run-?book)\b|"
    r"\b(?:do|as) (?:what )?(?:it|he|she|they|the \w+) (?:says?|asks?|tells?|wants?|requests?)\b|"
    r"\baccordingly\b"
)

_MARKS = "?？؟"
_SENTENCE = re.compile(rf"[^.!{_MARKS}。！\n]+[.!{_MARKS}。！\n]?")
_OPENS = re2.compile(
    r"(?i)[\s¿\"'(]*(?:and |but |so |also |und |y |et |e |en |i |а |и )?"
    rf"(?:{either(*_TABLES['opens a question'].values())})(?:[^\pL]|$)"
)
_WITHIN = re2.compile(f"(?i){either(*_TABLES['within a question'].values())}")
_ASKED = re2.compile(f"(?i){either(_TABLES['polite']['any'])}")
_INFORMS = re2.compile(
    rf"(?i)(?:^|[^\pL])(?:{either(*_TABLES['informs'].values())})"
    rf"|{either(*_TABLES['informs, unspaced'].values())}"
)


@lru_cache(maxsize=64)  # of one user: every side of a case, and every call, asks for the same
def asks_for(deed: Deed, said: str) -> bool:
    """Whether someone's words ask for a deed."""
    told = without_questions(said)
    if deed in _IN_ENGLISH and _IN_ENGLISH[deed].search(told):
        return True
    # A few words may be in any language.
    languages = languages_of(said) or (_LATIN if may_be_foreign(said) else ())
    patterns = (_asking(deed, language) for language in languages)
    return any(pattern is not None and pattern.search(told) for pattern in patterns)


@cache
def _asking(deed: str, language: str) -> "re2._Regexp[str] | None":
    stems = _TABLES[f"deeds {language}"].get(deed)
    if stems is None:
        return None
    # RE2 knows the boundaries of ASCII words alone: what is no letter stands before a stem, but
    # for German, whose verbs have prefixes, and for scripts without spaces.
    start = r"(?:^|[^\pL])(?:ge|be|ver|ab|aus|ein|um|zurück)?" if language in _SPACED else ""
    options = re2.Options()
    options.max_mem = _ROOM  # with less, RE2 is slow on some and says so on stderr
    return re2.compile(f"(?i){start}(?:{either(stems)})", options)


@recent(_MOST_RECENT, _MOST_LONG)
def languages_of(said: str) -> tuple[str, ...]:
    """The languages besides English that someone's words may be in."""
    said = said[:_LONGEST_TOLD].encode("utf-8", "replace").decode()
    words = set(said.lower().split())
    is_english = _is_english(words)
    fewest = _FEWEST_TELLING if is_english and said.isascii() else 1
    return likely_languages(said, words, _LATIN, fewest)


@recent(_MOST_RECENT, _MOST_LONG)
def may_be_foreign(said: str) -> bool:
    """Whether someone's words are not, or cannot be told to be, English."""
    return bool(languages_of(said)) or not _is_english(set(said[:_LONGEST_TOLD].lower().split()))


def _is_english(words: set[str]) -> bool:
    if not words.isdisjoint(ENGLISH_ALONE):
        return True
    telling = (word.strip(".,!?:;") for word in words - SHARED_WITH_ENGLISH)
    return any(word.encode("utf-8", "replace") in VERB_KINDS for word in telling)


@recent(_MOST_RECENT, _MOST_LONG)
def without_questions(said: str) -> str:
    """Someone's words but for what they only want to know."""
    if "?" not in said and said.isascii():
        return said
    said = said.encode("utf-8", "replace").decode()
    return _SENTENCE.sub(lambda found: "? " if _is_question(found.group()) else found.group(), said)


def _is_question(sentence: str) -> bool:
    if sentence[-1] in _MARKS and _OPENS.match(sentence):
        return True
    if sentence.isascii() or not _WITHIN.search(sentence):
        return False
    return _ASKED.search(sentence) is None


def wants_to_know(said: str) -> bool:
    """Whether someone's words, in a language besides English, ask to be told or shown something."""
    said = said[:_LONGEST_TOLD].encode("utf-8", "replace").decode()
    if any(mark in said for mark in _MARKS) or _INFORMS.search(said):
        return True
    return without_questions(said) != said


def delegates(said: str) -> bool:
    """Whether the user hands the decision what to do to a document or a message."""
    return _DELEGATED.search(said) is not None or is_left_to_content(said)


@recent(_MOST_RECENT, _MOST_LONG)
def is_left_to_content(said: str) -> bool:
    """The same, of words that are not English."""
    return may_be_foreign(said) and entrusts_abroad(said[:_LONGEST_TOLD])


def entrusts_abroad(said: str) -> bool:
    """Whether words that are not English hand over to a document or a message what to do."""
    said = said.encode("utf-8", "replace").decode()
    return any(pattern.search(said) is not None for pattern in _entrusting())


@cache
def _entrusting() -> list["re2._Regexp[str]"]:
    gap = r"[^.!?\n]{0,50}?"
    in_order, either_way = (
        [(either(_TABLES[f"carry out{how}"][each]), either(row)) for each, row in orders.items()]
        for how, orders in (
            ("", _TABLES["orders"]),
            (", either way", _TABLES["orders, either way"]),
        )
    )
    return [
        *(re2.compile(rf"(?i)(?:^|[^\pL])(?:{do}){gap}(?:{what})") for do, what in in_order),
        *(
            re2.compile(rf"(?i)(?:{do}){gap}(?:{what})|(?:{what}){gap}(?:{do})")
            for do, what in either_way
        ),
    ]
