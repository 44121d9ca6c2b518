"""Tools of an agent's own: functions whose calls are recorded, or answered by fixtures."""

import functools
import inspect
import time
import types
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import UNSET

from evalwright.agents.context import at_work, current, in_progress, of_checks

if TYPE_CHECKING:
    from evalwright.agents.account import SeenCall
    from evalwright.agents.protocol import Invocation

F = TypeVar("F", bound=Callable[..., Any])
MOST_PARTS = 10_000  # of a result, that are recorded
WRAPPED = "wrapped tool"  # how such a call was observed
_INNER = "__evalwright_tool__"  # of a wrapped function: the one within
# What libraries hand to a tool beside its arguments; it may hold anything of the agent, keys too.
_OF_LIBRARIES = frozenset(
    {"RunContextWrapper", "ToolContext", "RunContext", "ToolRuntime", "InvocationContext"}
)


class CallInProgress:
    """A call that takes time: set its `result` when it is there, or its `error`."""

    def __init__(self) -> None:
        self.result: Any = UNSET
        self.error: str | None = None

    def add_part(self, part: Any) -> None:
        if self.result is UNSET:
            self.result = []
        if len(self.result) < MOST_PARTS:
            self.result.append(part)


@contextmanager
def recorded_call(
    invocation: "Invocation", seen: "SeenCall", *, is_stream: bool = False
) -> Iterator[CallInProgress]:
    """Record what comes of a call that has begun, as it ends; what it raises is its error.

    What is recorded of the same call within is not recorded twice, unless it is a stream, whose
    reader goes on between its parts.
    """
    call, started = CallInProgress(), time.monotonic()
    before = None if is_stream else in_progress.set(seen)
    try:
        yield call
    except GeneratorExit:  # its reader has had enough
        raise
    except BaseException as raised:
        call.error = f"{type(raised).__name__}: {raised}"
        raise
    finally:
        if before is not None:
            with suppress(ValueError):  # it ends in another context than it began in
                in_progress.reset(before)
        took = round((time.monotonic() - started) * 1000)
        result = None if call.result is UNSET and call.error is None else call.result
        invocation.end_call(seen, result=result, error=call.error, duration_ms=took)


def wrapped(function: F, name: str | None = None, of: "Invocation | None" = None) -> F:
    """The function, with every call of it recorded where a task is being worked on.

    `of` is the invocation that the calls belong to; without it, the one that the code runs in.
    Where the task has fixtures for the tool, they answer in place of the function.
    """
    if not callable(function):
        raise TypeError(
            f"a {type(function).__name__} cannot be wrapped: wrap the function that it is made "
            "of, with @ew.tool right above its def"
        )
    if (inner := getattr(function, _INNER, None)) is not None:  # it is wrapped already
        again = wrapped(inner, name or getattr(function, "__name__", None), of)
        if inspect.ismethod(function):
            return cast("F", types.MethodType(again, function.__self__))
        return cast("F", again)
    own_name = str(getattr(function, "__name__", None) or type(function).__name__)
    tool = str(name or own_name)
    also = None if own_name == tool else own_name
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some callables written in C do not tell
        signature = None

    def asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> "_OwnCall | None":
        """Of whom the call is, and what it is given; None: nobody works on a task."""
        invocation = of or current.get()
        if invocation is None:
            for each in () if of_checks.get() else tuple(at_work):  # it may be of any of them
                each.lose_call(tool, f"{tool} was called in a thread that no task started")
            return None
        invocation.require_open()  # before the function does anything
        return _OwnCall(invocation, tool, also, _arguments(signature, args, kwargs))

    if inspect.isasyncgenfunction(function):
        call = _async_stream(function, asked)
    elif inspect.isgeneratorfunction(function):
        call = _stream(function, asked)
    elif is_async(function):
        call = _async(function, asked)
    else:
        call = _sync(function, asked)
    found = functools.wraps(function)(call)
    setattr(found, _INNER, function)
    return cast("F", found)


def _sync(function: Callable[..., Any], asked: "Ask") -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        ask = asked(args, kwargs)
        if ask is None:
            return function(*args, **kwargs)
        if ask.is_answered:
            return ask.answered()
        with ExitStack() as until_it_ends:
            made = until_it_ends.enter_context(ask.recorded())
            made.result = function(*args, **kwargs)
            if inspect.isawaitable(made.result):  # it has only begun
                return _awaited(made, until_it_ends.pop_all())
        return made.result

    return call


async def _awaited(made: CallInProgress, until_it_ends: ExitStack) -> Any:
    with until_it_ends:
        made.result = await made.result
    return made.result


def _async(function: Callable[..., Any], asked: "Ask") -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        ask = asked(args, kwargs)
        if ask is None:
            return await function(*args, **kwargs)
        if ask.is_answered:
            return ask.answered()
        with ask.recorded() as made:
            made.result = await function(*args, **kwargs)
        return made.result

    return call


def _stream(function: Callable[..., Any], asked: "Ask") -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        ask = asked(args, kwargs)
        if ask is None:
            return (yield from function(*args, **kwargs))
        if ask.is_answered:
            return (yield from ask.answered_parts())
        with ask.recorded(is_stream=True) as made:
            parts, sent = function(*args, **kwargs), None
            while True:
                try:
                    part = parts.send(sent)
                except StopIteration as end:
                    return end.value
                made.add_part(part)
                sent = yield part

    return call


def _async_stream(function: Callable[..., Any], asked: "Ask") -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        ask = asked(args, kwargs)
        if ask is not None and ask.is_answered:
            for part in ask.answered_parts():
                yield part
            return
        with nullcontext() if ask is None else ask.recorded(is_stream=True) as made:
            async for part in function(*args, **kwargs):
                if made is not None:
                    made.add_part(part)
                yield part

    return call


class _OwnCall:
    def __init__(
        self, invocation: "Invocation", tool: str, also: str | None, given: dict[str, Any]
    ) -> None:
        self._invocation = invocation
        self._tool = tool
        self._also = also
        self._given = given

    @property
    def is_answered(self) -> bool:
        invocation = self._invocation
        return not invocation.surroundings.live and self._tool in invocation.tool_names()

    def answered(self) -> Any:
        return self._invocation.answer_from_fixtures(self._tool, self._given, self._also)

    def answered_parts(self) -> list[Any]:
        """The fixture's answer for one that is read in parts: those of a list one by one."""
        answer = self.answered()
        return answer if isinstance(answer, list) else [answer]

    def recorded(self, *, is_stream: bool = False) -> AbstractContextManager[CallInProgress]:
        seen = self._invocation.begin_call(self._tool, self._given, how=WRAPPED, also=self._also)
        return recorded_call(self._invocation, seen, is_stream=is_stream)


Ask = Callable[[tuple[Any, ...], dict[str, Any]], _OwnCall | None]


def is_async(function: Any) -> bool:
    """Whether a function, or what an instance does when it is called, has to be awaited."""
    called = getattr(function, "__call__", None)  # noqa: B004 - its own kind is asked for
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


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
        return wrapped(function, name, self._invocation)


def _arguments(
    signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    try:
        bound = signature.bind(*args, **kwargs) if signature is not None else None
    except TypeError:  # the function itself will say what is wrong with them
        bound = None
    if signature is None or bound is None:
        return {**{str(number): each for number, each in enumerate(args)}, **kwargs}
    given = dict(bound.arguments)
    for each in signature.parameters.values():
        if each.kind is each.VAR_KEYWORD:
            given |= given.pop(each.name, {})
    given.pop("self", None)
    return {name: each for name, each in given.items() if type(each).__name__ not in _OF_LIBRARIES}
