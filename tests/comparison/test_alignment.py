"""Two traces side by side."""

from functools import cache

from hypothesis import assume, given
from hypothesis import strategies as st

from comparing import START, a_call, a_result, a_trace
from evalwright.comparison.alignment import align, first_divergence


def states(baseline, new):
    return [step.state for step in align(baseline, new)]


def test_equal_traces_are_the_same_step_by_step():
    trace = a_trace(a_call(id=1), a_result({"name": "Ann"}))
    assert states(trace, trace) == ["same", "same"]


def test_times_and_call_ids_do_not_make_a_difference():
    before = a_trace(a_call(id=1), a_result({"name": "Ann"}))
    after = a_trace(
        a_call(id=1, call_id="zz", ts=START + 5),
        a_result({"name": "Ann"}, call_id="zz", ts=START + 9),
    )
    assert states(before, after) == ["same", "same"]


def test_a_call_with_other_arguments_is_changed():
    assert states(a_trace(a_call(id=1), a_result()), a_trace(a_call(id=2), a_result())) == [
        "changed",
        "same",
    ]


def test_a_call_that_is_answered_differently_is_changed():
    before = a_trace(a_call(), a_result({"stock": 1}))
    after = a_trace(a_call(), a_result({"stock": 0}))
    assert states(before, after)[0] == "changed"
    assert first_divergence(align(before, after)).reason == "the same call was answered differently"


def test_an_extra_call_stands_alone_and_the_rest_stays_aligned():
    before = a_trace(a_call("find", "c1"), a_result(call_id="c1"))
    after = a_trace(
        a_call("peek", "c0"), a_result(call_id="c0"), a_call("find", "c1"), a_result(call_id="c1")
    )
    assert states(before, after) == ["only_new", "same", "same"]
    found = first_divergence(align(before, after))
    assert (found.step, found.new, found.baseline) == (0, "peek", None)
    assert found.reason == "only the new run has this step"


def test_of_two_calls_of_one_tool_the_identical_one_is_matched():
    before = a_trace(
        a_call("find", "c1", what="a"), a_result(call_id="c1"),
        a_call("find", "c2", what="b"), a_result(call_id="c2"),
    )  # fmt: skip
    after = a_trace(a_call("find", "c1", what="b"), a_result(call_id="c1"))
    assert states(before, after) == ["only_baseline", "same", "same"]


def test_equal_traces_do_not_diverge():
    trace = a_trace()
    assert first_divergence(align(trace, trace)) is None


def test_another_wording_is_a_divergence_only_if_nothing_else_is():
    said = {"type": "message", "ts": START, "role": "assistant", "content": "Let me look."}
    before, after = a_trace(said, a_call(id=1)), a_trace({**said, "content": "Hm."}, a_call(id=2))
    assert first_divergence(align(before, after)).reason == "the call has other arguments"
    after = a_trace({**said, "content": "Hm."}, a_call(id=1))
    assert first_divergence(align(before, after)).reason == "the message differs"


calls = st.lists(st.sampled_from("abc"), min_size=1, max_size=12).map(
    lambda tools: a_trace(*[a_call(tool, f"c{n}") for n, tool in enumerate(tools)])
)


@given(calls, calls)
def test_every_step_of_both_sides_appears_once_and_in_order(before, after):
    steps = align(before, after)
    left = [step.baseline.event.index for step in steps if step.baseline]
    right = [step.new.event.index for step in steps if step.new]
    assert left == [event.index for event in before.events]
    assert right == [event.index for event in after.events]


some_calls = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 2)), max_size=8)


@given(some_calls, some_calls)
def test_no_other_alignment_of_traces_with_other_steps_is_worth_more(before, after):
    assume([tool for tool, _ in before] != [tool for tool, _ in after])
    steps = align(*[_trace_of(calls) for calls in (before, after)])[:-1]  # without the output
    matched = [step for step in steps if step.baseline and step.new]
    worth = sum(3 if step.state == "same" else 2 for step in matched)
    assert worth == _best_worth(tuple(before), tuple(after))


def _trace_of(calls):
    return a_trace(*[a_call(tool, f"c{n}", id=value) for n, (tool, value) in enumerate(calls)])


@cache
def _best_worth(left, right):
    """What the best alignment is worth, by trying each."""
    if not left or not right:
        return 0
    ways = [_best_worth(left[1:], right), _best_worth(left, right[1:])]
    if left[0][0] == right[0][0]:
        ways.append(_best_worth(left[1:], right[1:]) + (3 if left[0] == right[0] else 2))
    return max(ways)


@given(calls)
def test_a_trace_is_the_same_as_itself(trace):
    assert all(step.state == "same" for step in align(trace, trace))


def test_very_long_traces_are_aligned_in_order():
    before = a_trace(*[a_call("a", f"c{n}") for n in range(300)])
    after = a_trace(*[a_call("b" if n == 0 else "a", f"c{n}") for n in range(301)])
    steps = align(before, after)
    assert sum(step.baseline is not None for step in steps) == 301
    assert sum(step.new is not None for step in steps) == 302
