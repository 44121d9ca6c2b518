"""The response budget: what is counted, for how long, and what a refused client is told."""

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from evalwright.host.access import limits
from evalwright.host.access.limits import ByteBudget, send_and_wait
from evalwright.host.http.errors import ApiError

MIB = 1024 * 1024
LONG = 64 * 1024


class Client:
    """Takes what is sent to it; `held` is what the budget counted at each part."""

    def __init__(self, budget: ByteBudget | None = None) -> None:
        self.sent: list[Any] = []
        self.held: list[int] = []
        self._budget = budget

    async def __call__(self, message: Any) -> None:
        self.sent.append(message)
        if self._budget:
            self.held.append(self._budget.held)


def refusal(budget: ByteBudget, tenant: str, size: int) -> ApiError | None:
    try:
        budget.check(tenant, size)
    except ApiError as error:
        return error
    return None


@pytest.mark.parametrize("more", [True, False])
def test_a_part_is_followed_by_an_empty_one_that_waits_until_it_is_read(*, more: bool) -> None:
    client = Client()
    asyncio.run(send_and_wait(client, b"part", more=more))
    assert client.sent == [
        {"type": "http.response.body", "body": b"part", "more_body": True},
        {"type": "http.response.body", "body": b"", "more_body": more},
    ]


def test_the_limits_are_256_mib_and_64_mib_for_a_tenant() -> None:
    budget = ByteBudget()
    with ExitStack() as held:
        held.enter_context(budget.hold("a", 64 * MIB - 1))
        assert refusal(budget, "a", 1) is None
        assert refusal(budget, "a", 2) is not None
        held.enter_context(budget.hold("a", 1))
        for tenant in "bcd":
            held.enter_context(budget.hold(tenant, 64 * MIB - (tenant == "d")))
        assert budget.held == 256 * MIB - 1
        assert refusal(budget, "e", 1) is None
        error = refusal(budget, "e", 2)
        assert error is not None
        assert error.status == 503
    assert budget.held == 0


def test_a_tenant_with_too_much_unread_is_told_how_much_and_when_to_come_again() -> None:
    budget = ByteBudget(most=100, most_per_tenant=10)
    with budget.hold("acme", 4), budget.hold("acme", 3):
        assert refusal(budget, "acme", 3) is None
        error = refusal(budget, "acme", 4)
        assert error is not None
        assert vars(error) == {
            "status": 429,
            "code": "rate_limited",
            "message": "more than 10 bytes of responses are unread; read them",
            "details": {"retryAfterMs": 1000, "scope": "tenant"},
            "headers": {"Retry-After": "1"},
        }
        with pytest.raises(ApiError), budget.hold("acme", 4):
            pass
        assert budget.held == 7
        assert refusal(budget, "globex", 93) is None


def test_a_host_with_too_much_unread_says_when_to_come_again() -> None:
    budget = ByteBudget(most=10, most_per_tenant=100)
    with budget.hold("acme", 7):
        assert refusal(budget, "globex", 3) is None
        error = refusal(budget, "globex", 4)
        assert error is not None
        assert vars(error) == {
            "status": 503,
            "code": "service_unavailable",
            "message": "too many responses are unread; retry later",
            "details": {"retryAfter": 1},
            "headers": {"Retry-After": "1"},
        }


def test_one_response_is_always_allowed_however_long_it_is() -> None:
    budget = ByteBudget(most=10, most_per_tenant=5)
    with budget.hold("acme", 1000):
        assert budget.held == 1000
        assert refusal(budget, "acme", 1) is not None
    with budget.hold("acme", 1), budget.hold("globex", 9):
        assert budget.held == 10


def test_every_count_comes_back_also_by_an_error() -> None:
    budget = ByteBudget(most=10, most_per_tenant=5)
    with pytest.raises(ZeroDivisionError), budget.hold("acme", 3), budget.hold("acme", 2):  # noqa: PT012
        assert budget._held_by_tenant == {"acme": 5}
        raise ZeroDivisionError
    assert (budget.held, budget._held_by_tenant) == (0, {})


# Responses.


def test_a_response_is_counted_from_one_byte_over_64_kib() -> None:
    budget = ByteBudget()
    short, long = Response(b"x" * LONG), Response(b"x" * (LONG + 1))
    assert budget.counted(short, "acme") is short
    assert budget.held == 0
    counted = budget.counted(long, "acme")
    assert counted is not long
    assert budget.held == budget._held_by_tenant["acme"] == LONG + 1
    assert limits.LONG == LONG


def test_a_response_of_another_kind_is_not_counted() -> None:
    budget = ByteBudget()
    other = JSONResponse("x" * 2 * LONG)
    assert budget.counted(other, "acme") is other
    assert budget.held == 0


def test_a_counted_response_is_sent_as_it_is_and_counts_until_it_is_read() -> None:
    budget = ByteBudget()
    body = b"0123456789" * 10_000
    response = Response(body, 201, {"Location": "/there"}, media_type="application/json")
    counted = budget.counted(response, "acme")
    client = Client(budget)
    asyncio.run(counted({"type": "http"}, None, client))  # type: ignore[arg-type]
    start, *parts = client.sent
    assert start == {
        "type": "http.response.start",
        "status": 201,
        "headers": response.raw_headers,
    }
    assert parts == [
        {"type": "http.response.body", "body": body, "more_body": True},
        {"type": "http.response.body", "body": b"", "more_body": False},
    ]
    assert client.held == [len(body)] * 3
    assert budget.held == 0


def test_a_client_that_is_gone_no_longer_counts() -> None:
    async def gone(_: object) -> None:
        raise OSError("gone")

    budget = ByteBudget()
    counted = budget.counted(Response(b"x" * 2 * LONG), "acme")
    with pytest.raises(OSError, match="gone"):
        asyncio.run(counted({"type": "http"}, None, gone))  # type: ignore[arg-type]
    assert budget.held == 0


def test_a_response_that_is_refused_does_not_count() -> None:
    budget = ByteBudget(most_per_tenant=3 * LONG)
    first = budget.counted(Response(b"x" * 2 * LONG), "acme")
    with pytest.raises(ApiError):
        budget.counted(Response(b"x" * 2 * LONG), "acme")
    assert budget.held == len(first.body) == 2 * LONG
