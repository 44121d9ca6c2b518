"""The receiver of spans: what arrives is joined to its task, bounded, and trusted in nothing."""

import asyncio
import gzip
import io
import itertools
import re
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from builders import AGENT_ID, RUN_ID, a_task
from evalwright.agents import span_receiver
from evalwright.agents.protocol import Invocation
from evalwright.agents.span_receiver import SpanReceiver, TaskSpans
from evalwright.contracts.coverage import Coverage
from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import Payload
from subjects.span_exports import a_span, an_agent, an_export

SEEN = Coverage(calls="spans", usage="spans", messages="spans")
SHORT_S = 0.05  # that spans which never come are awaited in a test
GZIP = {"Content-Encoding": "gzip"}


class Scene:
    """A receiver, the invocations at it, and a plain HTTP client."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.notices: list[str] = []
        self.receiver = SpanReceiver(self.notices.append)
        self.http = http

    async def post(
        self, spans: TaskSpans, body: bytes, path: str = "/v1/traces", **headers: str
    ) -> int:
        """Send an export; the status of what comes back."""
        sent = {"Content-Type": "application/json", **headers}
        data = io.BytesIO(body)
        async with self.http.post(spans.endpoint + path, data=data, headers=sent) as response:
            return response.status


class Invoked:
    """An invocation, and what it recorded."""

    def __init__(self, number: int = 1) -> None:
        self.events: list[Any] = []
        self.invocation = Invocation(
            run_id=RUN_ID,
            invocation_id=f"inv-{number:04d}",
            agent_id=AGENT_ID,
            task=a_task(),
            record=self._record,
            keep_pace=_no_pace,
        )

    def _record(self, payload: Payload) -> None:
        told = msgspec.json.decode(msgspec.json.encode(payload))
        self.events.append({"type": payload.TYPE, **told})

    @property
    def coverage(self) -> Coverage:
        return self.invocation.coverage()

    @property
    def calls(self) -> list[tuple[str, Any]]:
        """The calls that were recorded: tool and inputs."""
        called = [each for each in self.events if each["type"] == "agent.toolCalled"]
        return [(each["toolName"], each.get("inputs")) for each in called]


async def _no_pace() -> None:
    pass


@asynccontextmanager
async def a_scene() -> AsyncIterator[Scene]:
    async with aiohttp.ClientSession() as http:
        scene = Scene(http)
        try:
            yield scene
        finally:
            await scene.receiver.close()


def observed(
    work: Callable[[Scene, TaskSpans], Awaitable[None]],
    *,
    is_program: bool = False,
    settle: bool = True,
) -> tuple[Invoked, Scene]:
    """Do something while one invocation lasts; what it recorded, and the scene."""

    async def main() -> tuple[Invoked, Scene]:
        done = Invoked()
        async with a_scene() as scene:
            opened = scene.receiver.open(done.invocation, is_program=is_program)
            async with opened as spans:
                await work(scene, spans)
                if settle:
                    await spans.settle()
        return done, scene

    return asyncio.run(main())


def test_what_an_agent_did_is_recorded_with_arguments_results_and_usage() -> None:
    async def work(scene: Scene, spans: TaskSpans) -> None:
        assert await scene.post(spans, an_export(*an_agent(spans.traceparent))) == 200

    done, scene = observed(work)
    kinds = [each["type"] for each in done.events]
    assert done.calls == [("get_order", {"id": 17})]
    (returned,) = [each for each in done.events if each["type"] == "agent.toolReturned"]
    assert (returned["status"], returned["outcome"]) == ("ok", "shipped")
    assert kinds.count("provider.usage") == 2
    assert done.coverage == SEEN
    assert scene.notices == []


def test_the_order_in_which_spans_come_does_not_matter() -> None:
    def recorded(order: tuple[int, ...], *, at_once: bool) -> tuple[list[Any], Coverage]:
        async def work(scene: Scene, spans: TaskSpans) -> None:
            found = [an_agent(spans.traceparent)[place] for place in order]
            for export in [found] if at_once else [[each] for each in found]:
                assert await scene.post(spans, an_export(*export, export[0])) == 200  # one twice

        done, _ = observed(work)
        return done.events, done.coverage

    orders = list(itertools.permutations(range(4)))
    expected = recorded(orders[0], at_once=True)
    assert len(expected[0]) == 4
    for order in orders:
        assert recorded(order, at_once=False) == expected


def test_spans_are_awaited_until_the_one_that_continues_ours_and_all_within_it_are_here() -> None:
    async def work(scene: Scene, spans: TaskSpans) -> None:
        model, tool, answer, agent = an_agent(spans.traceparent)
        within = "b" * 16
        await scene.post(spans, an_export(model, {**tool, "parentSpanId": within}))
        settling = asyncio.create_task(spans.settle())
        await scene.post(spans, an_export(answer, agent))
        assert not settling.done()
        await scene.post(spans, an_export(a_span(spans.trace_id, within, agent["spanId"], 2, 4)))
        await settling

    done, _ = observed(work)
    assert (done.calls, done.coverage) == ([("get_order", {"id": 17})], SEEN)


@pytest.mark.parametrize(
    ("which", "reason"),
    [
        (
            slice(0, 0),
            r"no span came within 0\.05 s of the answer; let the agent export to EVALWRIGHT",
        ),
        (slice(0, 3), r"traceparent did not end within 0\.05 s of the answer; end it before"),
    ],
    ids=["none", "not the last"],
)
def test_spans_that_never_come_leave_the_calls_not_observed(
    which: slice, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_receiver, "SPANS_SECONDS", SHORT_S)

    async def work(scene: Scene, spans: TaskSpans) -> None:
        await scene.post(spans, an_export(*an_agent(spans.traceparent)[which]))

    done, _ = observed(work)
    assert (done.coverage.calls, done.coverage.usage) == (None, None)
    assert done.coverage.lost is not None
    assert re.search(reason, done.coverage.lost), done.coverage.lost
    assert len(done.calls) == (which.stop > 0)  # what was seen speaks against a claim


def test_what_others_observed_stays_observed_where_no_span_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(span_receiver, "SPANS_SECONDS", SHORT_S)

    async def main() -> None:
        done = Invoked()
        async with (
            a_scene() as scene,
            scene.receiver.open(done.invocation, is_program=False) as spans,
        ):
            done.invocation.observe("calls", "gateway")
            await spans.settle()
        assert done.coverage == Coverage(calls="gateway")

    asyncio.run(main())


def test_a_span_without_the_one_around_it_shows_that_others_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(span_receiver, "SPANS_SECONDS", SHORT_S)

    async def work(scene: Scene, spans: TaskSpans) -> None:
        found = an_agent(spans.traceparent)
        found[1]["parentSpanId"] = "b" * 16
        await scene.post(spans, an_export(*found))

    for is_program in (False, True):
        done, _ = observed(work, is_program=is_program)
        assert done.coverage.calls is None
        assert "a span came without the one around it" in str(done.coverage.lost)


def test_spans_of_other_traces_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_receiver, "SPANS_SECONDS", SHORT_S)

    async def work(scene: Scene, spans: TaskSpans) -> None:
        assert await scene.post(spans, an_export(*an_agent(None))) == 200

    done, scene = observed(work)
    assert (done.events, done.coverage.calls) == ([], None)
    assert "only spans of other traces came" in str(done.coverage.lost)
    assert scene.notices == ["dropped 4 spans that belonged to no task"]


def test_a_program_that_makes_a_trace_of_its_own_is_known_by_its_address() -> None:
    async def work(scene: Scene, spans: TaskSpans) -> None:
        await scene.post(spans, an_export(*an_agent(None)))

    done, scene = observed(work, is_program=True)
    assert (done.calls, done.coverage, scene.notices) == ([("get_order", {"id": 17})], SEEN, [])


def test_the_address_of_a_program_ends_with_it_and_late_spans_of_others_are_counted() -> None:
    async def main() -> list[str]:
        async with a_scene() as scene:
            async with scene.receiver.open(Invoked().invocation, is_program=True) as program:
                pass
            async with scene.receiver.open(Invoked().invocation, is_program=False) as spans:
                pass
            assert await scene.post(program, an_export(*an_agent(program.traceparent))) == 404
            assert await scene.post(spans, an_export(*an_agent(spans.traceparent)[:1])) == 200
        return scene.notices

    (notice,) = asyncio.run(main())
    assert notice.startswith("dropped 1 span that came after the score of the task: one span")


def test_many_tasks_at_once_keep_their_spans_apart() -> None:
    async def one(scene: Scene, number: int, all_open: asyncio.Barrier) -> None:
        done = Invoked(number)
        opened = scene.receiver.open(done.invocation, is_program=number % 4 == 0)
        async with opened as spans:
            open_now.append(spans)
            await all_open.wait()
            if number == 1:  # one export, as of a service that works for all of them
                each = [an_agent(one.traceparent, f"tool_{one.trace_id}") for one in open_now]
                shared = [span for found in zip(*each, strict=True) for span in found]
                assert await scene.post(spans, an_export(*shared)) == 200
            await spans.settle() if number % 4 else None
            await all_open.wait()
        assert done.calls == [(f"tool_{spans.trace_id}", {"id": 17})]

    async def main() -> None:
        barrier = asyncio.Barrier(20)
        async with a_scene() as scene:
            await asyncio.gather(*(one(scene, number, barrier) for number in range(1, 21)))
        assert scene.notices == []

    open_now: list[TaskSpans] = []
    asyncio.run(main())


BOMB = gzip.compress(b" " * (span_receiver.MAX_UNPACKED_BYTES + 1))
MANY = an_export(
    {
        **a_span("9" * 32, "8" * 16, None, 0, 1),
        "attributes": [{"key": "k", "value": {"intValue": 1}}] * 200_000,
    }
)
LONG = an_export(a_span("9" * 32, "8" * 16, None, 0, 1, text="x" * (span_receiver.MAX_TEXT + 1)))
PROTOBUF = {"Content-Type": "application/x-protobuf"}
GOOD = an_export(*an_agent(None))


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"x" * (span_receiver.MAX_BODY_BYTES + 1), {}, 413),
        (BOMB, GZIP, 413),
        (MANY, {}, 413),
        (gzip.compress(MANY), GZIP, 413),
        (LONG, {}, 413),
        (b"\xff" * 20, PROTOBUF, 400),
        (gzip.compress(GOOD)[:-9], GZIP, 400),
        (gzip.compress(GOOD) + b"more", GZIP, 400),
        (b"no gzip", GZIP, 400),
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (b"[" * 100_000, {}, 400),
        (GOOD, {"Content-Type": "text/plain"}, 415),
        (GOOD, {"Content-Encoding": "br"}, 415),
    ],
    ids=[
        *("too long", "bomb", "many attributes", "many, packed", "long text", "no protobuf"),
        *("cut gzip", "more than gzip", "no gzip", "cut JSON", "a list", "deep", "kind", "coding"),
    ],
)
def test_an_export_that_is_refused_is_missing_in_every_task_that_it_may_be_of(
    body: bytes, headers: dict[str, str], status: int
) -> None:
    async def work(scene: Scene, spans: TaskSpans) -> None:
        started = time.process_time()
        assert await scene.post(spans, body, **headers) == status
        assert time.process_time() - started < 3
        assert await scene.post(spans, an_export(*an_agent(spans.traceparent))) == 200

    for is_program in (False, True):
        done, _ = observed(work, is_program=is_program)
        assert done.coverage.calls is None
        assert str(done.coverage.lost).startswith("an export")


@pytest.mark.parametrize(
    ("packed", "coding"), [(zlib.compress(GOOD), "deflate"), (gzip.compress(GOOD), "gzip")]
)
def test_exports_may_be_compressed(packed: bytes, coding: str) -> None:
    async def work(scene: Scene, spans: TaskSpans) -> None:
        assert await scene.post(spans, packed, **{"Content-Encoding": coding}) == 200

    assert observed(work, is_program=True)[0].coverage == SEEN


def test_strangers_and_wrong_paths_get_nothing_and_change_nothing() -> None:
    async def work(scene: Scene, spans: TaskSpans) -> None:
        origin = spans.endpoint.rpartition("/")[0]
        for path in (
            "/v1/traces",
            "/x/v1/traces",
            "/",
            f"/{'x' * 43}/v1/traces",
            "//v1/traces",
            "/é/v1/traces",
        ):
            async with scene.http.post(origin + path, data=b"{}") as response:
                assert response.status == 404, path
        for path in ("/v1/profiles", "/v1/traces/x", "/v1/", "", "/x/v1/traces"):
            assert await scene.post(spans, b"{}", path) == 404, path
        for method in ("GET", "PUT", "DELETE", "OPTIONS"):
            async with scene.http.request(method, spans.endpoint + "/v1/traces") as response:
                assert (response.status, response.headers["Allow"]) == (405, "POST")
        assert await scene.post(spans, b"{}", Host="evil.example") == 421
        assert await scene.post(spans, b"{}", Origin="http://evil.example") == 403
        assert await scene.post(spans, b"no matter what", "/v1/metrics") == 200
        assert await scene.post(spans, an_export(*an_agent(spans.traceparent))) == 200

    assert observed(work)[0].coverage == SEEN


def test_more_spans_than_a_task_may_have_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_receiver, "MAX_TASK_SPANS", 5)

    async def work(scene: Scene, spans: TaskSpans) -> None:
        found = an_agent(spans.traceparent)
        more = [a_span(spans.trace_id, f"c{n:015d}", found[3]["spanId"], 1, 2) for n in range(9)]
        await scene.post(spans, an_export(*found, *more))
        assert len(spans.found) == 5

    done, _ = observed(work)
    assert done.coverage.calls is None
    assert str(done.coverage.lost).startswith("it sent more than 5 spans or 64 MiB")


def test_an_export_on_its_way_when_a_program_ends_is_awaited() -> None:
    async def work(scene: Scene, spans: TaskSpans) -> None:
        body = an_export(*an_agent(spans.traceparent))
        began = asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield body[:100]
            began.set()
            await asyncio.sleep(0.05)
            yield body[100:]

        kind = {"Content-Type": "application/json"}
        url = f"{spans.endpoint}/v1/traces"
        sending.append(asyncio.create_task(_posted(scene, url, slowly(), kind)))
        await began.wait()
        while not spans._arriving():  # noqa: ASYNC110 - it shows only there
            await asyncio.sleep(0.001)

    sending: list[asyncio.Task[None]] = []
    assert observed(work, is_program=True)[0].coverage == SEEN


async def _posted(scene: Scene, url: str, body: Any, headers: dict[str, str]) -> None:
    async with scene.http.post(url, data=body, headers=headers):
        pass


def test_spans_that_tell_nothing_of_an_agent_are_no_evidence() -> None:
    async def work(scene: Scene, spans: TaskSpans) -> None:
        bare = a_span(spans.trace_id, "d" * 16, spans.span_id, 0, 1)
        await scene.post(spans, an_export(bare))

    done, _ = observed(work)
    assert done.coverage.calls is None
    assert "1 span came, and none tells what a model answered" in str(done.coverage.lost)


@pytest.mark.parametrize(
    "address",
    [
        "4318",
        "https://127.0.0.1:4318/0123456789abcdef",
        "http://192.0.2.1:4318/0123456789abcdef",
        "http://127.0.0.1/0123456789abcdef",
        "http://127.0.0.1:4318/short",
        "http://127.0.0.1:4318/0123456789abcdef/v1/traces",
        "http://127.0.0.1:99999999/0123456789abcdef",
    ],
)
def test_an_address_that_is_chosen_must_be_here_and_secret(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALWRIGHT_OTLP_ENDPOINT", address)
    with pytest.raises(BadInput, match="EVALWRIGHT_OTLP_ENDPOINT: give http://127"):
        SpanReceiver(lambda _: None)
