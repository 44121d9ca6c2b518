"""W3C Trace Context: what callers send, and what they are sent."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.host.telemetry.trace_context import (
    TraceContext,
    derived_span_id,
    derived_trace_id,
    new_trace,
    read_trace,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{SPAN}-01"

contexts = st.builds(
    TraceContext,
    st.integers(1, 2**128 - 1).map("{:032x}".format),
    st.integers(1, 2**64 - 1).map("{:016x}".format),
    st.booleans(),
    st.sampled_from(["", "rojo=00f067aa0ba902b7", "rojo=1,congo=t61rcWkgMzE", "a@b=x y"]),
)


@given(contexts)
def test_what_is_written_is_read_back(context):
    headers = context.headers()
    assert read_trace(headers["traceparent"], headers.get("tracestate")) == context


@given(st.text() | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{30,34}-[0-9a-f]{14,18}-[0-9a-f]{1,3}"))
def test_garbage_never_raises_and_whatever_is_accepted_is_valid(garbage):
    found = read_trace(garbage, garbage)
    if found is not None:
        assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", found.traceparent)
        assert found.trace_id.strip("0")
        assert found.span_id.strip("0")


@pytest.mark.parametrize(
    "traceparent",
    [
        None,
        "",
        "garbage",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"{GIVEN}-more",
        f"{GIVEN}\n",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_an_invalid_traceparent_counts_as_none(traceparent):
    assert read_trace(traceparent) is None


def test_a_later_version_may_say_more():
    assert read_trace(f"01-{TRACE}-{SPAN}-01-more") == TraceContext(TRACE, SPAN)


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("03", True)])
def test_only_the_flag_that_is_known_is_read(flags, sampled):
    found = read_trace(f"00-{TRACE}-{SPAN}-{flags}")
    assert found is not None
    assert found.sampled is sampled


@pytest.mark.parametrize(
    ("tracestate", "kept"),
    [
        ("rojo=1, congo=2", "rojo=1,congo=2"),
        ("rojo=1,,congo=2", "rojo=1,congo=2"),
        ("rojo=1,rojo=2", ""),
        ("UPPER=1", ""),
        ("rojo=a\r\nx-injected: 1", ""),
        (",".join(f"k{n}=v" for n in range(33)), ""),
        ("rojo=" + "v" * 256 + ",congo=" + "v" * 256, ""),
    ],
)
def test_a_tracestate_is_passed_on_whole_or_not_at_all(tracestate, kept):
    found = read_trace(GIVEN, tracestate)
    assert found is not None
    assert found.state == kept


def test_a_child_is_another_place_in_the_same_trace():
    parent = new_trace()
    child = parent.child()
    assert child.trace_id == parent.trace_id
    assert child.span_id != parent.span_id
    assert read_trace(child.traceparent) == child


@given(st.text(), st.text())
def test_ids_that_follow_from_a_run_are_valid_and_always_the_same(run_id, part):
    context = TraceContext(derived_trace_id(run_id), derived_span_id(run_id, part))
    assert read_trace(context.traceparent) == context
    assert context.trace_id == derived_trace_id(run_id)
    assert derived_span_id(run_id, part) != derived_span_id(run_id, f"{part}x")
