"""Patterns for bytes in linear time: google-re2 and Aho-Corasick, or the standard library.

Every pattern is written so that `re` gives the same matches, and has bounded repetition, so that
`re` is linear on it as well.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any, Protocol, TypeAlias, cast

import msgspec


class EngineMatch(Protocol):
    """What both engines' matches offer."""

    @property
    def lastindex(self) -> int | None: ...

    def group(self, group: int = 0, /) -> bytes: ...

    def span(self, group: int = 0, /) -> tuple[int, int]: ...


class Pattern(Protocol):
    """What both engines' compiled patterns offer."""

    def match(self, text: bytes, pos: int = 0, endpos: int = 0, /) -> EngineMatch | None: ...

    def search(self, text: bytes, /) -> EngineMatch | None: ...

    def finditer(self, text: bytes, /) -> Iterator[EngineMatch]: ...


_METHODS = ("match", "search", "fullmatch", "finditer", "findall", "split", "sub", "subn")
_ENGINE = "_regexp"  # of google-re2, which `spans_in` asks without its layer of Python


class _LazyPattern:
    """A pattern that is compiled when it is first used: of very many, most never are.

    Then it has the methods of what was compiled.
    """

    def __init__(self, compile_pattern: Callable[..., Any], *args: Any) -> None:
        self._compile = partial(compile_pattern, *args)

    def __getattr__(self, name: str) -> Any:
        compiled = self._compile()
        known = vars(self)
        known.update((each, getattr(compiled, each)) for each in _METHODS)
        known[_ENGINE] = getattr(compiled, _ENGINE, None)
        return known[name] if name in known else getattr(compiled, name)


def when_used(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern for text; what nearly every prompt needs in a loop is better compiled at once."""
    return cast("re.Pattern[str]", _LazyPattern(re.compile, pattern, flags))


LiteralFinder: TypeAlias = Callable[[bytes], Iterable[tuple[int, bytes]]]


class Engine(msgspec.Struct, frozen=True):
    """A way to compile patterns, and to find all places of many lower-case literals."""

    compile: Callable[[bytes], Pattern]
    literals: Callable[[Iterable[bytes]], LiteralFinder]
    compile_at_place: Callable[[bytes], Pattern]  # to match where a literal was found


def plain_engine() -> Engine:
    """Only the standard library."""
    return Engine(_compile_plain, _find_one_by_one, _compile_plain)


def best_engine() -> Engine:
    """The fastest of what is installed."""
    compile_pattern, find_literals = _compile_plain, _find_one_by_one
    if (compile_now := quickest_compiler()) is not _compile_plain:
        compile_pattern = partial(_LazyPattern, compile_now)
    with suppress(ImportError):
        import ahocorasick  # noqa: F401

        find_literals = find_together
    return Engine(compile_pattern, find_literals, compile_pattern)


@cache
def quickest_compiler() -> Callable[[bytes], Pattern]:
    """Compiles patterns for bytes with google-re2, or with `re` where that is not installed."""
    with suppress(ImportError):
        import re2

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        return partial(re2.compile, options=options)
    return _compile_plain


def engine_for_few_texts() -> Engine:
    """The fastest for a few hundred texts: at a place, `re` is as fast, and compiles sooner."""
    best = best_engine()
    return Engine(best.compile, best.literals, partial(_LazyPattern, re.compile))


def quick_pattern(pattern: bytes) -> Pattern:
    """A pattern for bytes that tells quickly whether anything of a kind occurs in a text."""
    return cast("Pattern", _LazyPattern(lambda: quickest_compiler()(pattern)))


# Below, google-re2 is asked without its layer of Python, which takes longer than most searches do.
# A version that has other insides is asked through it.


def spans_in(
    pattern: Any, text: bytes, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, int]]:
    """Where a pattern occurs in bytes, as `finditer` tells it; none matches the empty text."""
    last = len(text) if end is None else min(end, len(text))
    place = max(0, start)
    engine, anywhere = getattr(pattern, "_regexp", None), _anywhere()
    if engine is None or anywhere is None:
        yield from (found.span() for found in pattern.finditer(text, place, last))
        return
    match = engine.Match
    while place <= last:
        span: tuple[int, int] = match(anywhere, text, place, last)[0]
        if span[0] < 0:
            return
        yield span
        place = max(span[1], place + 1)


def first_in(pattern: Any, text: bytes, start: int = 0) -> tuple[int, int] | None:
    """Where a pattern first occurs in bytes."""
    engine, anywhere = getattr(pattern, "_regexp", None), _anywhere()
    if engine is None or anywhere is None:
        return next(spans_in(pattern, text, start), None)
    span: tuple[int, int] = engine.Match(anywhere, text, start, len(text))[0]
    return None if span[0] < 0 else span


def group_at(pattern: Any, text: bytes, start: int, end: int) -> tuple[int, int, int]:
    """Which group of a pattern that occurs between two places matches there, and where."""
    engine = getattr(pattern, "_regexp", None)
    if engine is None or _anywhere() is None:
        found = pattern.match(text, start)
        return found.lastindex, *found.span(found.lastindex)
    # To be told where groups are takes much longer where the rest of a text is looked at, too.
    spans = engine.Match(_anywhere(), text, start, end)
    return next((group, *span) for group, span in enumerate(spans) if group and span[0] >= 0)


def occurs_in(pattern: Any, text: bytes) -> bool:
    """Whether a pattern occurs in bytes."""
    return first_in(pattern, text) is not None


@cache
def _anywhere() -> Any | None:
    """What has google-re2 look anywhere in a text; None if it is missing or has other insides."""
    with suppress(ImportError, AttributeError):
        import re2

        inside = re2._re2.RE2
        return inside.Anchor.UNANCHORED if hasattr(inside, "Match") else None
    return None


def _compile_plain(pattern: bytes) -> Pattern:
    compiled: Any = re.compile(pattern)
    return compiled  # type: ignore[no-any-return]


def _find_one_by_one(literals: Iterable[bytes]) -> LiteralFinder:
    words = sorted(literals)

    def find(lowered: bytes) -> list[tuple[int, bytes]]:
        return sorted((place, word) for word in words for place in _places(lowered, word))

    return find


def _places(text: bytes, word: bytes) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


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
