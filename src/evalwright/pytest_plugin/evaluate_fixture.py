"""Evaluations in tests: the fixture `evaluate`, and tests that are repeated."""

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from evalwright.agents.protocol import Agent
from evalwright.agents.python import callable_agent
from evalwright.api import expectation
from evalwright.api.check_objects import NOT_GIVEN
from evalwright.api.runs import TaskReport
from evalwright.api.single_answer import GivenAnswer, answer_of, answer_once
from evalwright.api.suite_run import complete_here
from evalwright.api.suites import AgentGiven, Task
from evalwright.contracts.errors import BadInput, EvalwrightError
from evalwright.contracts.verdicts import CheckResult
from evalwright.pytest_plugin.asked import SessionOptions, spoken
from evalwright.pytest_plugin.recorded_test import AGENT_ID, MarkedRepeats, RecordedTest
from evalwright.reports.formats.console import printable


class EvaluateFixture:
    """The fixture: has an agent answer, or takes an output, and records its checks."""

    def __init__(self, asked: SessionOptions, test: RecordedTest) -> None:
        self._asked = asked
        self._test = test

    def __call__(
        self,
        subject: Any = NOT_GIVEN,
        *,
        agent: AgentGiven | None = None,
        output: Any = NOT_GIVEN,
        calls: Iterable[Mapping[str, Any]] | None = None,
        **fields: Any,
    ) -> TaskReport:
        """Record one evaluation; `fields` are those of a task."""
        __tracebackhide__ = True
        if isinstance(subject, Task):
            fields = {**vars(subject), **fields}
        elif callable(subject):
            agent = subject
        elif subject is not NOT_GIVEN:
            output = subject
        try:
            report = self._recorded(self._agent(agent, output, calls), fields)
        except EvalwrightError as error:  # at the line of the test, without the way here
            raise error.with_traceback(None) from None
        if over := self._test.overspent():
            pytest.fail(spoken(over), pytrace=False)
        return report

    def _recorded(self, agent: str | Agent, fields: dict[str, Any]) -> TaskReport:
        task_id = fields.pop("id", None) or self._test.next_id()
        claims = {
            name: fields.pop(name, None) for name in ("agent_tools", "agent_usage", "isolate")
        }
        task = Task(task_id, input=fields.pop("input", None), **fields)
        options = replace(self._asked.options, baseline=None, repeat=1, fail_on=(), flaky_as=None)
        if isinstance(agent, GivenAnswer):  # what the session claims is claimed of its agent
            options = replace(options, agent_tools=None, agent_usage=None)
        options = replace(options, **{name: each for name, each in claims.items() if each})
        answered = complete_here(
            answer_once(
                agent,
                task,
                options=options,
                config=self._asked.config,
                notify=lambda notice: self._test.notices.append(spoken(notice)),
            )
        )
        self._test.add(answered)
        report = answered.report
        if not report.passed:
            expectation.note_missed(_missed(report))
        return report

    def _agent(
        self, agent: AgentGiven | None, output: Any, calls: Iterable[Mapping[str, Any]] | None
    ) -> str | Agent:
        if agent is not None and output is not NOT_GIVEN:
            raise BadInput("evaluate: give an agent or an output, not both")
        if output is not NOT_GIVEN:
            return GivenAnswer(answer_of(output, calls), AGENT_ID)
        if callable(agent):
            return callable_agent(agent, AGENT_ID)
        named = agent or self._asked.agent or self._asked.config.run.agent
        if named is None:
            raise BadInput(
                "evaluate: there is no agent; pass a function or an output, or name one with "
                "--evalwright-agent or as `agent` in [tool.evalwright] of pyproject.toml"
            )
        return named


def _missed(report: TaskReport) -> list[CheckResult]:
    if report.error is not None:
        trace = (report.error.get("details") or {}).get("traceback", "")
        words = f"{report.error.get('code')}: {report.error.get('message', '')}\n{printable(trace)}"
        words = words.rstrip().replace("\n", "\n  ")
        return [CheckResult("evaluate", False, 0.0, reason=words)]
    return [msgspec.convert(dict(each), CheckResult) for each in report.checks if not each.passed]


def repeated(function: Callable[..., Any], test: RecordedTest) -> Callable[..., Any]:
    """The test as often as its mark says; it fails if too few of its repetitions pass."""
    trials = _Trials(test)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def all_async(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            while trials.may_go_on():
                with trials:
                    await function(*args, **kwargs)
            trials.decide()

        return all_async

    @functools.wraps(function)
    def all_of_them(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        while trials.may_go_on():
            with trials:
                function(*args, **kwargs)
        trials.decide()

    return all_of_them


class _Trials:
    """The repetitions of a test: each passes, or fails with what it raised."""

    def __init__(self, test: RecordedTest) -> None:
        self._test = test
        self._repeats = test.repeats or MarkedRepeats()
        self._passed = 0
        self._failures: list[BaseException] = []
        self._began = 0.0

    def may_go_on(self) -> bool:
        """Whether there is another repetition to be made."""
        made = self._passed + len(self._failures)
        return made < self._repeats.repeat and self._test.overspent() is None

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        __tracebackhide__ = True
        skipped = (pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception)
        is_outcome = isinstance(error, pytest.fail.Exception | Exception)
        if error is not None and (isinstance(error, skipped) or not is_outcome):
            return False  # a skip, or an interrupt
        try:
            expectation.report_missed(error)
        except AssertionError as missed:
            error = missed
        self._test.end_trial(error, time.perf_counter() - self._began)
        if error is None:
            self._passed += 1
        else:
            self._failures.append(error)
        return True

    def decide(self) -> None:
        """Raise the first failure if too few passed."""
        __tracebackhide__ = True
        repeats, over = self._repeats, self._test.overspent()
        made = self._passed + len(self._failures)
        if over is not None:
            pytest.fail(f"{over} (after {made} of {repeats.repeat} repetitions)", pytrace=False)
        share = Decimal(self._passed) / repeats.repeat
        if share > 0 and share >= Decimal(repr(repeats.pass_rate)):
            return
        first = self._failures[0]
        if repeats.repeat > 1:
            wanted = f", and pass_rate is {repeats.pass_rate:g}"
            first.add_note(f"{self._passed} of {repeats.repeat} repetitions passed{wanted}")
        raise first
