"""Following a run over connections that break: nothing is lost and nothing told twice."""

import asyncio
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.wire import saying, stream, whole_stream
from evalwright.client import Client, HostError, Retries, Unreachable
from evalwright.client.responses import RunEvent
from evalwright.client.stream_position import StreamPosition, check_end
from evalwright.contracts.errors import CannotEvaluate, RunFailed

BROKEN = Unreachable("the connection broke")


def document(sequence: int, kind: str) -> dict[str, object]:
    return {
        "eventId": f"e{sequence}",
        "runId": "run_a",
        "type": kind,
        "payload": {},
        "timestamp": "2026-01-01T00:00:00.000001Z",
        "sequence": sequence,
    }


def frame(sequence: int, kind: str = "eval.scored") -> bytes:
    return f"id: {sequence}\ndata: {json.dumps(document(sequence, kind))}\n\n".encode()


def followed(**options: object) -> StreamPosition:
    return StreamPosition("run_a", "updates", None, Retries(limit=2, chance=lambda: 0.0), **options)


@given(st.lists(st.integers(0, 400), max_size=6))
def test_a_stream_that_breaks_anywhere_is_taken_up_where_it_broke(breaks):
    frames = [frame(n) for n in range(5)] + [frame(5, "run.completed")]
    place, told = followed(), list[int]()
    for length in [*breaks, 10_000]:
        if place.is_over():
            break
        seen = int(place.request().headers.get("Last-Event-ID", "-1"))
        rest = b"".join(frames[seen + 1 :])
        told += [event.sequence for event in place.feed(rest[:length])]
    assert told == list(range(6))


def test_what_a_host_tells_again_is_told_once():
    place = followed()
    told = place.feed(frame(0) + frame(1) + frame(1) + frame(0) + frame(2))
    assert [event.sequence for event in told] == [0, 1, 2]


def test_notices_that_stand_in_no_log_are_told_and_move_nothing():
    place = followed()
    told = place.feed(frame(0) + frame(0, "run.annotated") + frame(1))
    assert [event.type for event in told] == ["eval.scored", "run.annotated", "eval.scored"]
    assert place.request().headers["Last-Event-ID"] == "1"


def test_a_host_that_stays_away_is_given_up():
    place = followed()
    assert [place.wait_after(BROKEN), place.wait_after(BROKEN)] == [0.0, 0.25]
    with pytest.raises(Unreachable):
        place.wait_after(BROKEN)


def test_as_long_as_events_come_a_stream_may_break_any_number_of_times():
    place = followed()
    for sequence in range(100):
        place.feed(frame(sequence))
        place.wait_after(BROKEN)


def test_a_stream_that_ends_before_its_run_is_asked_for_again():
    place = followed()
    assert place.closed("running") == 0.0
    assert not place.is_over()


def test_a_stream_that_was_begun_after_the_end_of_the_run_tells_everything():
    place = followed()
    place.closed("completed")
    assert not place.is_over()  # events may have come between the stream and the question
    place.closed("completed")
    assert place.is_over()


def test_time_runs_out_and_the_run_goes_on():
    now = iter([100.0, 103.0, 106.0])
    place = followed(timeout_s=5, clock=lambda: next(now))
    assert place.patience_s() == 2.0
    with pytest.raises(TimeoutError, match="run_a has not ended within 5 s; it goes on"):
        place.patience_s()


@pytest.mark.parametrize("data", [b"no json", b"{}", b'"text"', b"\xff"])
def test_a_stream_of_something_else_is_an_error(data):
    with pytest.raises(HostError, match="the stream of run run_a cannot be read"):
        followed().feed(b"data: " + data + b"\n\n")


def ended(kind: str, payload: dict[str, object]) -> RunEvent:
    return msgspec.convert(
        {**document(9, kind), "payload": msgspec.Raw(json.dumps(payload))}, RunEvent
    )


def test_a_run_without_a_result_is_never_taken_for_a_result():
    error = {"error": {"code": "run_timeout", "message": "took too long"}}
    with pytest.raises(RunFailed, match="run_timeout: took too long"):
        check_end("run_a", ended("run.failed", error))
    with pytest.raises(CannotEvaluate, match="was cancelled"):
        check_end("run_a", ended("run.cancelled", {}))
    with pytest.raises(RunFailed):
        check_end("run_a", None)
    check_end("run_a", ended("run.completed", {}))


def test_the_client_for_ordinary_code_works_where_an_event_loop_runs() -> None:
    all_of_it = frame(0) + frame(1) + frame(2, "run.completed")

    async def follow() -> tuple[list[int], int]:
        with (
            saying([whole_stream(all_of_it), stream(frame(0) + frame(1))]) as wire,
            Client(wire.url) as client,
        ):
            told = [event.sequence for event in client.events("run_a")]
            left_early = client.events("run_a")
            first = next(left_early).sequence
            left_early.close()
            return told, first

    assert asyncio.run(follow()) == ([0, 1, 2], 0)
