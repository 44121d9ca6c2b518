"""Events as they come: every client gets each event once, in order, whenever it comes."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from builders import a_suite, a_task
from evalwright.host.streams import feed
from evalwright.host.v1 import events
from host.caller import Caller, Frame
from host.server import GATED, PRICED, ServedHost
from subjects.waiting import Journal, eventually

WAITING = a_suite([a_task("first"), a_task("second", input="wait")])


def sequences(frames: list[Frame]) -> list[int]:
    return [frame.id for frame in frames]


def names(frames: list[Frame]) -> list[str]:
    return [frame.name for frame in frames]


@pytest.fixture
def waiting(served: ServedHost, caller: Caller, gate: Journal) -> str:
    """A run that has scored its first task, and waits in its second."""
    run_id = caller.start(WAITING, GATED)
    with caller.stream(f"/v1/runs/{run_id}/events") as stream:
        stream.until("eval.scored")
    gate.wait_for(2)
    begun = ("agent.invocation.started",)
    eventually(lambda: len(list(served.log.read(run_id, begun))) == 2, "both invocations")
    eventually(lambda: served.host.streams.held == 0, "the end of the stream")
    return run_id


# The shape of the stream.


def test_each_frame_has_the_sequence_the_type_and_the_document_of_its_event(newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(2))
    frames = newcomer.frames(run_id)
    assert sequences(frames) == list(range(len(frames)))
    for frame in frames:
        assert (frame.data["sequence"], frame.data["type"]) == (frame.id, frame.name)
        assert frame.data["runId"] == run_id
    assert names(frames)[0] == "run.started"
    assert names(frames)[-1] == "run.completed"


def test_the_stream_is_not_to_be_stored_and_closes_its_connection(newcomer: Caller):
    run_id = newcomer.evaluate()
    with newcomer.stream(f"/v1/runs/{run_id}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        assert stream.headers["connection"] == "close"


def test_updates_show_the_course_of_the_evaluation_and_no_content(newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(2), PRICED)
    frames = newcomer.frames(run_id, "streamMode=updates")
    assert names(frames) == [
        "run.started",
        "eval.started",
        "eval.scored",
        "eval.scored",
        "eval.completed",
        "run.completed",
    ]
    assert names(newcomer.frames(run_id, "")) == names(frames)


def test_debug_shows_everything_that_the_log_has(lasting: ServedHost, newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(2), PRICED)
    frames = newcomer.frames(run_id, "streamMode=debug")
    recorded = [event.type for event in lasting.log.read(run_id)]
    assert names(frames) == recorded
    assert {"provider.usage", "agent.invocation.started"} <= set(recorded)


def test_several_modes_show_what_each_of_them_shows(newcomer: Caller):
    run_id = newcomer.evaluate()
    assert newcomer.frames(run_id, "streamMode=updates,messages") == newcomer.frames(run_id, "")
    assert newcomer.frames(run_id, "streamMode=updates,debug") == newcomer.frames(run_id)


def test_messages_of_a_run_without_any_end_with_the_run(newcomer: Caller):
    assert newcomer.frames(newcomer.evaluate(), "streamMode=messages") == []


@pytest.mark.parametrize("mode", ["surprise", "", "values,updates", "updates,updates", "updates,"])
def test_an_unknown_mode_is_refused_with_those_there_are(newcomer: Caller, mode: str):
    run_id = newcomer.start()
    reply = newcomer.get(f"/v1/runs/{run_id}/events?streamMode={mode}")
    assert reply.refusal == (400, "unsupported_stream_mode")
    assert set(reply.json()["details"]["supported"]) == {"updates", "values", "messages", "debug"}


def test_a_mode_is_looked_at_before_the_form_of_the_answer(newcomer: Caller):
    path = f"/v1/runs/{newcomer.start()}/events?streamMode=surprise"
    refusal = newcomer.get(path, {"Accept": "application/json"}).refusal
    assert refusal == (400, "unsupported_stream_mode")


def test_who_asks_for_json_gets_a_page(newcomer: Caller):
    run_id = newcomer.evaluate()
    page = newcomer.get(f"/v1/runs/{run_id}/events", {"Accept": "application/json"}).json()
    assert page["events"] == [frame.data for frame in newcomer.frames(run_id)]
    assert page["isComplete"] is True


# From a place on.


def test_a_client_goes_on_strictly_after_its_last_event(newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(2))
    every = newcomer.frames(run_id)
    for last in range(len(every)):
        assert newcomer.frames(run_id, last=last) == every[last + 1 :]


@pytest.mark.parametrize("mode", ["updates", "values", "messages", "debug"])
@pytest.mark.parametrize("beyond", [0, 1_000_000])
def test_who_has_seen_the_end_gets_nothing_more_and_the_stream_closes(
    newcomer: Caller, mode: str, beyond: int
):
    run_id = newcomer.evaluate()
    end = newcomer.frames(run_id)[-1].id
    assert newcomer.frames(run_id, f"streamMode={mode}", end + beyond) == []


@pytest.mark.parametrize("last", ["-1", "one", "1.0", "9" * 30, "²"])
def test_a_last_event_that_is_no_sequence_is_refused(newcomer: Caller, last: str):
    headers = {"Last-Event-ID": last.encode().decode("latin-1")}
    reply = newcomer.get(f"/v1/runs/{newcomer.start()}/events", headers)
    assert reply.refusal == (400, "validation_error")


def test_clients_that_come_while_events_come_miss_none_and_see_none_twice(newcomer: Caller):
    run_id = newcomer.start(a_suite(300))
    with ThreadPoolExecutor(8) as pool:
        lasts = [-1, 0, 1, 50, 100, 500, 900, 1200]
        found = list(pool.map(lambda last: newcomer.frames(run_id, last=last), lasts))
    end = newcomer.frames(run_id)[-1].id
    for last, frames in zip(lasts, found, strict=True):
        assert sequences(frames) == list(range(last + 1, end + 1))


def test_a_client_that_is_slow_reads_on_from_the_log(
    newcomer: Caller, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(feed, "MOST_KEPT", 2)
    run_id = newcomer.start(a_suite(200))
    frames = newcomer.frames(run_id)
    assert sequences(frames) == list(range(len(frames)))
    assert names(frames)[-1] == "run.completed"


def test_a_client_that_does_not_read_holds_up_nobody_and_loses_nothing(newcomer: Caller):
    run_id = newcomer.start(a_suite(1000))
    lazy = socket.socket()
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    lazy.connect(newcomer.address)
    request = f"GET /v1/runs/{run_id}/events?streamMode=debug HTTP/1.1\r\nHost: x\r\n"
    lazy.sendall(f"{request}Authorization: Bearer {newcomer.key}\r\n\r\n".encode())
    every = newcomer.frames(run_id)
    with lazy, lazy.makefile("rb") as received:
        ids = [int(line[4:]) for line in received if line.startswith(b"id: ")]
    assert ids == sequences(every)


def test_a_client_that_goes_away_gives_its_place_back(
    served: ServedHost, caller: Caller, waiting: str
):
    with caller.stream(f"/v1/runs/{waiting}/events") as stream:
        stream.until("eval.scored")
        assert served.host.streams.held == 1
    eventually(lambda: served.host.streams.held == 0, "a free place")


# Live.


def test_a_quiet_stream_is_kept_alive(
    caller: Caller, waiting: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(events, "KEEPALIVE_SECONDS", 0.01)
    with caller.stream(f"/v1/runs/{waiting}/events") as stream:
        assert names(stream.until_comment()) == ["run.started", "eval.started", "eval.scored"]
        assert stream.until_comment() == []


def test_an_event_comes_as_soon_as_it_is_recorded(caller: Caller, waiting: str, gate: Journal):
    with caller.stream(f"/v1/runs/{waiting}/events") as stream:
        stream.until("eval.scored")
        gate.open_gate()
        assert names(list(stream)) == ["eval.scored", "eval.completed", "run.completed"]


@pytest.mark.parametrize("mode", ["updates", "debug"])
def test_an_annotation_is_told_and_takes_no_place_in_the_log(
    caller: Caller, waiting: str, gate: Journal, mode: str
):
    with caller.stream(f"/v1/runs/{waiting}/events?streamMode={mode}") as stream:
        seen = stream.until("eval.scored")
        annotation = {"signal": {"kind": "flag"}, "note": "look here"}
        assert caller.post(f"/v1/runs/{waiting}/annotations", annotation).status == 201
        told = stream.until("run.annotated")
        gate.open_gate()
        rest = list(stream)
    assert told[-1].data["payload"]["note"] == "look here"
    every = [*seen, *told[:-1], *rest]
    assert every == caller.frames(waiting, f"streamMode={mode}")


# State instead of events.


def test_values_show_the_run_as_it_stands_at_last(newcomer: Caller):
    run_id = newcomer.evaluate()
    frames = newcomer.frames(run_id, "streamMode=values")
    assert set(names(frames)) == {"state.snapshot"}
    assert frames[-1].data == newcomer.snapshot(run_id)
    assert frames[-1].id == newcomer.frames(run_id)[-1].id


def test_values_follow_a_run(caller: Caller, waiting: str, gate: Journal):
    with caller.stream(f"/v1/runs/{waiting}/events?streamMode=values") as stream:
        assert next(iter(stream)).data["status"] == "running"
        gate.open_gate()
        assert list(stream)[-1].data["status"] == "completed"


def test_who_returns_to_values_is_first_shown_where_the_run_stands(caller: Caller, waiting: str):
    path = f"/v1/runs/{waiting}/events?streamMode=values"
    with caller.stream(path) as stream:
        last = next(iter(stream)).id
    with caller.stream(path, {"Last-Event-ID": str(last)}) as stream:
        assert next(iter(stream)).data["status"] == "running"


# Batches.


def test_a_buffer_gathers_events_into_batches_and_loses_none(newcomer: Caller):
    run_id = newcomer.start(a_suite(20))
    batches = newcomer.frames(run_id, "streamMode=debug&bufferMs=20")
    every = newcomer.frames(run_id)
    assert set(names(batches)) == {"batch"}
    assert [event for batch in batches for event in batch.data] == [frame.data for frame in every]
    assert all(batch.id == batch.data[-1]["sequence"] for batch in batches)


def test_a_buffer_of_nothing_is_none(newcomer: Caller):
    run_id = newcomer.evaluate()
    assert newcomer.frames(run_id, "bufferMs=0") == newcomer.frames(run_id, "")


@pytest.mark.parametrize("buffer", ["5001", "-1", "1.5", "soon", ""])
def test_a_buffer_lasts_from_0_to_5000_ms(newcomer: Caller, buffer: str):
    path = f"/v1/runs/{newcomer.evaluate()}/events?bufferMs="
    assert newcomer.get(path + buffer).refusal == (400, "validation_error")
    assert newcomer.get(path + "5000").status == 200


def test_the_end_of_a_run_does_not_wait_for_the_buffer(caller: Caller, waiting: str, gate: Journal):
    with caller.stream(f"/v1/runs/{waiting}/events?bufferMs=5000") as stream:
        assert names(stream.until("batch")) == ["batch"]
        gate.open_gate()
        ended = [event["type"] for batch in stream for event in batch.data]
    assert ended == ["eval.scored", "eval.completed", "run.completed"]


# Asking again and again.


def test_polling_gives_what_came_after_a_sequence(newcomer: Caller):
    run_id = newcomer.evaluate()
    every = [frame.data for frame in newcomer.frames(run_id)]
    path = f"/v1/runs/{run_id}/events/poll"
    assert newcomer.get(path).json() == {"events": every, "isComplete": True}
    page = newcomer.get(f"{path}?lastSequence=2").json()
    assert page == {"events": every[3:], "isComplete": True}


@pytest.mark.parametrize("beyond", [0, 10**9])
def test_polling_past_the_end_gives_nothing_and_says_so(newcomer: Caller, beyond: int):
    run_id = newcomer.evaluate()
    last = newcomer.frames(run_id)[-1].id + beyond
    page = newcomer.get(f"/v1/runs/{run_id}/events/poll?lastSequence={last}").json()
    assert page == {"events": [], "isComplete": True}


def test_polling_a_run_that_has_not_ended_says_so(caller: Caller, waiting: str):
    page = caller.get(f"/v1/runs/{waiting}/events/poll").json()
    assert page["isComplete"] is False
    last = page["events"][-1]["sequence"]
    again = caller.get(f"/v1/runs/{waiting}/events/poll?lastSequence={last}&timeout=1").json()
    assert again == {"events": [], "isComplete": False}


def test_polling_waits_for_what_comes(
    served: ServedHost, caller: Caller, waiting: str, gate: Journal
):
    last = caller.get(f"/v1/runs/{waiting}/events/poll").json()["events"][-1]["sequence"]
    pages = []

    def poll() -> None:
        path = f"/v1/runs/{waiting}/events/poll?lastSequence={last}&timeout=60"
        pages.append(caller.get(path).json())

    polling = threading.Thread(target=poll)
    polling.start()
    eventually(lambda: served.host.streams.held == 1, "somebody who waits")
    gate.open_gate()
    polling.join()
    assert pages[0]["events"][0]["sequence"] == last + 1


@pytest.mark.parametrize("query", ["timeout=0", "timeout=61", "lastSequence=-1", "lastSequence=x"])
def test_polling_with_what_cannot_be_is_refused(newcomer: Caller, query: str):
    reply = newcomer.get(f"/v1/runs/{newcomer.start()}/events/poll?{query}")
    assert reply.refusal == (400, "validation_error")
