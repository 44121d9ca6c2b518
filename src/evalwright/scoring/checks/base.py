"""What a check is: a name, the form of its argument, and how it looks at an answer.

A check is pure. One that needs the world (a judge, the user's own code, a model of embeddings) says
so in its `asks`; whoever runs checks answers them first.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import msgspec

from evalwright.contracts.report import Signal
from evalwright.trace.model import Trace


class RefusedCheck(Exception):
    """An argument that a check cannot work with; `path` is its place below the check."""

    def __init__(self, message: str, remedy: str = "", path: str = "$") -> None:
        self.message = message
        self.remedy = remedy
        self.path = path
        super().__init__(message)


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Something that a check must be told before it can look at an answer."""


Answers: TypeAlias = Mapping[Ask, Any]


class MadeCall(NamedTuple):
    """A tool call of the agent."""

    tool: str
    args: Any
    result: Any = None
    is_ok: bool = True


class Spent(NamedTuple):
    """What an answer took; None where it is not known."""

    cost_usd: float | None = None
    tokens: int | None = None
    latency_ms: int | None = None
    turns: int | None = None


UNKNOWN = Spent()


class Examined:
    """What checks look at: an answer, how it came about, and what it was an answer to."""

    def __init__(
        self,
        *,
        task_id: str = "",
        input: Any = None,  # noqa: A002 - its name in suites
        output: Any = None,
        expected: Any = None,
        calls: Sequence[MadeCall] = (),
        spent: Spent = UNKNOWN,
        make_trace: Callable[[], Trace] | None = None,
        find_signals: Callable[[], Sequence[Signal]] | None = None,
    ) -> None:
        self.task_id = task_id
        self.input = input
        self.output = output
        self.expected = expected
        self.calls = calls
        self.spent = spent
        self._make_trace = make_trace
        self._find_signals = find_signals

    @cached_property
    def trace(self) -> Trace | None:
        """The whole way to the answer, where it was recorded."""
        return self._make_trace() if self._make_trace else None

    @cached_property
    def signals(self) -> Sequence[Signal] | None:
        """The security signals of the trace; None where nobody can look for them."""
        return self._find_signals() if self._find_signals else None


class Look(NamedTuple):
    """What a check saw."""

    passed: bool
    score: float
    expected: Any = None
    actual: Any = None
    reason: str = ""


def holds(passed: bool, expected: Any, actual: Any, reason: str) -> Look:  # noqa: FBT001
    """A check that is met or not, without anything between; the reason is given if it is not."""
    return Look(passed, float(passed), expected, actual, "" if passed else reason)


class Prepared(msgspec.Struct, frozen=True):
    """A check with its argument, ready to look at any number of answers."""

    name: str
    look: Callable[[Examined, Answers], Look]
    asks: tuple[Ask, ...] = ()
    weight: float = 1.0


Nested: TypeAlias = Callable[[Any, str], Prepared]  # prepares a check document at a path


class CheckKind(msgspec.Struct, frozen=True):
    """A kind of check.

    `schema` is the JSON Schema of its argument, which has been checked when `prepare` is called;
    `prepare` raises `RefusedCheck` for what a schema cannot say. `nested` is for checks of checks.
    """

    name: str
    schema: dict[str, Any]
    prepare: Callable[[Any, Nested], Prepared]
