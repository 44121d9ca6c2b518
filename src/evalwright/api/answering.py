"""Answers outside of a suite: one that is there already, or one that an agent gives once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from evalwright.agents.answers import call_fields
from evalwright.agents.protocol import Agent, AgentFailure, Invocation, checked_output
from evalwright.api.check_objects import NOT_GIVEN, CheckGiven
from evalwright.api.runs import TaskReport, task_report
from evalwright.api.suites import AgentGiven, Suite, Task
from evalwright.contracts.coverage import NOTHING_OBSERVED, PARTS, Coverage
from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import (
    Event,
    Planned,
    ProviderUsage,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.planning import RunOptions
from evalwright.engine.clock import SystemClock, new_run_id
from evalwright.engine.fitting import fitting, without_spare_judges
from evalwright.engine.piecework import Piecework
from evalwright.engine.session import Session, unheard
from evalwright.models.config import Config, load_config
from evalwright.reports.run.task_records import read_tasks
from evalwright.scoring.checks.base import UNKNOWN, MadeCall, Spent
from evalwright.store.protocol import NewEvent


class Evaluate(Protocol):
    """What the fixture `evaluate` of pytest is: `def test_it(evaluate: ew.Evaluate) -> None:`."""

    def __call__(
        self,
        subject: Any = NOT_GIVEN,
        *,
        agent: AgentGiven | None = None,
        output: Any = NOT_GIVEN,
        calls: Iterable[Mapping[str, Any]] | None = None,
        id: str | None = None,  # noqa: A002 - as of a task
        input: Any = None,  # noqa: A002
        checks: Iterable[CheckGiven] = (),
        expected: Any = None,
        fixtures: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        weight: float | None = None,
        threshold: float | None = None,
    ) -> TaskReport:
        """Record one evaluation; if it does not pass, the test fails when it ends.

        `subject` is an agent, as a function that takes the task, or an output, or an `ew.Task`.
        `agent` and `output` say the same by name, and an agent may be a reference as well; without
        either, the agent of the session is asked. `calls` are the tool calls behind an output. The
        other fields are those of `ew.Task`. Gives what a task of a run is: `passed`, `score`,
        `output`, `checks` and more.
        """


class GivenAnswer:
    """An agent that has answered already: it says again what it said, and did."""

    model_class: str | None = None
    allowed_tools: frozenset[str] | None = None
    is_outside = False
    reads_memory = True

    def __init__(
        self,
        output: Any,
        calls: Sequence[MadeCall],
        agent_id: str,
        spent: Spent = UNKNOWN,
        coverage: Coverage = NOTHING_OBSERVED,
    ) -> None:
        self.agent_id = agent_id
        self.ref = "given"
        self._output = output
        self._calls = calls
        self._spent = spent
        self._coverage = coverage

    async def invoke(self, invocation: Invocation) -> Any:
        """Tell the calls, what they took, and the output."""
        invocation.was_given, invocation.given_latency_ms = True, self._spent.latency_ms
        for usage in _usages(self._spent):
            invocation.report_usage(usage)
        for part in PARTS:
            if how := getattr(self._coverage, part):
                invocation.observe(part, how)
        for call in self._calls:
            call_id, agent_id = invocation.note_call(call.tool).call_id, self.agent_id
            invocation.record(ToolCalled(agent_id, call.tool, call_id, call.args))
            returned = ToolReturned(agent_id, call.tool, call_id, call.result, status="ok")
            if not call.is_ok:
                returned = msgspec.structs.replace(returned, status="error")
            invocation.record(returned)
        return checked_output(self._output)

    async def close(self) -> None:
        """Nothing to close."""


def _usages(spent: Spent) -> list[ProviderUsage]:
    """Model calls that together took this much."""
    if not spent.turns:
        return []
    tokens = round(spent.tokens or 0)
    first = ProviderUsage("given", "unknown", tokens, 0, cost_estimate_usd=spent.cost_usd)
    other = ProviderUsage("given", "unknown", 0, 0, cost_estimate_usd=0.0)
    return [first, *[other] * (spent.turns - 1)]


def made_calls_of(given: Iterable[Any]) -> list[MadeCall]:
    """Calls as users write them: `{"tool": …, "args": …, "result": …}`, or with an `error`."""
    try:
        return [
            MadeCall(tool, args, result, error is None)
            for tool, args, result, error in map(call_fields, given)
        ]
    except ValueError as error:
        raise BadInput(str(error)) from None


class Answered(NamedTuple):
    """What became of one task: how it was planned, what was recorded, and the report on it."""

    planned: Planned  # as a log has it: without known secrets
    events: list[NewEvent]
    report: TaskReport

    @property
    def usages(self) -> list[ProviderUsage]:
        """The model calls that were made, by the agent and by judges."""
        kind = ProviderUsage
        return [msgspec.json.decode(e.body, type=kind) for e in self.events if e.type == kind.TYPE]


async def answer_once(
    agent: str | Agent,
    task: Task,
    *,
    options: RunOptions | None = None,
    config: Config | None = None,
    agent_id: str | None = None,
    notify: Callable[[str], None] = unheard,
) -> Answered:
    """Have an agent work on one task, and its checks look at the answer; nothing is logged.

    Raises `EvalwrightError` where it cannot be done, also if judges give no verdict.
    """
    settings = config or load_config()
    subject = Suite("evaluate", tasks=[task]).subject()
    named = agent if isinstance(agent, str) else None
    _, options = fitting(settings.run, named, options or RunOptions(), subject.suite)
    options = without_spare_judges(options, subject.suite)
    session = Session(agent, options, agent_id=agent_id, config=settings, notify=notify)
    try:
        (plan,) = session.plan(
            subject.suite, "evaluate", source=subject.source, functions=subject.functions
        )
        run_id = new_run_id(SystemClock())
        run = Piecework(session.agent, plan, run_id, await session.begin(plan))
        opening = run.opening_events()
        try:
            await run.work_on(0)
        finally:
            run.end()
        recorded = run.recorded()
    finally:
        await session.close()
    events = [
        Event(run_id, number, each.type, each.task_id, each.at_us, each.body)
        for number, each in enumerate([*opening, *recorded])
    ]
    reading = read_tasks(events, show_secrets=True)
    planned = next(each.decode(Planned) for each in events if each.type == Planned.TYPE)
    return Answered(planned, recorded, task_report(reading.tasks[0]))


def plain_output(output: Any) -> Any:
    """An output as JSON carries it; raises `BadInput` for what it cannot."""
    try:
        return checked_output(output)
    except AgentFailure as failure:
        raise BadInput(f"an output that JSON cannot carry: {failure.error.message}") from None
