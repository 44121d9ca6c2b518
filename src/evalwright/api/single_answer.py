"""Answers outside of a suite: one that is there already, or one that an agent gives once."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from evalwright.agents.answers import Answer, given_call
from evalwright.agents.protocol import Agent, AgentFailure, Invocation, Surroundings
from evalwright.agents.results import recorded_output
from evalwright.api.check_objects import NOT_GIVEN, CheckGiven
from evalwright.api.runs import TaskReport, task_report
from evalwright.api.suites import AgentGiven, Suite, Task
from evalwright.contracts.coverage import Coverage, ToolsClaim, UsageClaim
from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import (
    Event,
    Payload,
    Planned,
    ProviderUsage,
)
from evalwright.contracts.messages import Text
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.assembly import assembled, planned
from evalwright.engine.clock import SystemClock, new_run_id
from evalwright.engine.examination import made_calls
from evalwright.engine.history import History
from evalwright.engine.session import price_by, unheard
from evalwright.engine.single_task import SingleTasks
from evalwright.models.config import Config, load_config
from evalwright.reports.run.task_records import read_tasks
from evalwright.scoring.checks.base import MadeCall
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
        agent_tools: ToolsClaim | None = None,
        agent_usage: UsageClaim | None = None,
        isolate: bool = False,
    ) -> TaskReport:
        """Record one evaluation; if it does not pass, the test fails when it ends.

        `subject` is an agent, as a function that takes the task, or an output, or an `ew.Task`.
        `agent` and `output` say the same by name, and an agent may be a reference as well; without
        either, the agent of the session is asked. `calls` are the tool calls behind an output;
        `agent_tools`, `agent_usage` and `isolate` are as of `ew.run`. The other fields are those of
        `ew.Task`. Gives what a task of a run is: `passed`, `score`, `output`, `checks` and more.
        """


class GivenAnswer:
    """An agent that has answered already: it says again what it said, and did."""

    model_class: str | None = None
    allowed_tools: frozenset[str] | None = None
    is_outside = False
    reads_memory = True
    converses = False
    holds_state = False
    ref = "given"

    def __init__(self, output: Any, agent_id: str, latency_ms: int | None = None) -> None:
        self.agent_id = agent_id
        self._output = output
        self._latency_ms = latency_ms

    async def invoke(self, invocation: Invocation) -> Any:
        invocation.was_given, invocation.given_latency_ms = True, self._latency_ms
        return recorded_output(self._output, invocation)

    async def close(self) -> None:
        """Nothing to close."""


def answer_of(output: Any, calls: Iterable[Any] | None = None) -> Any:
    """An output with the calls that led to it, if they are given; raises `BadInput`."""
    if calls is None:
        return output
    if isinstance(output, Answer):
        raise BadInput("an ew.Answer has its own calls: ew.Answer(output, calls=[…])")
    try:
        return Answer(output, calls=map(given_call, calls))
    except ValueError as error:
        raise BadInput(str(error)) from None


def told_again(report: TaskReport) -> Answer:
    """What a task of a run came to, as an answer that says so."""
    seen, usage = report.coverage, report.usage
    usages = None
    if seen.usage is not None:
        none = {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}
        counted = {name: usage[name] for name in ("input_tokens", "output_tokens", "cost_usd")}
        usages = [counted, *[none] * (usage.calls - 1)] if usage.calls else []
    calls = None if seen.calls is None else [dict(call) for call in report.calls]
    return Answer(report.output, calls=calls, usage=usages)


class ObservedAnswer(NamedTuple):
    """An output, and what was observed of how it came about."""

    output: Any
    calls: list[MadeCall]
    usages: list[ProviderUsage]
    coverage: Coverage


async def observed_answer(answer: Any, given: Any) -> ObservedAnswer:
    """What an answer says to the `given` input; raises `BadInput` for what cannot be read."""
    deeds: list[Payload] = []
    task = Suite("expect", tasks=[Task("expected", input=given, checks=[{"equals": ""}])])

    async def keep_pace() -> None:
        """Nothing is written."""

    invocation = Invocation(
        run_id="run_expect",
        invocation_id="inv-0001",
        agent_id="local.given",
        task=task.subject().suite.tasks[0],
        record=deeds.append,
        keep_pace=keep_pace,
        surroundings=Surroundings(price=price_by(load_config())),
    )
    try:
        output = recorded_output(answer, invocation)
    except AgentFailure as failure:
        said = failure.error.message.removeprefix("the output is not a JSON value: ")
        raise BadInput(f"an output that JSON cannot carry: {said}") from None
    return ObservedAnswer(output, made_calls(deeds), invocation.usages, invocation.coverage())


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
    notify: Callable[[Text], None] = unheard,
) -> Answered:
    """Have an agent work on one task, and its checks look at the answer; nothing is logged.

    Raises `EvalwrightError` where it cannot be done, also if judges give no verdict.
    """
    settings = config or load_config()
    subject = Suite("evaluate", tasks=[task]).subject()
    session = assembled(
        subject,
        "evaluate",
        options or RunOptions(),
        agent,
        settings,
        agent_id=agent_id,
        notify=notify,
    )
    try:
        (plan,) = planned(session, subject, "evaluate", None)
        run_id = new_run_id(clock := SystemClock())
        history = History(run_id, plan, clock.now_us())
        run = SingleTasks(session.agent, history, await session.begin(plan))
        opening = run.opening_events()
        try:
            await run.score(0)
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
    opened = next(each.decode(Planned) for each in events if each.type == Planned.TYPE)
    return Answered(opened, recorded, task_report(reading.tasks[0]))
