"""Values that are computed when first asked for, and then kept."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")
Owner = TypeVar("Owner")
_SHORT, _LONG = 4_000, 64_000
_FEW = 48


def kept(compute: Callable[[Owner], Value]) -> Callable[[Owner], Value]:
    """Makes of a function one that computes its value for each owner once, and keeps it there."""
    name = f"{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def value_of(owner: Owner) -> Value:
        try:
            value: Value = owner.__dict__[name]
        except KeyError:
            value = owner.__dict__[name] = compute(owner)
        return value

    return value_of


def recent(
    most: int, very_long: int = 0
) -> Callable[[Callable[[str], Value]], Callable[[str], Value]]:
    """Keeps what a function makes of texts for a while: runs of an agent share many.

    So many short texts are kept, a few long ones, and so many that are longer still.
    """

    def keep(compute: Callable[[str], Value]) -> Callable[[str], Value]:
        of_short = lru_cache(maxsize=most)(compute)
        of_long = lru_cache(maxsize=_FEW)(compute)
        of_very_long = lru_cache(maxsize=very_long)(compute)

        @wraps(compute)
        def value_of(text: str) -> Value:
            length = len(text)
            if length <= _SHORT:
                return of_short(text)
            return of_long(text) if length <= _LONG else of_very_long(text)

        return value_of

    return keep


class cached(Generic[Value]):  # noqa: N801  (used as `property` is)
    """As `functools.cached_property`, without the lock that it takes up to Python 3.11."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> "cached[Value]": ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...
    def __get__(self, owner: object | None, kind: type) -> "Value | cached[Value]":
        if owner is None:
            return self
        value = self._compute(owner)
        owner.__dict__[self._name] = value  # found there from now on, before this descriptor
        return value
