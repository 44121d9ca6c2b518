"""`ew.expect`: what an output must be, in one breath; all that is wrong is told together."""

import ast
import linecache
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Concatenate, NamedTuple, NoReturn, ParamSpec

import msgspec

from evalwright.api import checks
from evalwright.api.check_objects import SPELLED, Check, CheckGiven, OwnFunctions, as_check
from evalwright.api.runs import TaskReport
from evalwright.contracts.verdicts import CheckResult
from evalwright.engine.examination import spent_on
from evalwright.scoring.checks.base import Examined, run_checks
from evalwright.scoring.checks.table import CHECKS, prepare_checks

P = ParamSpec("P")
_OURS = str(Path(__file__).parents[1])
_PLUGIN = "evalwright.pytest_plugin"


class Place(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int


class Missed(NamedTuple):
    """A check that did not pass, and where it stands."""

    place: Place
    result: CheckResult


def _method(
    make: Callable[P, Check],
) -> "Callable[Concatenate[Expectation, P], Expectation]":
    def method(self: "Expectation", /, *args: P.args, **kwargs: P.kwargs) -> "Expectation":
        __tracebackhide__ = True
        return self.satisfies(make(*args, **kwargs))

    method.__doc__, method.__name__ = make.__doc__, make.__name__
    return method


class Expectation:
    """What is expected of an output: every check of `ew` is a method, and methods are chained.

    In a test of pytest, and within `with`, what is wrong is collected and told together: at the end
    of the test, or of the block. Anywhere else the first check that does not pass raises
    `AssertionError`, since nobody would be there to tell it later.
    """

    equals = _method(checks.equals)
    contains = _method(checks.contains)
    contains_any = _method(checks.contains_any)
    contains_all = _method(checks.contains_all)
    starts_with = _method(checks.starts_with)
    ends_with = _method(checks.ends_with)
    regex = _method(checks.regex)
    not_ = _method(checks.not_)
    number = _method(checks.number)
    json = _method(checks.json)
    calls = _method(checks.calls)
    calls_in_order = _method(checks.calls_in_order)
    does_not_call = _method(checks.does_not_call)
    at_most = _method(checks.at_most)
    similar = _method(checks.similar)
    judge = _method(checks.judge)
    judge_against = _method(checks.judge_against)
    no_signals = _method(checks.no_signals)
    python = _method(checks.python)
    any_of = _method(checks.any_of)
    all_of = _method(checks.all_of)
    at_least = _method(checks.at_least)

    def __init__(self, examined: Examined, answer: Any, judges: Sequence[str] = ()) -> None:
        self._examined = examined
        self._answer = answer
        self._judges = judges
        self._depth = 0  # of blocks that it is used in
        self.results: list[CheckResult] = []  # of every check so far

    @property
    def output(self) -> Any:
        """What is looked at."""
        return self._examined.output

    @property
    def passed(self) -> bool:
        """Whether every check so far has passed."""
        return all(result.passed for result in self.results)

    def satisfies(self, check: CheckGiven) -> "Expectation":
        """Any check: of `ew`, a function of your own, or a dictionary as suite files have it."""
        __tracebackhide__ = True
        result = self._examine(as_check(check))
        self.results.append(result)
        if not result.passed:
            missed = Missed(_caller(), result)
            if self._depth == 0 and not _is_told_later():
                raise_missed([missed])
            _missed.append(missed)
        if _is_told_later():  # else nobody would ever take them
            _met.append(result)
        return self

    def _examine(self, check: Check) -> CheckResult:
        own = OwnFunctions()
        document = check.written(own.refer)
        prepared, _ = prepare_checks([document], "$")
        needs_more = any(each.asks for each in prepared) or check.name == "no_signals"
        if needs_more or b'"no_signals"' in msgspec.json.encode(document):
            # Have somebody else look: judges, own code, the detectors of signals.
            from evalwright.api.single_answer import GivenAnswer, answer_once
            from evalwright.api.suite_run import complete_here
            from evalwright.api.suites import Task
            from evalwright.contracts.run_plan import RunOptions

            examined = self._examined
            agent = GivenAnswer(self._answer, "local.given", examined.spent.latency_ms)
            task = Task(
                "expected", input=examined.input, checks=[check], expected=examined.expected
            )
            options = RunOptions(judges=tuple(self._judges))
            answered = complete_here(answer_once(agent, task, options=options))
            (report,) = answered.report.checks
            return msgspec.convert(dict(report), CheckResult)
        return run_checks(prepared, self._examined)[0]

    def __enter__(self) -> "Expectation":
        self._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        __tracebackhide__ = True
        self._depth -= 1
        if self._depth == 0:
            report_missed(error)


_missed: list[Missed] = []  # that nobody has been told of yet
_met: list[CheckResult] = []  # every result since somebody asked


for _name in CHECKS:  # a check that has no function of its own in `checks` has one of its fields
    if not hasattr(Expectation, SPELLED.get(_name, _name)):
        setattr(Expectation, _name, _method(getattr(checks, _name)))


def expect(
    output: Any,
    *,
    input: Any = None,  # noqa: A002 - its name in suites
    expected: Any = None,
    calls: Iterable[Mapping[str, Any]] | None = None,
    judges: Sequence[str] = (),
) -> Expectation:
    """Expect something of an output: `ew.expect(output).contains("shipped").calls("orders.get")`.

    `output` is any value, an `ew.Answer` or a result of an agent library, or a task of a run, whose
    calls and usage are looked at, too. `calls` are the tool calls that led to a value:
    `[{"tool": …, "args": …, "result": …}]`, or an empty list for none; without it they are not
    observed, and no check of calls passes. `judges` are asked by `judge` and `judge_against`;
    without them, those of the settings file are.
    """
    from evalwright.api.single_answer import answer_of, observed_answer, told_again
    from evalwright.api.suite_run import complete_here

    if isinstance(output, TaskReport):
        answer, took, task_id = told_again(output), output.latency_ms, output.id
        input, coverage = output.input, output.coverage  # noqa: A001 - its name in suites
    else:
        answer, took, task_id, coverage = answer_of(output, calls), None, "", None
    found = complete_here(observed_answer(answer, input))
    examined = Examined(
        task_id=task_id,
        input=input,
        output=found.output,
        expected=expected,
        calls=found.calls,
        spent=spent_on(found.usages, took),
        coverage=coverage or found.coverage,
    )
    return Expectation(examined, answer, judges)


def note_missed(results: Iterable[CheckResult]) -> None:
    """Add results that somebody else has found, such as those of an agent that was asked."""
    place = _caller()
    for result in results:
        _met.append(result)
        if not result.passed:
            _missed.append(Missed(place, result))


def pop_results() -> list[CheckResult]:
    """Every result since this was last asked."""
    global _met
    results, _met = _met, []
    return results


def report_missed(error: BaseException | None = None) -> None:
    """Raise `AssertionError` with everything that was missed, or add it to what was raised."""
    __tracebackhide__ = True
    global _missed
    missed, _missed = _missed, []
    if missed and error is None:
        raise_missed(missed)
    if missed and error is not None:
        error.add_note("expected besides:\n" + _told(missed))


def _is_told_later() -> bool:
    """Whether a test of pytest is being run, after which everything is told."""
    return bool(getattr(sys.modules.get(_PLUGIN), "tells_later", False))


def _caller() -> Place:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return Place("", 1) if frame is None else Place(frame.f_code.co_filename, frame.f_lineno)


def _told(missed: Sequence[Missed]) -> str:
    lines = [f"{len(missed)} checks did not pass"] if len(missed) > 1 else []
    for place, result in missed:
        where = f"{Path(place.file).name}:{place.line}: " if len(missed) > 1 else ""
        lines += _lines(where, result)
    return "\n".join(lines)


def _lines(where: str, result: CheckResult) -> Iterator[str]:
    """A check with both sides, secrets masked; a reason may quote a part of one."""
    from evalwright.signals.masking import mask_text, mask_value

    sides = {"expected": result.expected, "actual": result.actual}
    masked = {name: mask_value(value, personal=False) for name, value in sides.items()}
    reason = mask_text(result.reason, personal=False) if masked == sides else ""
    yield f"{where}{result.check}: {reason or 'did not pass'}"
    yield from (f"  {name + ':':<10}{v!r}" for name, v in masked.items() if v is not None)


def raise_missed(missed: Sequence[Missed]) -> NoReturn:
    """Raise `AssertionError`, as if it stood where the first of the checks does."""
    __tracebackhide__ = True
    raise_at(missed[0].place.file, missed[0].place.line, _told(missed))


def raise_at(file: str, line: int, message: str) -> NoReturn:
    """Fail at a line of a file, as if an assertion stood there: pytest shows that line."""
    __tracebackhide__ = True
    tree = ast.parse("raise failure")
    text = linecache.getline(file, line).rstrip()
    for node in ast.walk(tree):  # all of the line, so that nothing in it is pointed at
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno = node.end_lineno = 1
            node.col_offset, node.end_col_offset = len(text) - len(text.lstrip()), len(text)
    code = compile(tree, file or "<expect>", "exec").replace(co_firstlineno=line, co_name="expect")
    exec(code, {"failure": AssertionError(message)})  # noqa: S102 - two words of our own
    raise AssertionError(message)  # not reached
