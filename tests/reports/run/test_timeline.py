"""Traces as steps: calls with their results, times, tokens, cost, and what belongs to what."""

from builders import AGENT_ID, a_usage, as_log
from evalwright.contracts.events import (
    Checked,
    Decided,
    ErrorDetail,
    EvalScored,
    Event,
    Found,
    InvocationCompleted,
    InvocationStarted,
    Judged,
    Payload,
    Reasoned,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.summary import SafetyFinding
from evalwright.contracts.verdicts import Verdict
from evalwright.reports.run.timeline import TaskTimeline, timeline_of


def steps_of(*payloads: Payload) -> TaskTimeline:
    return timeline_of(as_log([("task-1", each) for each in payloads]))


def invoked(
    *payloads: Payload, name: str = "inv-0001", outcome: str = "completed"
) -> list[Payload]:
    started = InvocationStarted(name, AGENT_ID, "run-api")
    return [started, *payloads, InvocationCompleted(name, AGENT_ID, outcome)]


def call(name: str, call_id: str) -> ToolCalled:
    return ToolCalled(AGENT_ID, name, call_id, {"q": 1})


def test_a_call_and_its_result_are_one_step():
    found = steps_of(
        *invoked(
            call("a", "c1"),
            call("b", "c2"),
            ToolReturned(AGENT_ID, "b", "c2", 1, duration_ms=9),
            ToolReturned(AGENT_ID, "a", "c1", error=ErrorDetail("x", "broke")),
            ToolReturned(AGENT_ID, "c", "c9", 1),
        )
    )
    told = [
        (step.kind, step.name, step.answered, step.is_bad, step.took_us) for step in found.steps
    ]
    assert told == [
        ("invocation", AGENT_ID, None, False, 6000),
        ("call", "a", 4, True, 3000),
        ("call", "b", 3, False, 9000),
        ("result", "c", None, False, 0),
    ]


def test_steps_within_an_invocation_are_deeper_and_what_scores_it_is_beside_it():
    found = steps_of(
        *invoked(Reasoned(AGENT_ID, "hm"), *invoked(Decided(AGENT_ID, 1), name="inv-0002")),
        Judged("rubric", "judge", 1, "v1", [Verdict("c1", "why", False)]),
        Found("signals", [SafetyFinding("leak", "low")]),
        Checked([], 0.0, False),
        EvalScored("task-1", 0.0, False),
    )
    assert [(step.kind, step.depth) for step in found.steps] == [
        ("invocation", 0),
        ("reasoning", 1),
        ("invocation", 1),
        ("answer", 2),
        ("judge", 0),
        ("finding", 0),
        ("check", 0),
        ("score", 0),
    ]
    assert [step.is_bad for step in found.steps[-3:]] == [True, True, True]


def test_a_call_of_a_model_ends_when_it_is_told_and_its_tokens_and_cost_are_counted():
    found = steps_of(*invoked(a_usage(0.5), a_usage(0.25)))
    assert [(step.at_us - found.started_us, step.took_us) for step in found.steps[1:]] == [
        (0, 1000),
        (1000, 1000),
    ]
    assert (found.input_tokens, found.output_tokens, found.cost_usd) == (200, 40, 0.75)
    assert steps_of(*invoked(a_usage())).cost_usd is None
    assert found.offset(found.steps[2]) == 1 / 3
    assert found.share(found.steps[1]) == 1 / 3


def test_a_repetition_and_a_failed_invocation_say_so():
    found = steps_of(*invoked(name="inv-0001-r2", outcome="failed"))
    assert [(step.name, step.is_bad) for step in found.steps] == [
        (f"{AGENT_ID}, repetition 2", True)
    ]


def test_what_is_unknown_or_damaged_is_a_step_all_the_same():
    events = [
        Event("run", 0, "acme.note", "task-1", 1, b"{}"),
        Event("run", 1, ToolCalled.TYPE, "task-1", 2, b"[]"),
    ]
    found = timeline_of(events)
    assert [(step.kind, step.name) for step in found.steps] == [
        ("event", "acme.note"),
        ("event", "agent.toolCalled, which cannot be read"),
    ]
    assert timeline_of([]).took_us == 0


def test_a_step_knows_where_those_within_it_end():
    inner = invoked(call("a", "c1"), call("b", "c2"), name="inv-0002")
    found = steps_of(*invoked(Reasoned(AGENT_ID, "hm"), *inner, call("c", "c3")), a_usage())
    kinds = [step.kind for step in found.steps]
    assert kinds == ["invocation", "reasoning", "invocation", "call", "call", "call", "model"]
    assert list(found.ends) == [6, 2, 5, 4, 5, 6, 7]
