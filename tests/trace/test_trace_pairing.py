"""Which result answers which call."""

from hypothesis import given
from hypothesis import strategies as st
from trace_builders import a_trace, call, result

from effort import takes_at_most
from evalwright.trace.model import ToolCall, ToolResult, Trace
from evalwright.trace.paired_calls import pair_results, pair_steps


def pairs(trace: Trace) -> dict[int, int]:
    """The index of each call with that of its result."""
    return {index: found.index for index, found in pair_results(trace).items()}


def test_results_find_their_calls_by_id_in_any_order():
    assert pairs(a_trace(call("a"), call("b"), result("b"), result("a"))) == {0: 3, 1: 2}


def test_without_ids_results_answer_the_calls_of_their_tool_in_order():
    trace = a_trace(
        call(None, tool="find"),
        call(None, tool="pay"),
        call(None, tool="find"),
        result(None, tool="pay"),
        result(None, tool="find"),
        result(None, tool="find"),
    )
    assert pairs(trace) == {0: 4, 1: 3, 2: 5}


def test_without_ids_and_tools_results_answer_in_order():
    assert pairs(a_trace(call(None), call(None), result(None), result(None))) == {0: 2, 1: 3}


def test_without_an_id_another_tools_result_is_no_answer():
    assert pairs(a_trace(call(None, tool="find"), result(None, tool="pay"))) == {}


def test_with_an_id_the_name_of_the_tool_may_differ():
    assert pairs(a_trace(call("a", tool="find"), result("a", tool="find_v2"))) == {0: 1}


def test_a_repeated_id_is_answered_in_order():
    trace = a_trace(call("a"), result("a"), call("a"), result("a"))
    assert pairs(trace) == {0: 1, 2: 3}


def test_a_result_before_its_call_is_no_answer():
    assert pairs(a_trace(result("a"), call("a"))) == {}


def test_steps_are_calls_with_their_results_and_everything_else_alone():
    said = {"type": "message", "role": "assistant", "content": "hm"}
    steps = pair_steps(a_trace(call("a"), said, result("a"), result("lost")))
    assert [(step.event.index, step.result and step.result.index) for step in steps] == [
        (0, 2),
        (1, None),
        (3, None),
    ]


def test_a_hundred_thousand_calls_that_nothing_answers_take_no_time():
    calls = [call(None, tool=f"tool-{n % 7}") for n in range(50_000)]
    trace = a_trace(*calls, *(result(None, tool="other") for _ in range(50_000)))
    assert pair_results(trace) == {}
    assert takes_at_most(2, lambda: pair_results(trace))


ids = st.sampled_from([None, "a", "b"])
tools = st.sampled_from(["find", "pay", ""])
events = st.lists(
    st.builds(call, ids, tool=tools)
    | st.builds(lambda i, t: result(i, tool=t), ids, tools)
    | st.builds(result, ids),
    max_size=14,
)


@given(events)
def test_no_result_answers_twice_and_every_answer_follows_its_call(events):
    trace = a_trace(*events)
    answers = pair_results(trace)
    indexes = [found.index for found in answers.values()]
    assert len(set(indexes)) == len(indexes)
    for index, found in answers.items():
        asked = trace.events[index]
        assert isinstance(asked, ToolCall)
        assert isinstance(found, ToolResult)
        assert asked.call_id == found.call_id
        assert asked.index < found.index


@given(events)
def test_every_event_stands_in_exactly_one_step(events):
    trace = a_trace(*events)
    steps = pair_steps(trace)
    told = [step.event.index for step in steps] + [s.result.index for s in steps if s.result]
    assert sorted(told) == list(range(len(events)))
