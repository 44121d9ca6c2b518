"""Patterns that are compiled when they are first used: of some three hundred, a run needs few."""

import re
from collections.abc import Callable
from typing import Any, cast

import msgspec

from evalwright.signals.matching import Pattern, quickest_compiler

_METHODS = ("match", "search", "fullmatch", "finditer", "findall", "split", "sub", "subn")
_ENGINE = "_regexp"  # of google-re2, which `spans_in` asks without its layer of Python


class _LazyPattern(msgspec.Struct, dict=True):
    """Compiles a pattern at its first use, and then has the methods of what was compiled."""

    compile: Callable[[], Any]

    def __getattr__(self, name: str) -> Any:
        compiled = self.compile()
        vars(self).update((each, getattr(compiled, each)) for each in _METHODS)
        vars(self)[_ENGINE] = getattr(compiled, _ENGINE, None)
        return getattr(self, name) if name in vars(self) else getattr(compiled, name)


def when_used(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern for text; what nearly every prompt needs in a loop is better compiled at once."""
    return cast("re.Pattern[str]", _LazyPattern(lambda: re.compile(pattern, flags)))


def quick_pattern(pattern: bytes) -> Pattern:
    """A pattern for bytes that tells quickly whether anything of a kind occurs in a text."""
    return cast("Pattern", _LazyPattern(lambda: quickest_compiler()(pattern)))
