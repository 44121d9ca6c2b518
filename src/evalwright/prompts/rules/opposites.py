"""The same sentence with “never” and without, or with “always”, in languages besides English."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter

import msgspec

from evalwright.signals.patterns import when_used
from evalwright.signals.word_tables import either, word_tables

_TABLES = word_tables(__file__)
_LANGUAGES = _TABLES["always"].keys()
_UNSPACED = {name.partition(" ")[0] for name in _TABLES["pieces"]}
_SENTENCE = when_used(r"[^.!?;:,\n。！？；：，、।؟]+(?=([.!;:,?\n。！？；：，、।؟]?))")
_TOKEN = when_used(r"[^\W\d_]+(?:[\u0300-\u036f\u064b-\u065f\u0900-\u097f]+[^\W\d_]*)*")
_BREAKS = ":,：，、?？؟"  # a clause before or after one of these has a condition or an addressee
_QUOTES = '"“”„«»「」『』‘`'
_PLAIN_LETTERS = 8
_SIMILAR, _ENDING = 4, 3  # letters that two forms of a word share, and in which they differ


_START = attrgetter("start")


class Demand(msgspec.Struct, frozen=True):
    """One sentence that asks for something always or never, without the word that says so."""

    start: int
    end: int
    never: bool
    rest: tuple[str, ...]


def opposite_sentences(language: str, text: str, near: int) -> Iterator[tuple[Demand, Demand]]:
    """Pairs of sentences of a text in lower case of which one forbids what the other demands.

    Both begin within so many characters: farther apart, they are about different occasions.
    """
    if language not in _UNSPACED:
        language = _spoken(language, text)
    if not language:
        return
    wanted: list[Demand] = []
    forbidden: list[Demand] = []
    before = ""
    for match in _SENTENCE.finditer(text):
        whole = before not in _BREAKS and match[1] not in _BREAKS if before else True
        whole = whole and not (match[1] and match[1] in _BREAKS)
        before = match[1] or ""
        if whole and not any(sign in match[0] for sign in _QUOTES):
            found = _demand(language, match)
            if found is not None:
                (forbidden if found.never else wanted).append(found)
    for one in wanted:
        first = bisect_left(forbidden, one.start - near, key=_START)
        last = bisect_right(forbidden, one.start + near, key=_START)
        for other in forbidden[first:last]:
            # “Never” changes the endings of words in many languages.
            if len(one.rest) == len(other.rest) and all(map(_are_forms, one.rest, other.rest)):
                yield one, other
                break


def _spoken(language: str, text: str) -> str:
    """A language whose “always” and “never” both occur; few words may be taken for another's."""
    found = set(_TOKEN.findall(text))
    return next(
        (
            each
            for each in (language, *_LANGUAGES)
            if each in _LANGUAGES
            and all(
                any(found.issuperset(word.split()) for word in _TABLES[part][each])
                # A language that is known needs no more than “never”.
                for part in ("always", "never")[each == language :]
            )
        ),
        "",
    )


def _demand(language: str, match: re.Match[str]) -> Demand | None:
    sentence = match[0]
    rest: tuple[str, ...]
    has_always: object
    has_never: object
    if language in _UNSPACED:
        always, never, order = (
            either(_TABLES["pieces"][f"{language} {part}"]) for part in ("always", "never", "ends")
        )
        has_always, has_never = re.search(always, sentence), re.search(never, sentence)
        bare = re.sub(rf"{always}|{never}|^[\s\-*•\d.]+", "", sentence).strip()
        rest = (re.sub(order, "", bare).strip(),)
    else:
        lists = [_TABLES[part][language] for part in ("always", "never", "beside")]
        padded = f" {' '.join(_TOKEN.findall(sentence))} "
        has_always, has_never = (
            next((each for each in words if f" {each} " in padded), None) for words in lists[:2]
        )
        for each in (*lists[1], *lists[0], *lists[2]):
            padded = padded.replace(f" {each} ", " ")
        rest = tuple(padded.split())
    if has_always and has_never:
        return None
    # A plain sentence is an order where the same is forbidden.
    enough = _PLAIN_LETTERS if not (has_always or has_never) else 1
    if len("".join(rest)) < enough:
        return None
    return Demand(match.start(), match.end(), bool(has_never), rest)


def _are_forms(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    if one == other or (len(shorter) > 1 and longer.startswith(shorter)):
        return len(longer) - len(shorter) <= _ENDING
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return (same >= _SIMILAR - 1 and len(longer) - same <= _ENDING - 1) or (
        same >= _SIMILAR and len(longer) - same <= _SIMILAR
    )
