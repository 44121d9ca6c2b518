"""A property that is computed when first asked for, and then kept."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")
Owner = TypeVar("Owner")


def kept(owner: Owner, compute: Callable[[Owner], Value]) -> Value:
    """What a function of another module makes of an owner, computed once and kept with it."""
    name = f"{compute.__module__}.{compute.__qualname__}"
    known = owner.__dict__
    if name not in known:
        known[name] = compute(owner)
    value: Value = known[name]
    return value


class once(Generic[Value]):  # noqa: N801  (used as `property` is)
    """As `functools.cached_property`, without the lock that it takes up to Python 3.11."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> "once[Value]": ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...
    def __get__(self, owner: object | None, kind: type) -> "Value | once[Value]":
        if owner is None:
            return self
        value = self._compute(owner)
        owner.__dict__[self._name] = value  # found there from now on, before this descriptor
        return value
