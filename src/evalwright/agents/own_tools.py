"""Tools of an agent's own: functions whose calls are recorded, or answered by fixtures."""

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

if TYPE_CHECKING:
    from evalwright.agents.protocol import Invocation

F = TypeVar("F", bound=Callable[..., Any])
WRAPPED = "wrapped tool"  # how such a call was observed
# The invocation that code runs in: a thread, or a task of the event loop, has its own.
current: ContextVar["Invocation | None"] = ContextVar("invocation", default=None)


class CallInProgress:
    """A call that takes time: set its `result` when it is there."""

    def __init__(self) -> None:
        self.result: Any = UNSET


@contextmanager
def recorded_call(
    invocation: "Invocation", tool: str, args: Mapping[str, Any] | None, how: str
) -> Iterator[CallInProgress]:
    """Record a call when it ends, with the time it took; what it raises is its error."""
    call, started = CallInProgress(), time.monotonic()
    error: str | None = None
    try:
        yield call
    except BaseException as raised:
        error = f"{type(raised).__name__}: {raised}"
        raise
    finally:
        took = round((time.monotonic() - started) * 1000)
        result = None if call.result is UNSET and error is None else call.result
        invocation.record_call(
            tool, dict(args or {}), result=result, error=error, duration_ms=took, how=how
        )


def wrapped(function: F, name: str | None = None, of: "Invocation | None" = None) -> F:
    """The function, with every call of it recorded where a task is being worked on.

    `of` is the invocation that the calls belong to; without it, the one that the code runs in.
    Where the task has fixtures for the tool, they answer in place of the function.
    """
    tool = str(name or getattr(function, "__name__", type(function).__name__))

    def is_answered(invocation: "Invocation") -> bool:
        return not invocation.surroundings.live and tool in invocation.tool_names()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        invocation = of or current.get()
        if invocation is None:
            return function(*args, **kwargs)
        given = _arguments(function, args, kwargs)
        if is_answered(invocation):
            return invocation.answer_from_fixtures(tool, given)
        with recorded_call(invocation, tool, given, WRAPPED) as made:
            made.result = function(*args, **kwargs)
        return made.result

    @functools.wraps(function)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        invocation = of or current.get()
        if invocation is None:
            return await function(*args, **kwargs)
        given = _arguments(function, args, kwargs)
        if is_answered(invocation):
            return invocation.answer_from_fixtures(tool, given)
        with recorded_call(invocation, tool, given, WRAPPED) as made:
            made.result = await function(*args, **kwargs)
        return made.result

    is_async = inspect.iscoroutinefunction(function)
    return call_async if is_async else call  # type: ignore[return-value]


def tool(function: Any = None, *, name: str | None = None) -> Any:
    """Mark a function as a tool: `@ew.tool`, or `@ew.tool(name="orders.get")`.

    While an agent works on a task, calls of it are recorded with arguments and result, and the
    task's fixtures answer in its place. Elsewhere it is the function that it was.
    """
    if function is None:
        return functools.partial(tool, name=name)
    return wrapped(function, name)


class OwnTools:
    """The tools that an agent brings with it."""

    def __init__(self, invocation: "Invocation") -> None:
        self._invocation = invocation

    def wrap(self, function: F, name: str | None = None) -> F:
        """The function, with its calls recorded; fixtures of its name answer in its place."""
        return wrapped(function, name, self._invocation)


def _arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by the names of the function's parameters."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):  # the function itself will say what is wrong with them
        return {**{str(number): each for number, each in enumerate(args)}, **kwargs}
    given = dict(bound.arguments)
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.VAR_KEYWORD:
            given |= given.pop(each.name, {})
    given.pop("self", None)
    return given
