"""What a check is: a class with its argument as fields, and a method that looks at an answer.

A check is pure. One that needs the world (a judge, the user's own code, a model of embeddings) says
so in its `asks`; whoever runs checks answers them first.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from operator import contains
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar
from unicodedata import normalize

import msgspec
from msgspec import UNSET

from evalwright.contracts.coverage import NOTHING_OBSERVED, Coverage
from evalwright.contracts.events import RowChange
from evalwright.contracts.jsonvalue import NotJson, stringify
from evalwright.contracts.report import RootCause, Signal
from evalwright.contracts.verdicts import CheckResult
from evalwright.scoring.checks.quotes import LONGEST, shown
from evalwright.trace.model import Trace

T = TypeVar("T")

# Characters of one answer that are searched to tell what is there instead of what is missing:
# of hundreds of missing texts in a very long answer, only the first have a hint.
MOST_HINTED = 64 << 20
SHORT = 1_000  # characters
LONG = 64 << 10  # characters, from which on many texts are looked for at once, if they are not
FEW = 8  # texts that are sought, or calls
MOST_FOUND = 500_000  # places; the rest of the texts are then looked for one by one
MOST_PARTS = 32  # of an answer that are kept: each may be as long as the whole
_ROUNDING = 1e-9  # of a mean


class RefusedCheck(Exception):
    """An argument that a check cannot work with; `path` is its place below the check."""

    def __init__(self, message: str, remedy: str = "", path: str = "$") -> None:
        self.message = message
        self.remedy = remedy
        self.path = path
        super().__init__(message)

    def below(self, path: str) -> "RefusedCheck":
        return RefusedCheck(self.message, self.remedy, path + self.path.removeprefix("$"))


class CannotTell(Exception):
    """A check cannot tell of this answer: it does not pass, and neither does its opposite."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Something that a check must be told before it can look at an answer."""


class JudgeAsk(Ask, frozen=True):
    """Which of these statements hold for the output? Answered by `JudgeSays`.

    `against` names what the judge sees beside it (`judge.material` gives the text): the
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


class TurnAsk(Ask, frozen=True):
    """What a check of one turn of a conversation must be told, of the answer in that turn."""

    turn: int
    ask: Ask


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


class EndState:
    """The world of a task as the agent left it, and as it was."""

    def __init__(self, before: Mapping[str, Sequence[Any]], changes: Sequence[RowChange]) -> None:
        self.before = before
        self._changes = changes

    @cached_property
    def after(self) -> Mapping[str, Sequence[Any]]:
        rows = {
            each.collection: dict(enumerate(self.before[each.collection])) for each in self._changes
        }
        for each in self._changes:
            if each.after is UNSET:
                rows[each.collection].pop(each.row, None)
            else:
                rows[each.collection][each.row] = each.after
        changed = {name: [each for _, each in sorted(of.items())] for name, of in rows.items()}
        return {**self.before, **changed}


class Seek(NamedTuple):
    """A text that is looked for in an output; `ignores_case`: a folded one in a folded output."""

    text: str
    ignores_case: bool = False


class Examined(msgspec.Struct, kw_only=True, dict=True, eq=False):
    """What checks look at: an answer, how it came about, and what it was an answer to."""

    task_id: str = ""
    input: Any = None
    output: Any = None
    expected: Any = None
    calls: Sequence[MadeCall] = ()
    spent: Spent = UNKNOWN
    coverage: Coverage = NOTHING_OBSERVED
    told: Answers = {}  # what checks ask
    world: EndState | None = None
    turns: "Mapping[int, Examined]" = {}  # of a conversation: the answer in each turn
    make_trace: Callable[[], Trace] | None = None
    find_signals: Callable[[], Sequence[Signal]] | None = None
    whole: "Examined | None" = None  # the answer that this one has only a part of
    checks: "Sequence[AnswerCheck]" = ()  # all that look at it
    _found: dict[Any, Any] | None = None
    _parts: "dict[Any, Examined] | None" = None
    _left_to_hint: int = MOST_HINTED

    def with_part(self, output: Any) -> "Examined":
        """The same answer with a part of it as the output: what a check within a check sees."""
        return msgspec.structs.replace(
            self, output=output, whole=self.whole or self, _found=None, _parts=None
        )

    def once(self, find: Callable[..., T], *how: Any) -> T:
        """What `find(self, *how)` gives, found once however many checks look at the answer."""
        if self._is_short():
            return find(self, *how)
        if self._found is None:
            self._found = {}
        key = (find, how)
        if key not in self._found:
            self._found[key] = find(self, *how)
        found: T = self._found[key]
        return found

    def part(self, find: Callable[..., Any], *how: Any) -> "Examined":
        """The same answer with the part that `find(self, *how)` gives; the last ones are kept."""
        if self._is_short():
            return self.with_part(find(self, *how))
        if self._parts is None:
            self._parts = {}
        key = (find, how)
        part = self._parts.pop(key, None) or self.with_part(find(self, *how))
        self._parts[key] = part
        if len(self._parts) > MOST_PARTS:
            del self._parts[next(iter(self._parts))]
        return part

    def _is_short(self) -> bool:
        """Whether to find something once more takes less time than to remember it."""
        output = self.output if self.whole is None else self.whole.output
        return isinstance(output, str) and len(output) <= SHORT and len(self.calls) <= FEW

    def has(self, seek: Seek, finds: Callable[[str, str], bool] = contains) -> bool:
        """Whether a text is in the output, or where `finds(output, text)` wants it to be.

        Of the texts that are anywhere in a long output, all that are sought are found at once.
        """
        if finds is contains and len(self.text) > LONG:
            found = self.once(_found_at_once).get(seek)
            if found is not None:
                return found
        return finds(self.folded if seek.ignores_case else self.text, seek.text)

    def may_hint(self, searches: int) -> bool:
        """Whether so many more searches of the output may be made only for a better reason."""
        whole = self.whole or self
        is_left = whole._left_to_hint > 0
        whole._left_to_hint -= searches * len(self.text)
        return is_left

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
    def folded(self) -> str:
        return self.text.casefold()

    @cached_property
    def composed(self) -> str:
        return normalize("NFC", self.text)

    @property
    def shown(self) -> Any:
        return shown(self.output) if isinstance(self.output, str) else self.once(_shown, False)

    @property
    def shown_briefly(self) -> Any:
        output = self.output
        return shown(output, brief=True) if isinstance(output, str) else self.once(_shown, True)

    @cached_property
    def trace(self) -> Trace | None:
        if self.whole is not None:
            return self.whole.trace
        return self.make_trace() if self.make_trace else None

    @cached_property
    def signals(self) -> Sequence[Signal] | None:
        if self.whole is not None:
            return self.whole.signals
        return self.find_signals() if self.find_signals else None


def _shown(examined: Examined, brief: bool) -> Any:  # noqa: FBT001
    return shown(examined.output, brief=brief, text=lambda: examined.text)


def _found_at_once(examined: Examined) -> dict[Seek, bool]:
    """Which of the texts that are sought are there, as far as one look at the output tells."""
    import ahocorasick  # only for very long outputs

    known: dict[Seek, bool] = {}
    for ignores_case in (False, True):
        sought = [
            seek
            for check in examined.checks
            for seek in check.seeks
            if seek.ignores_case is ignores_case
        ]
        if len(sought) < FEW:
            continue
        automaton = ahocorasick.Automaton()
        for each in sought:
            automaton.add_word(each.text, each)
        automaton.make_automaton()
        places = automaton.iter(examined.folded if ignores_case else examined.text)
        known |= dict.fromkeys((each for _, each in islice(places, MOST_FOUND)), True)
        if next(places, None) is None:  # all of the output was looked at
            known |= {each: False for each in sought if each not in known}
    return known


class CheckOutcome(msgspec.Struct, frozen=True, gc=False):
    """What a check says of an answer. `broken`: it cannot tell, so its opposite does not hold.

    `cause` is that of a failure which has another than most failures of its kind.

    A reason that takes long to find is given as what finds it: a check around this one may have no
    use for it.
    """

    passed: bool
    score: float
    expected: Any = None
    actual: Any = None
    why: str | Callable[[], str] = ""
    broken: bool = False
    cause: RootCause | None = None

    @property
    def reason(self) -> str:
        return self.why if isinstance(self.why, str) else self.why()


def holds(passed: bool, expected: Any, actual: Any, reason: str) -> CheckOutcome:  # noqa: FBT001
    """A check that is met or not, without anything between; the reason is given if it is not."""
    return CheckOutcome(passed, float(passed), expected, actual, "" if passed else reason)


def cannot_tell(expected: Any, reason: str) -> CheckOutcome:
    """A check that could not be made, which is a failure and never a pass."""
    return CheckOutcome(False, 0.0, expected, None, reason, True, "missing_required_data")


USAGE_NOT_OBSERVED = (
    "the agent's model usage was not observed: return or report it, or claim "
    "`usage: none` (it asks no model)"
)


def calls_not_observed(examined: Examined) -> str | None:
    """Why nobody can say which tools were called, with the remedy; None: they were observed."""
    coverage = examined.coverage
    if coverage.calls is not None:
        return None
    if coverage.lost is not None:
        return f"the agent's tool calls were not observed, or not all of them: {coverage.lost}"
    return (
        "the agent's tool calls were not observed: return or record them, or claim "
        "`tools: none` (it calls none) or `tools: task` (all are seen)"
    )


class Preparing(Protocol):
    """What the preparation of a check may use."""

    @property
    def signal_kinds(self) -> frozenset[str] | None:
        """The kinds of signals that there are; None where nobody can say."""

    def nested(self, document: Any, path: str) -> "AnswerCheck":
        """Prepare a check within this one; `path` is its place in the argument."""

    def is_check(self, value: Any) -> bool:
        """Whether a value is written as a check, rather than as a value to be compared with."""


class AnswerCheck(msgspec.Struct, kw_only=True, dict=True, eq=False):
    """A kind of check. Its fields are its argument, ready to look at any number of answers.

    The class gives the check its name (`ContainsAll` is `contains_all`) and its docstring what
    users read about it. `main` is the field that a short form gives: `contains: a` stands for
    `contains: {value: a}`, and the other fields may then stand beside the check. `cause` is what a
    failure is counted as in a compare report. `schema` is the JSON Schema of the argument; where it
    is not given, it is made of the fields, and the first of them is `main`.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    example: ClassVar[str]
    schema: ClassVar[dict[str, Any]]
    main: ClassVar[str] = ""
    cause: ClassVar[RootCause] = "wrong_answer"
    output_alone: ClassVar[bool] = False  # whether it needs nothing that the agent did

    weight: float = 1.0  # in the score of a task

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        cls.description = " ".join((cls.__doc__ or "").split())

    @classmethod
    def of(cls, argument: Any, _preparing: Preparing) -> "AnswerCheck":
        """The check with an argument that fits the schema.

        Raises `RefusedCheck` for what a schema cannot say.
        """
        own = {*cls.__struct_fields__} - {"weight"}
        if isinstance(argument, dict) and cls.main in argument and argument.keys() <= own:
            return cls(**argument)
        return cls(**{cls.main or cls.__struct_fields__[0]: argument})

    @property
    def turn(self) -> int | None:
        """The turn of a conversation that it is about; None: the whole of it."""
        return None

    @property
    def asks(self) -> Sequence[Ask]:
        """What it must be told before it can look at an answer."""
        return ()

    @property
    def seeks(self) -> Sequence[Seek]:
        """What it looks for in the text of the output."""
        return ()

    def evaluate(self, examined: Examined) -> CheckOutcome:
        """What the check says of an answer; may raise `CannotTell`."""
        raise NotImplementedError

    def outcome(self, examined: Examined) -> CheckOutcome:
        try:
            return self.evaluate(examined)
        except CannotTell as unable:
            return cannot_tell(None, unable.reason)


def with_schema(kind: type[AnswerCheck]) -> type[AnswerCheck]:
    """A kind of check that has the schema of its argument: its own, or one made of its fields."""
    if not hasattr(kind, "schema"):
        given = [each for each in msgspec.structs.fields(kind) if each.name != "weight"]
        schemas = {each.name: msgspec.json.schema(each.type) for each in given}
        kind.main = given[0].name
        needed = [each.name for each in given if each.required]
        kind.schema = {"anyOf": [schemas[kind.main], fields(needed, **schemas)]}
    return kind


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


_ONE = CheckResult("", True, 1.0).weight  # the default itself is left out where it is written


def run_checks(checks: Sequence[AnswerCheck], examined: Examined) -> list[CheckResult]:
    """What each check says of an answer."""
    examined.checks = checks
    results = []
    for check in checks:
        found = check.outcome(examined)
        reason = found.reason
        results.append(
            CheckResult(
                check.name,
                found.passed,
                found.score,
                shown(found.expected),
                found.actual,
                reason if len(reason) <= LONGEST else f"{reason[:LONGEST]}…",
                _ONE if check.weight == 1 else check.weight,
                found.broken and not found.passed,
                check.turn,
                None if found.passed else found.cause,
            )
        )
    return results


def verdict_of(results: Sequence[CheckResult], threshold: float | None) -> tuple[float, bool]:
    """The mean of the checks, and whether the answer passes; one without weight is only shown."""
    if not results:
        return 1.0, True
    counted = [each for each in results if each.weight] or results
    total = math.fsum([each.weight for each in counted]) or len(counted)
    score = math.fsum([(each.weight or 1) * each.score for each in counted]) / total
    if threshold is not None:
        is_known = not any(each.broken for each in counted)
        return score, is_known and 0 < score >= threshold - _ROUNDING
    return score, all(each.passed for each in counted)
