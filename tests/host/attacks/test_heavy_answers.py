"""Answers of tenants' HTTP agents that would keep everybody else waiting."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite
from evalwright.agents import wire
from evalwright.agents.http import LONG_ANSWER
from evalwright.agents.wire import SHORT_RESPONSE
from evalwright.host.library import catalogue
from evalwright.host.library.catalogue import ANSWERS
from host.caller import Caller
from host.server import ServedHost, running_host
from subjects.endpoint import Reply, Request, answer, serving
from subjects.waiting import eventually

AGENT = "local.acme.heavy"
LOOPBACK = {"egress": {"allow_private": True, "allow_http": True}}
USAGE = {"inputTokens": 1, "outputTokens": 1}
THOUGHT = {"type": "agent.reasoned", "reasoning": ""}
MARGIN = 1_000  # for what stands around an output

assert ANSWERS.most_events is not None
assert ANSWERS.most_usages is not None
assert ANSWERS.most_values is not None
assert ANSWERS.most_output_values is not None

TOO_MUCH: dict[str, tuple[dict[str, Any], str]] = {
    "a long text": ({"output": "x" * ANSWERS.most_bytes}, "longer than 4194304 bytes"),
    "many events": (
        {"output": "yes", "events": [THOUGHT] * (ANSWERS.most_events + 1)},
        "more than 10000 events",
    ),
    "many usages": (
        {"output": "yes", "usage": [USAGE] * (ANSWERS.most_usages + 1)},
        "more than 500 usages",
    ),
    "many lists": ({"output": [[]] * ANSWERS.most_values}, "more than 100000 values"),
    "a wide output": ({"output": [0] * (ANSWERS.most_output_values + 1)}, "more than 20000 values"),
    "a wide JSON text": (
        {"output": json.dumps([0] * (ANSWERS.most_output_values + 1))},
        "more than 20000 values",
    ),
    "extreme numbers": ({"output": [1e308] * 10_001}, "exponent of three digits"),
    "extreme numbers in a text": (
        {"output": " [" + "1e308," * 10_001 + "0]"},
        "exponent of three digits",
    ),
}


@pytest.fixture(scope="module")
def open_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHost]:
    """A host whose operator allows agents on this machine."""
    with running_host(tmp_path_factory.mktemp("host") / "host.db", settings=LOOPBACK) as served:
        yield served


def register(caller: Caller, url: str) -> None:
    reply = caller.post("/v1/agents", {"agentId": AGENT, "version": "1.0.0", "url": url})
    assert reply.status == 201, reply.body


@pytest.mark.parametrize("kind", TOO_MUCH)
def test_an_answer_that_is_too_much_fails_the_task_and_records_nothing_of_it(
    open_host: ServedHost, kind: str
) -> None:
    fields, complaint = TOO_MUCH[kind]
    caller = open_host.caller(kind.replace(" ", "-").lower())

    def respond(request: Request) -> Reply:
        return answer(**fields) if request.body["taskId"] == "task-1" else answer("yes")

    with serving(respond) as endpoint:
        register(caller, endpoint.url)
        frames = caller.frames(caller.start(a_suite(2), AGENT))
    decided = {
        frame.data["nodeId"]: frame.data["payload"]["decision"]
        for frame in frames
        if frame.name == "agent.decided"
    }
    assert decided["task-1"]["error"]["code"] == "invalid_answer"
    assert complaint in decided["task-1"]["error"]["message"]
    assert decided["task-2"] == "yes"
    assert not {"agent.reasoned", "provider.usage"} & {frame.name for frame in frames}


def test_an_answer_may_be_as_much_as_the_bounds_allow(open_host: ServedHost) -> None:
    caller = open_host.caller("modest")
    long = "x" * (ANSWERS.most_bytes - MARGIN)
    wide = [0] * ANSWERS.most_output_values
    usages = [USAGE] * ANSWERS.most_usages

    def respond(request: Request) -> Reply:
        return answer(long) if request.body["taskId"] == "task-1" else answer(wide, usage=usages)

    with serving(respond) as endpoint:
        register(caller, endpoint.url)
        frames = caller.frames(caller.start(a_suite(2), AGENT))
    decisions = [f.data["payload"]["decision"] for f in frames if f.name == "agent.decided"]
    assert sorted(decisions, key=len) == [wide, long]
    assert [frame.name for frame in frames].count("provider.usage") == len(usages)


# Reading.


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator["Reader"]:
    """Who reads answers; those that are told to stop go on when the test ends."""
    reader = Reader(wire.accept_response)
    monkeypatch.setattr(wire, "accept_response", reader)
    yield reader
    reader.gate.set()


class Reader:
    """Reads answers as ever, notes by which thread, and stops before long ones at a gate."""

    def __init__(self, accept: Callable[..., Any]) -> None:
        self._accept = accept
        self.gate = threading.Event()
        self.threads: list[str] = []
        self.read: list[str] = []  # the runs whose answers have come to be read

    def __call__(self, body: bytes, invocation: Any, *more: Any) -> Any:
        self.threads.append(threading.current_thread().name)
        self.read.append(invocation.run_id)
        if len(body) > SHORT_RESPONSE:
            self.gate.wait()
        return self._accept(body, invocation, *more)


def yes_and(padding: int) -> Callable[[Request], Reply]:
    return lambda _: Reply(answer("yes").body + b" " * padding)


def test_long_answers_are_read_beside_the_event_loop_and_short_ones_on_it(
    open_host: ServedHost, reader: Reader
) -> None:
    reader.gate.set()
    for tenant, padding in (("short", 0), ("long", SHORT_RESPONSE)):
        caller = open_host.caller(tenant)
        with serving(yes_and(padding)) as endpoint:
            register(caller, endpoint.url)
            caller.evaluate(a_suite(1), AGENT)
    on_loop, beside = reader.threads
    assert on_loop == "host"
    assert beside.startswith("answer")


def test_the_host_answers_while_a_long_answer_is_read(
    open_host: ServedHost, reader: Reader
) -> None:
    caller = open_host.caller("patient")
    with serving(yes_and(SHORT_RESPONSE)) as endpoint:
        register(caller, endpoint.url)
        run_id = caller.start(a_suite(1), AGENT)
        eventually(lambda: reader.read, "an answer that is read")
        assert caller.get("/v1/host/healthz").status == 200
        assert caller.evaluate(a_suite(1))
        assert caller.snapshot(run_id)["status"] == "running"
        reader.gate.set()
        assert caller.finish(run_id)["status"] == "completed"


def test_a_tenants_long_answers_wait_for_each_other_and_those_of_others_do_not(
    tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "MOST_LONG_ANSWERS", 1)
    with (
        running_host(tmp_path / "host.db", settings=LOOPBACK) as served,
        serving(yes_and(LONG_ANSWER)) as endpoint,
    ):
        caller, other = served.caller(), served.caller("other")
        for each in (caller, other):
            register(each, endpoint.url)
        mine = caller.start(a_suite(3), AGENT)
        eventually(lambda: len(endpoint.requests) == 3 and reader.read, "three answers")
        others = other.start(a_suite(1), AGENT)
        eventually(lambda: others in reader.read, "the other tenant's answer")
        assert reader.read == [mine, others]
        reader.gate.set()
        assert caller.finish(mine)["status"] == other.finish(others)["status"] == "completed"
