"""Patterns for bytes in linear time, with google-re2; and all places of many words at once."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias, cast

import re2

LiteralFinder: TypeAlias = Callable[[bytes], Iterable[tuple[int, bytes]]]
BytesPattern: TypeAlias = "re2._Regexp[bytes]"
_METHODS = ("match", "search", "fullmatch", "finditer", "findall", "split", "sub", "subn")


class _LazyPattern:
    """A pattern that is compiled when it is first used: of very many, most never are.

    Then it has the methods of what was compiled.
    """

    def __init__(self, compile_pattern: Callable[..., Any], *args: Any) -> None:
        self._compile = partial(compile_pattern, *args)

    def __getattr__(self, name: str) -> Any:
        compiled = self._compile()
        known = (*_METHODS, "_regexp") if isinstance(compiled, re2._Regexp) else _METHODS
        vars(self).update((each, getattr(compiled, each)) for each in known)
        return getattr(compiled, name)


def when_used(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern for text; what nearly every prompt needs in a loop is better compiled at once."""
    return cast("re.Pattern[str]", _LazyPattern(re.compile, pattern, flags))


def quick_pattern(pattern: bytes) -> BytesPattern:
    """A pattern for bytes that tells quickly whether anything of a kind occurs in a text."""
    return cast("BytesPattern", _LazyPattern(_compile_latin, pattern))


def seldom_used(compile_pattern: Callable[..., BytesPattern], *args: Any) -> BytesPattern:
    """What a pattern is compiled to, when it is first used."""
    return cast("BytesPattern", _LazyPattern(compile_pattern, *args))


def pattern_at_place(pattern: bytes) -> BytesPattern:
    """A pattern that is only matched at places: there `re` is as fast, and compiles sooner."""
    return cast("BytesPattern", _LazyPattern(re.compile, pattern))


def _compile_latin(pattern: bytes) -> BytesPattern:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return re2.compile(pattern, options=options)


# RE2 is asked without its layer of Python, which takes longer than most of these searches: with it,
# to find signals takes 10 % more.
_ANYWHERE = re2._Anchor.UNANCHORED
_NOWHERE = (-1, -1)


def spans_in(
    pattern: BytesPattern, text: bytes, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, int]]:
    """Where a pattern occurs in bytes; none matches the empty text."""
    find, start = pattern._regexp.Match, max(0, start)
    last = len(text) if end is None else min(end, len(text))
    while start < last:
        span: tuple[int, int] = find(_ANYWHERE, text, start, last)[0]
        if span == _NOWHERE:
            return
        yield span
        start = span[1]


def first_in(pattern: BytesPattern, text: bytes, start: int = 0) -> tuple[int, int] | None:
    """Where a pattern first occurs in bytes."""
    return next(spans_in(pattern, text, start), None)


def occurs_in(pattern: BytesPattern, text: bytes) -> bool:
    """Whether a pattern occurs in bytes."""
    return bool(pattern._regexp.Match(_ANYWHERE, text, 0, len(text))[0] != _NOWHERE)


def find_together(literals: Iterable[bytes]) -> LiteralFinder:
    """Finds all places of any of these words, in one go; the words are not of UTF-16 halves."""
    import ahocorasick

    automaton = ahocorasick.Automaton()
    for word in literals:
        automaton.add_word(word.decode("latin-1"), (len(word) - 1, word))
    automaton.make_automaton()

    def find(lowered: bytes) -> list[tuple[int, bytes]]:
        hits = automaton.iter(lowered.decode("latin-1"))
        return sorted((end - back, word) for end, (back, word) in hits)

    return find
