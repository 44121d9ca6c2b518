"""Long answers that many clients ask for and do not read."""

import asyncio
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response, StreamingResponse

from builders import a_suite, a_task
from evalwright.host.access.limits import LONG, MIB, ByteBudget
from evalwright.host.http.errors import ApiError
from host.attacks.raw_client import connected, request
from host.caller import Caller
from host.server import ServedHost
from subjects.waiting import eventually

LENGTH = 3 * MIB


@pytest.fixture
def long_suite(served: ServedHost) -> Caller:
    """A client whose tenant has a long suite."""
    caller = served.caller()
    caller.publish(a_suite([a_task("long", input="x" * LENGTH)]))
    return caller


def _path(caller: Caller) -> str:
    return f"/v1/suites/{caller.get('/v1/suites?after=acme').json()['suites'][0]['evalSuiteRef']}"


def test_a_tenant_that_leaves_much_unread_waits_and_others_do_not(
    served: ServedHost, long_suite: Caller
) -> None:
    served.host.response_budget = ByteBudget(most_per_tenant=2 * LENGTH)
    other = served.caller("other")
    other.publish(a_suite([a_task("long", input="x" * LENGTH)]))
    path = _path(long_suite)
    with connected(long_suite, request(long_suite, path)):
        eventually(lambda: served.host.response_budget.held >= LENGTH, "an answer on its way")
        assert long_suite.get(path).refusal == (429, "rate_limited")
        assert other.get(path).status == 200
        assert long_suite.get("/v1/runs").status == 200
    eventually(lambda: not served.host.response_budget.held, "the end of the answer")
    assert len(long_suite.get(path).body) > LENGTH


def test_a_stream_that_finds_no_room_ends_and_can_be_resumed(
    served: ServedHost, long_suite: Caller
) -> None:
    run_id = long_suite.start(_path(long_suite).removeprefix("/v1/suites/"))
    whole = long_suite.frames(run_id)
    served.host.response_budget = ByteBudget(most_per_tenant=LENGTH + MIB)
    with served.host.response_budget.hold("acme", LENGTH):
        begun = long_suite.frames(run_id)
    rest = long_suite.frames(run_id, last=begun[-1].id if begun else -1)
    assert len(begun) < len(whole)
    assert begun + rest == whole


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), max_size=30))
def test_no_more_is_unread_than_the_bounds_allow(answers: list[tuple[str, int]]) -> None:
    response_budget = ByteBudget(most=12, most_per_tenant=8)
    held = {"a": 0, "b": 0}
    with ExitStack() as stack:
        for tenant, size in answers:
            with suppress(ApiError):
                stack.enter_context(response_budget.hold(tenant, size))
                held[tenant] += size
                assert held[tenant] <= 8 or held[tenant] == size
                assert sum(held.values()) <= 12 or sum(held.values()) == size
            assert response_budget.held == sum(held.values())
    assert response_budget.held == 0


def test_one_answer_is_let_through_however_long_it_is() -> None:
    response_budget = ByteBudget(most=1, most_per_tenant=1)
    with response_budget.hold("acme", 100):
        assert response_budget.held == 100


def refused(budget: ByteBudget, tenant: str, size: int) -> ApiError | None:
    try:
        budget.check(tenant, size)
    except ApiError as error:
        return error
    return None


def test_what_just_fits_is_sent_and_one_byte_more_is_not() -> None:
    budget = ByteBudget(most=12, most_per_tenant=8)
    with budget.hold("acme", 5):
        assert refused(budget, "acme", 3) is None
        too_much = refused(budget, "acme", 4)
        assert refused(budget, "globex", 7) is None
        far_too_much = refused(budget, "globex", 8)
    assert too_much is not None
    assert (too_much.status, too_much.code) == (429, "rate_limited")
    assert too_much.details == {"retryAfterMs": 1000, "scope": "tenant"}
    assert too_much.headers == {"Retry-After": "1"}
    assert far_too_much is not None
    assert (far_too_much.status, far_too_much.code) == (503, "service_unavailable")
    assert far_too_much.details == {"retryAfter": 1}
    assert far_too_much.headers == {"Retry-After": "1"}


@pytest.mark.parametrize(("length", "is_counted"), [(LONG, False), (LONG + 1, True)])
def test_a_long_answer_counts_until_it_is_sent(length: int, *, is_counted: bool) -> None:
    budget = ByteBudget()
    response = budget.counted(Response(b"x" * length, 201, {"Location": "/there"}), "acme")
    assert budget.held == length * is_counted
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        assert budget.held == length * is_counted
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is awaited from the client")

    asyncio.run(response({"type": "http"}, receive, send))
    assert budget.held == 0
    start, *parts = sent
    assert (start["type"], start["status"]) == ("http.response.start", 201)
    assert (b"location", b"/there") in start["headers"]
    assert {part["type"] for part in parts} == {"http.response.body"}
    assert b"".join(part["body"] for part in parts) == b"x" * length
    more = [part.get("more_body", False) for part in parts]
    assert more == [True] * (len(parts) - 1) + [False]


def test_a_stream_is_not_counted_as_a_whole() -> None:
    budget = ByteBudget(most=1, most_per_tenant=1)
    stream = StreamingResponse(iter([b"x" * 2 * LONG]))
    assert budget.counted(stream, "acme") is stream
    assert budget.held == 0
