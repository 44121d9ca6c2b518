"""Builders: valid values with as little said as a test needs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from evalwright.contracts.events import (
    Decided,
    ErrorDetail,
    EvalCompleted,
    EvalScored,
    EvalStarted,
    Event,
    InvocationCompleted,
    InvocationStarted,
    Payload,
    Planned,
    ProviderUsage,
    RunCompleted,
    RunFailure,
    RunStarted,
)
from evalwright.contracts.run_plan import (
    AgentFacts,
    RunSettings,
)
from evalwright.contracts.suite import Match, Suite, Task, Thresholds
from evalwright.contracts.summary import EvalSummary
from evalwright.scoring.golden import STRATEGIES
from evalwright.scoring.summary import Tally, task_cost

SUITE_ID = "acme.shop.evals.refunds"
AGENT_ID = "acme.clerk"
RUN_ID = "run_a"
EPOCH_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z

Answers = Mapping[str, "Answer | Any"]
Entry = tuple[str | None, Payload]


# Suites.


def a_task(
    task_id: str = "task-1",
    *,
    input: Any = "What is the answer?",  # noqa: A002 - the name that the contract uses
    strategy: str = "exact",
    value: Any = "yes",
    fixtures: dict[str, Any] | None = None,
) -> Task:
    """A golden task; its right answer is `yes` unless another value is given."""
    expected = {"kind": "golden", "match": {"strategy": strategy, "value": value}}
    return _task(task_id, input, expected, fixtures)


def a_rubric_task(
    task_id: str = "task-1",
    weights: Iterable[float] = (1.0,),
    *,
    input: Any = "Say something kind.",  # noqa: A002 - the name that the contract uses
) -> Task:
    """A rubric task with one criterion per weight."""
    rubric = [{"criterion": f"criterion {n}", "weight": w} for n, w in enumerate(weights, 1)]
    return _task(task_id, input, {"kind": "rubric", "rubric": rubric}, None)


def a_suite(
    tasks: int | Sequence[Task] = 3,
    *,
    suite_id: str = SUITE_ID,
    version: str = "1.0.0",
    modes: Sequence[str] = ("golden",),
    target_agent_id: str | None = None,
    allowed_models: Sequence[str] | None = None,
    **thresholds: float,
) -> Suite:
    """A suite of so many tasks, `task-1`, `task-2` …, or of the tasks given.

    Thresholds are given by name: `a_suite(pass_score=0.5, max_cost_usd=1)`.
    """
    if isinstance(tasks, int):
        tasks = [a_task(f"task-{number}") for number in range(1, tasks + 1)]
    return Suite(
        suite_id=suite_id,
        version=version,
        modes=list(modes),
        tasks=list(tasks),
        target_agent_id=target_agent_id,
        allowed_models=None if allowed_models is None else list(allowed_models),
        **({"thresholds": Thresholds(**thresholds)} if thresholds else {}),
    )


def as_document(value: Any) -> Any:
    """A suite, summary or payload as the plain JSON values of its document."""
    return msgspec.json.decode(msgspec.json.encode(value))


def a_suite_document(tasks: int | Sequence[Task] = 3, **fields: Any) -> dict[str, Any]:
    """The document of `a_suite`; fields that are given replace or join its own, as they are."""
    return as_document(a_suite(tasks)) | fields


# Logs.


class Answer(msgspec.Struct, frozen=True):
    """How an agent ended a task: an output or an error, the time it took, the models it used."""

    output: Any = "yes"
    latency_ms: int = 5
    usages: Sequence[ProviderUsage] = ()
    error: ErrorDetail | None = None


def an_error(code: str = "agent_error", message: str = "it broke", **details: Any) -> Answer:
    """An agent that gave no answer."""
    return Answer(error=ErrorDetail(code, message, details or None))


def a_usage(cost_usd: float | None = None) -> ProviderUsage:
    """The usage of one model call; without a cost its price is unknown."""
    return ProviderUsage("acme", "model-1", 100, 20, cost_estimate_usd=cost_usd)


def a_score(task_id: str = "task-1", score: float = 1.0, **fields: Any) -> EvalScored:
    """The score of a task; it passed if the score is 1."""
    return EvalScored(task_id, score, **({"passed": score == 1} | fields))


def an_event(
    payload: Payload,
    task_id: str | None = None,
    *,
    sequence: int = 0,
    run_id: str = RUN_ID,
    at_us: int = EPOCH_US,
) -> Event:
    """One event as a log holds it."""
    body = msgspec.json.encode(payload)
    return Event(run_id, sequence, payload.TYPE, task_id, at_us, body)


def as_log(entries: Iterable[Entry], run_id: str = RUN_ID) -> list[Event]:
    """A log of these payloads, in this order, one millisecond apart."""
    return [
        an_event(payload, task_id, sequence=n, run_id=run_id, at_us=EPOCH_US + 1000 * n)
        for n, (task_id, payload) in enumerate(entries)
    ]


def a_log(
    suite: Suite | None = None,
    answers: Answers | None = None,
    *,
    run_id: str = RUN_ID,
    agent_id: str = AGENT_ID,
    order: Sequence[str] | None = None,
    ending: str = "completed",
) -> list[Event]:
    """The log of a run, as the engine writes it.

    A task that `answers` does not name is answered `yes`. `order` is the order in which the tasks
    came to their end. `ending` is `completed`, `failed`, or `open` for a run that is in flight.
    """
    suite = suite or a_suite()
    given = {task.task_id: _answer(answers, task.task_id) for task in suite.tasks}
    entries: list[Entry] = opening(suite, agent_id)
    for task_id in order or given:
        entries += task_events(suite, task_id, given[task_id], agent_id)
    if ending == "failed":
        entries.append((None, RunFailure(ErrorDetail("agent_unavailable", "nobody there"), 1)))
    elif ending == "completed":
        entries += closing(a_tally(suite, given).summary())
    return as_log(entries, run_id)


def opening(suite: Suite, agent_id: str = AGENT_ID) -> list[Entry]:
    """The events that every run begins with."""
    inputs = {"evalSuiteRef": f"{suite.suite_id}@{suite.version}", "agentId": agent_id}
    facts = AgentFacts(agent_id, "agent.py:answer")
    started = EvalStarted(suite.suite_id, suite.version, len(suite.tasks), suite.modes)
    planned = Planned(suite, facts, RunSettings(1))
    return [(None, RunStarted(suite.suite_id, inputs)), (None, started), (None, planned)]


def task_events(
    suite: Suite, task_id: str, answer: Answer, agent_id: str = AGENT_ID
) -> list[Entry]:
    """The events of one task, from its invocation to its score."""
    index = [task.task_id for task in suite.tasks].index(task_id)
    invocation = f"inv-{index + 1:04d}"
    payloads = [
        InvocationStarted(invocation, agent_id, "run-api"),
        *answer.usages,
        Decided(agent_id, {"error": answer.error} if answer.error else answer.output),
        InvocationCompleted(invocation, agent_id, "failed" if answer.error else "completed"),
        scored(suite.tasks[index], answer),
    ]
    return [(task_id, payload) for payload in payloads]


def closing(summary: EvalSummary) -> list[Entry]:
    """The events that a completed run ends with."""
    completed = EvalCompleted(
        summary.aggregate_score, summary.passed, summary.task_count, summary.passed_count
    )
    return [(None, completed), (None, RunCompleted({"evalSummary": summary}, 7))]


# What logs lead to.


def golden_score(output: Any, match: Match) -> float:
    """The score of an output of a golden task."""
    return float(STRATEGIES[match.strategy](match.value).matches(output))


def scored(task: Task, answer: Answer) -> EvalScored:
    """The score that an answer earns."""
    match = task.expected.match
    score = 0.0 if answer.error or match is None else golden_score(answer.output, match)
    cost = task_cost(answer.usages)
    return EvalScored(task.task_id, score, score == 1, cost, answer.latency_ms)


def a_tally(suite: Suite, answers: Answers | None = None) -> Tally:
    """What a run recorded whose agent gave these answers, `yes` where none is given."""
    tally = Tally(suite)
    for task in suite.tasks:
        answer = _answer(answers, task.task_id)
        tally.add_score(scored(task, answer))
        for usage in answer.usages:
            tally.add_usage(usage)
    return tally


def a_summary(suite: Suite | None = None, answers: Answers | None = None) -> EvalSummary:
    """The summary of such a run."""
    return a_tally(suite or a_suite(), answers).summary()


def _answer(answers: Answers | None, task_id: str) -> Answer:
    given = (answers or {}).get(task_id, Answer())
    return given if isinstance(given, Answer) else Answer(given)


def _task(
    task_id: str, task_input: Any, expected: dict[str, Any], fixtures: dict[str, Any] | None
) -> Task:
    document = {"taskId": task_id, "input": task_input, "expected": expected}
    return msgspec.convert(document | ({"fixtures": fixtures} if fixtures else {}), Task)
