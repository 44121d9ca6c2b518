"""What a check is: a name, the form of its argument, and how it looks at an answer.

A check is pure. One that needs the world (a judge, the user's own code, a model of embeddings) says
so in its `asks`; whoever runs checks answers them first.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from evalwright.contracts.coverage import NOTHING_OBSERVED, Coverage
from evalwright.contracts.jsonvalue import NotJson, stringify
from evalwright.contracts.report import RootCause, Signal
from evalwright.trace.model import Trace


class RefusedCheck(Exception):
    """An argument that a check cannot work with; `path` is its place below the check."""

    def __init__(self, message: str, remedy: str = "", path: str = "$") -> None:
        self.message = message
        self.remedy = remedy
        self.path = path
        super().__init__(message)

    def below(self, path: str) -> "RefusedCheck":
        """The same, as seen from what contains the check."""
        return RefusedCheck(self.message, self.remedy, path + self.path.removeprefix("$"))


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Something that a check must be told before it can look at an answer."""


class JudgeAsk(Ask, frozen=True):
    """Which of these statements hold for the output? Answered by `JudgeSays`.

    `against` names what the judge sees beside it (`judge_against.material` gives the text): the
    `reference` of the check, the `expected` of the task, or the `documents` that the agent
    retrieved.
    """

    statements: tuple[str, ...]
    against: Literal["", "reference", "expected", "documents"] = ""
    reference: str = ""


class CodeAsk(Ask, frozen=True):
    """What does the user's own function return? Answered by that value."""

    function: str  # file.py:name, from the suite's folder


class EmbeddingAsk(Ask, frozen=True):
    """Where do a text and the output lie? Answered by two vectors: the text's, the output's."""

    text: str


class JudgeSays(NamedTuple):
    """What judges said of the statements of a `JudgeAsk`, in their order."""

    met: tuple[bool, ...]
    reasons: tuple[str, ...]
    agreement: float = 1.0


class Unanswered(NamedTuple):
    """The answer to an ask that failed, such as code that raised: the check fails with it."""

    reason: str


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
    tokens: float | None = None
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
        coverage: Coverage = NOTHING_OBSERVED,
        make_trace: Callable[[], Trace] | None = None,
        find_signals: Callable[[], Sequence[Signal]] | None = None,
    ) -> None:
        self.task_id = task_id
        self.input = input
        self.output = output
        self.expected = expected
        self.calls = calls
        self.spent = spent
        self.coverage = coverage
        self._make_trace = make_trace
        self._find_signals = find_signals

    def beside(self, output: Any) -> "Examined":
        """The same answer with a part of it as the output: what a check within a check sees."""
        return Examined(
            task_id=self.task_id,
            input=self.input,
            output=output,
            expected=self.expected,
            calls=self.calls,
            spent=self.spent,
            coverage=self.coverage,
            make_trace=self._make_trace,
            find_signals=self._find_signals,
        )

    @cached_property
    def text(self) -> str:
        """The output as text: a string as it is, none as an empty one, anything else as JSON."""
        if self.output is None:
            return ""
        try:
            return stringify(self.output)
        except NotJson:
            return str(self.output)

    @cached_property
    def trace(self) -> Trace | None:
        """The whole way to the answer, where it was recorded."""
        return self._make_trace() if self._make_trace else None

    @cached_property
    def signals(self) -> Sequence[Signal] | None:
        """The security signals of the trace; None where nobody can look for them."""
        return self._find_signals() if self._find_signals else None


class Look(msgspec.Struct, frozen=True, gc=False):
    """What a check saw. `broken`: it could not look, so its opposite does not hold either.

    A reason that takes long to find is given as what finds it: a check around this one may have no
    use for it.
    """

    passed: bool
    score: float
    expected: Any = None
    actual: Any = None
    why: str | Callable[[], str] = ""
    broken: bool = False

    @property
    def reason(self) -> str:
        """Why the check does not pass; empty where it does."""
        return self.why if isinstance(self.why, str) else self.why()


def holds(passed: bool, expected: Any, actual: Any, reason: str) -> Look:  # noqa: FBT001
    """A check that is met or not, without anything between; the reason is given if it is not."""
    return Look(passed, float(passed), expected, actual, "" if passed else reason)


def cannot_look(expected: Any, reason: str) -> Look:
    """A check that could not be made, which is a failure and never a pass."""
    return Look(False, 0.0, expected, None, reason, True)


USAGE_NOT_OBSERVED = (
    "the agent's model usage was not observed: return or report it, or claim `usage: none` of it"
)


def calls_not_observed(examined: Examined) -> str | None:
    """Why nobody can say which tools were called, with the remedy; None: they were observed."""
    coverage = examined.coverage
    if coverage.calls is not None:
        return None
    if coverage.lost is not None:
        return f"the agent's tool calls were not observed, or not all of them: {coverage.lost}"
    return (
        "the agent's tool calls were not observed: return or record them, or claim `tools: none` "
        "or `tools: task` of it"
    )


class Prepared(msgspec.Struct, frozen=True):
    """A check with its argument, ready to look at any number of answers."""

    name: str
    look: Callable[[Examined, Answers], Look]
    asks: tuple[Ask, ...] = ()
    weight: float = 1.0


class Preparing(Protocol):
    """What the preparation of a check may use."""

    @property
    def signal_kinds(self) -> frozenset[str] | None:
        """The kinds of signals that there are; None where nobody can say."""

    def nested(self, document: Any, path: str) -> Prepared:
        """Prepare a check within this one; `path` is its place in the argument."""

    def is_check(self, value: Any) -> bool:
        """Whether a value is written as a check, rather than as a value to be compared with."""


class CheckKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of check.

    `schema` is the JSON Schema of its argument, which has been checked when `prepare` is called;
    `prepare` raises `RefusedCheck` for what a schema cannot say. `main` is the field that a short
    form gives: `contains: a` stands for `contains: {value: a}`, and the other fields may then
    stand beside the check. `cause` is what a failure is counted as in a compare report.
    """

    name: str
    description: str
    example: str
    schema: dict[str, Any]
    prepare: Callable[[Any, Preparing], Prepared]
    cause: RootCause
    main: str = ""


# The place of a check within the argument of another one, in a schema.
NESTED: dict[str, Any] = {"$ref": "#/$defs/check"}
TEXT: dict[str, Any] = {"type": ["string", "number", "boolean"]}
SHARE: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}


def fields(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    """The schema of an object with these fields and no others."""
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }
