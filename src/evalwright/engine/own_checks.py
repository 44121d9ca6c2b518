"""Own checks: functions of the user, found from the suite's folder before anything runs."""

import asyncio
import inspect
import operator
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from evalwright.agents.context import of_checks
from evalwright.agents.python import own_trace
from evalwright.agents.user_code import Threads, load_code
from evalwright.contracts.suite import Task
from evalwright.scoring.checks.base import (
    USAGE_NOT_OBSERVED,
    Examined,
    Unanswered,
    calls_not_observed,
)

GIVEN = ("input", "output", "expected", "calls", "usage", "trace", "task")
LONGEST_S = 60.0  # that a check may take
LONGEST_TRACE = 1000
HEARTBEAT_S = 0.25  # within which a loop does the least thing, unless it is blocked
_NEXT = "\n  File "  # what a frame of a traceback begins with


class Unusable(Exception):
    """A function that cannot be called; the message says why, the remedy what to do."""

    def __init__(self, message: str, remedy: str = "") -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(message)


class OwnFacts(dict[str, Any]):
    """What is known of something, by name: `usage["tokens"]`, or `usage.tokens`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r} here, only {', '.join(self)}") from None


class NotObserved(Exception):
    """Raised in a function that looks at what nobody observed: its check is not made."""


class Unobserved:
    """In place of what nobody observed: whoever looks at it in any way learns that."""

    def __init__(self, why: str) -> None:
        self._why = why

    def _refuse(self, *_: Any) -> Any:
        raise NotObserved(self._why)

    __iter__ = __len__ = __bool__ = __contains__ = __getitem__ = __reversed__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _refuse
    __int__ = __float__ = __index__ = __round__ = __abs__ = __neg__ = _refuse
    __repr__ = __str__ = __format__ = __getattr__ = _refuse


class OwnCheck(NamedTuple):
    """A function of the user, and which of the facts it wants to be given."""

    function: Callable[..., Any]
    wanted: tuple[str, ...]

    @property
    def is_async(self) -> bool:
        called = getattr(self.function, "__call__", None)  # noqa: B004 - its own kind is asked for
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(called)


class OwnChecks:
    """The functions that the checks of a suite name."""

    def __init__(self, folder: Path, given: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._folder = folder
        self._given = given or {}  # functions that need not be looked for, by what checks call them
        self._modules: dict[Path, Any] = {}
        self._found: dict[str, OwnCheck] = {}
        self._threads = Threads()
        self._loop = OwnLoop()

    def load(self, call: str) -> None:
        """Find a function, `checks.py:is_polite`; raises `Unusable`."""
        if call not in self._found:
            function = self.function(call)
            self._found[call] = OwnCheck(function, wanted_facts(function, call))

    def function(self, call: str) -> Callable[..., Any]:
        """A function of the suite; raises `Unusable`."""
        if call in self._given:
            return self._given[call]
        source, _, name = call.rpartition(":")
        try:
            path = self._folder / source
            if path not in self._modules:
                if not path.is_file():
                    remedy = "it is looked for in the suite's folder"
                    raise Unusable(f"there is no file {source}", remedy)
                try:
                    self._modules[path] = load_code(path)
                except (Exception, SystemExit) as error:
                    trace = own_trace(error)[-LONGEST_TRACE:].strip()
                    raise Unusable(f"{source} failed while loading: {trace}") from error
            function = operator.attrgetter(name)(self._modules[path])
        except AttributeError:
            raise Unusable(f"{source} has no {name!r}", "define it there") from None
        if not callable(function):
            raise Unusable(f"{name} in {source} is not a function", "name a function")
        found: Callable[..., Any] = function
        return found

    async def call(self, name: str, task: Task, examined: Examined, timeout_s: float | None) -> Any:
        """What a function returns for an answer; one that raises or hangs gives `Unanswered`."""
        check = self._found[name]
        limit_s = min(LONGEST_S, timeout_s or LONGEST_S)
        given = {fact: _FACTS[fact](task, examined) for fact in check.wanted}
        if check.is_async:
            returned = await self._loop.run(check.function, given, limit_s)
        else:
            called = self._threads.run(_called, (check.function, given))
            returned = await _within(asyncio.ensure_future(called), limit_s)
        if inspect.isawaitable(returned):  # a wrapper that is sync around one that is not
            returned = await self._loop.run(lambda it: it, {"it": returned}, limit_s)
        try:
            return returned.item() if hasattr(returned, "item") else returned
        except Exception as error:  # noqa: BLE001 - such as an array of several
            return _raised(error)

    def close(self) -> None:
        """Let the threads end when they have nothing to do; another run has its own."""
        self._threads.close()
        self._loop.close()
        self._threads = Threads()


class OwnLoop:
    """A thread with a loop for all async checks of a run: one that blocks it blocks no run."""

    def __init__(self) -> None:
        self._serving: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    async def run(
        self, function: Callable[..., Awaitable[Any]], given: dict[str, Any], limit_s: float
    ) -> Any:
        """What an async function gives in the end; one that blocks the loop loses it."""
        loop = self._started()
        work = asyncio.run_coroutine_threadsafe(_awaited(function, given), loop)
        returned = await _within(asyncio.wrap_future(work), limit_s)
        if isinstance(returned, Unanswered) and not await _is_alive(loop):
            self._serving = None
        return returned

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._serving is None or self._serving[0].is_closed():
            ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

            async def serve() -> None:
                ended = asyncio.Event()
                ready.set_result((asyncio.get_running_loop(), ended))
                await ended.wait()

            Thread(target=asyncio.run, args=(serve(),), daemon=True).start()
            self._serving = ready.result()
        return self._serving[0]

    def close(self) -> None:
        if self._serving is not None and not self._serving[0].is_closed():
            loop, ended = self._serving
            loop.call_soon_threadsafe(ended.set)
        self._serving = None


async def _is_alive(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop of another thread does anything at all."""
    if loop.is_closed():
        return False
    beat = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop)
    await asyncio.wait((asyncio.wrap_future(beat),), timeout=HEARTBEAT_S)
    return beat.done()


def wanted_facts(function: Callable[..., Any], call: str) -> tuple[str, ...]:
    """The facts that a function names; all of them where it takes any. Raises `Unusable`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise Unusable(f"{call} cannot be asked what it takes", "write it in Python") from None
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return GIVEN
    named = [each for each in parameters if each.kind is not each.VAR_POSITIONAL]
    for each in named:
        is_given = each.name in GIVEN and each.kind is not each.POSITIONAL_ONLY
        if not is_given and each.default is each.empty:
            message = f"{call} wants {each.name!r}, which it cannot be given"
            raise Unusable(message, f"it may name {', '.join(GIVEN)}")
    return tuple(each.name for each in named if each.name in GIVEN)


def _called(work: tuple[Callable[..., Any], dict[str, Any]]) -> Any:
    function, given = work
    of_checks.set(True)  # in a thread that makes nothing else
    try:
        return function(**given)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the check did not hold
        return _raised(error)


async def _awaited(function: Callable[..., Awaitable[Any]], given: dict[str, Any]) -> Any:
    of_checks.set(True)
    try:
        return await function(**given)
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, the check did not hold
        return _raised(error)


async def _within(work: "asyncio.Future[Any]", limit_s: float) -> Any:
    """Its own task, so that what it cancels or hangs on does not affect the others."""
    await asyncio.wait((work,), timeout=limit_s)
    if not work.done():
        work.cancel()
        return Unanswered(f"it did not return within {limit_s:g} s")
    return Unanswered("it cancelled itself") if work.cancelled() else work.result()


def _raised(error: BaseException) -> Unanswered:
    if isinstance(error, NotObserved):
        return Unanswered(str(error))
    trace = own_trace(error).strip()
    if len(trace) > LONGEST_TRACE:
        end = trace[-LONGEST_TRACE:]
        trace = f"{trace.partition(_NEXT)[0]}{_NEXT}{end.partition(_NEXT)[2] or end}"
    return Unanswered(trace.encode("utf-8", "replace").decode())


def _calls(_task: Task, examined: Examined) -> list[OwnFacts] | Unobserved:
    if (why := calls_not_observed(examined)) is not None:
        return Unobserved(why)
    return [
        OwnFacts(tool=call.tool, args=call.args, result=call.result, is_ok=call.is_ok)
        for call in examined.calls
    ]


def _usage(_task: Task, examined: Examined) -> OwnFacts:
    usage = OwnFacts(examined.spent._asdict())
    if examined.coverage.usage is None:
        unobserved = Unobserved(USAGE_NOT_OBSERVED)
        usage |= dict.fromkeys(("cost_usd", "tokens", "turns"), unobserved)
    return usage


def _trace(_task: Task, examined: Examined) -> Any:
    trace, why = examined.trace, calls_not_observed(examined)
    if trace is None or why is None:
        return trace
    return msgspec.structs.replace(trace, events=Unobserved(why))


def _task(task: Task, examined: Examined) -> OwnFacts:
    return OwnFacts(
        id=task.task_id,
        input=task.input,
        expected=examined.expected,
        tags=list(task.tags),
        weight=task.weight,
    )


_FACTS: dict[str, Callable[[Task, Examined], Any]] = {
    "input": lambda task, _: task.input,
    "output": lambda _, examined: examined.output,
    "expected": lambda task, _: None if task.reference is UNSET else task.reference,
    "calls": _calls,
    "usage": _usage,
    "trace": _trace,
    "task": _task,
}
