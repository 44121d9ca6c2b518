"""Refusals of limits, every field of them, and the limits themselves: one less, on it, one more."""

import json
from contextlib import ExitStack
from typing import Any

import pytest

from evalwright.host.access import limits
from evalwright.host.access.limits import Buckets, ConcurrencyLimit, Rate, RateLimits, parse_body
from evalwright.host.http.errors import ApiError

SECOND = 1_000_000_000


def refused(call: Any, *given: Any, **named: Any) -> dict[str, Any]:
    with pytest.raises(ApiError) as caught:
        call(*given, **named)
    return vars(caught.value)


def too_many(message: str, scope: str, limit: float, ms: int, seconds: str) -> dict[str, Any]:
    return {
        "status": 429,
        "code": "rate_limited",
        "message": message,
        "details": {"retryAfterMs": ms, "scope": scope, "limit": limit},
        "headers": {"Retry-After": seconds},
    }


# Rates.


@pytest.mark.parametrize(
    ("key", "tenant", "expected"),
    [
        (Rate(4, 1), Rate(9, 9), ("more than 4 requests", "key", 4, 250, "1")),
        (Rate(9, 9), Rate(0.4, 1), ("more than 0.4 requests", "tenant", 0.4, 2500, "3")),
        (Rate(1, 1), Rate(0.5, 1), ("more than 0.5 requests", "tenant", 0.5, 2000, "2")),
        (Rate(0.5, 1), Rate(1, 1), ("more than 0.5 requests", "key", 0.5, 2000, "2")),
        (Rate(2, 1), Rate(2, 1), ("more than 2 requests", "key", 2, 500, "1")),
        (Rate(3, 1), Rate(9, 9), ("more than 3 requests", "key", 3, 334, "1")),
    ],
)
def test_the_limit_that_keeps_a_client_waiting_longest_is_told(
    key: Rate, tenant: Rate, expected: Any
) -> None:
    limited = RateLimits(key, tenant, Rate(1, 1), clock_ns=lambda: 5 * SECOND)
    limited.count("k", "t")
    words, *rest = expected
    told = refused(limited.count, "k", "t")
    assert told == too_many(f"{words} per second; retry later", *rest)


def test_an_address_is_told_as_the_limit_of_all() -> None:
    limited = RateLimits(Rate(1, 1), Rate(1, 1), Rate(0.25, 2), clock_ns=lambda: 0)
    limited.count_address("2001:db8::1")
    limited.count_address("2001:db8::2")
    told = refused(limited.count_address, "2001:db8::3")
    message = "more than 0.25 requests per second; retry later"
    assert told == too_many(message, "global", 0.25, 4000, "4")


def test_the_clock_is_one_that_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = RateLimits(Rate(0.001, 1), Rate(9, 9), Rate(0.001, 1))
    limited.count("k", "t")
    assert refused(limited.count, "k", "t")["details"]["scope"] == "key"
    assert limited._clock_ns is limits.time.monotonic_ns


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("", ""),
        ("testclient", "testclient"),
        ("2001:db8:1:2:3:4:5:6", "20010db800010002"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::1", "0000000000000000"),
        ("not:an:address", "not:an:address"),
    ],
)
def test_who_a_client_is(address: str, client: str) -> None:
    assert limits._client(address) == client


@pytest.mark.parametrize("rate", [Rate(0, 1), Rate(-1, 1)])
def test_a_rate_is_positive(rate: Rate) -> None:
    with pytest.raises(AssertionError, match=r"^a rate must be positive"):
        Buckets(rate)


def test_a_bucket_holds_at_least_one() -> None:
    with pytest.raises(AssertionError, match=r"^a bucket must hold at least one request"):
        Buckets(Rate(1, 0))
    Buckets(Rate(0.5, 1))


def test_the_wait_of_a_bucket_to_the_nanosecond() -> None:
    buckets = Buckets(Rate(3, 2))  # an interval of 333,333,333 ns
    waits = []
    for now in (0, 0, 0, 1, 333_333_332, 333_333_333, 666_666_666):
        waits.append(buckets.wait_ns("a", now))
        if not waits[-1]:
            buckets.count("a", now)
    assert waits == [0, 0, 333_333_333, 333_333_332, 1, 0, 0]
    assert Buckets(Rate(1e12, 1))._interval == 1
    assert Buckets(Rate(1e12, 3))._capacity == 3


def test_hosts_that_share_a_rate_allow_a_part_of_it_each_and_at_least_one_request() -> None:
    buckets = Buckets(Rate(4, 5))
    buckets.divide(2)
    assert (buckets._interval, buckets._capacity) == (SECOND // 2, SECOND)
    buckets.divide(8)
    assert (buckets._interval, buckets._capacity) == (2 * SECOND, 2 * SECOND)
    buckets.divide(1)
    assert (buckets._interval, buckets._capacity) == (SECOND // 4, 5 * SECOND // 4)


def test_when_buckets_are_swept_and_what_is_left() -> None:
    buckets = Buckets(Rate(1, 5))
    for number in range(1_000):
        buckets.count(str(number), number)
    assert (len(buckets), buckets._sweep_at) == (1_000, 1_000)
    buckets.count("new", SECOND + 399)  # 0 to 399 are full again
    assert (len(buckets), buckets._sweep_at) == (601, 1_200)
    for number in range(599):
        buckets.count(f"more {number}", SECOND + 399)
    assert len(buckets) == 1_200
    buckets.count("newest", SECOND + 399)
    assert (len(buckets), buckets._sweep_at) == (1_201, 2_400)


def test_the_oldest_are_forgotten_where_there_is_no_room() -> None:
    buckets = Buckets(Rate(1, 5), most=7)
    for number in range(7):
        buckets.count(str(number), 0)
    buckets.count("0", 0)  # again: now the youngest
    assert list(buckets._full_at) == ["1", "2", "3", "4", "5", "6", "0"]
    buckets.count("7", 0)
    assert list(buckets._full_at) == ["5", "6", "0", "7"]
    assert Buckets(Rate(1, 1))._most == limits.MOST_BUCKETS == 100_000


# At once.


def test_a_full_host_and_a_full_tenant_are_told_in_full() -> None:
    limit = ConcurrencyLimit("streams", most=3, most_per_tenant=2)
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(limit.hold())
            held.enter_context(limit.hold_for("acme"))
        message = "more than 2 streams at once; retry later"
        assert refused(lambda: held.enter_context(limit.hold_for("acme"))) == too_many(
            message, "tenant", 2, 1000, "1"
        )
        held.enter_context(limit.hold())
        assert refused(lambda: held.enter_context(limit.hold())) == {
            "status": 503,
            "code": "service_unavailable",
            "message": "the host has reached its limit of streams at once; retry later",
            "details": {"retryAfter": 1},
            "headers": {"Retry-After": "1"},
        }
        assert (limit.held, limit.held_by("acme"), limit.held_by("globex")) == (3, 2, 0)
    assert (limit.held, limit._held_by_tenant) == (0, {})


# Bodies.

KEY = "k" * 250
DEEP = "[" * 65 + "]" * 65
BODIES = {
    "not UTF-8": (b'"a\xff"', "$", "byte 2 is not valid UTF-8; send UTF-8"),
    "half a character": (rb'["\ud800"]', None, "unpaired surrogate escape; send one JSON value"),
    "two values": (b"1 2", None, None),
    "nothing": (b"", None, None),
    "too large": (
        b'{"a": [9223372036854775808]}',
        "$.a[0]",
        "an integer must fit into 64 bits; send it as a string",
    ),
    "too small": (
        b"-9223372036854775809",
        "$",
        "an integer must fit into 64 bits; send it as a string",
    ),
    "too deep": (
        f'{{"a":{DEEP}}}'.encode(),
        "$.a" + "[0]" * 63,
        "nested too deeply; send a flatter value",
    ),
    "twice": (b'{"a": {"b": 1, "b": 2}}', "$", "duplicate key 'b'; send it once"),
    "twice, long": (
        f'{{"{KEY}": 1, "{KEY}": 2}}'.encode(),
        "$",
        f"duplicate key {KEY[:200]!r}; send it once",
    ),
    "a long way": (
        json.dumps({KEY: 2**63}).encode(),
        f"$.{KEY[:198]}…",
        "an integer must fit into 64 bits; send it as a string",
    ),
}


@pytest.mark.parametrize(("body", "path", "reason"), BODIES.values(), ids=BODIES)
def test_a_bad_body_is_told_with_its_place(
    body: bytes, path: str | None, reason: str | None
) -> None:
    told = refused(parse_body, body)
    place = told["details"]["path"]
    assert (told["status"], told["code"]) == (400, "validation_error")
    assert (list(told["details"]), told["headers"]) == (["path"], None)
    assert path in (None, place)
    assert told["message"].startswith(f"body, {place}: ")
    if reason is None:
        assert told["message"].endswith("; send one JSON value")
        assert "surrogate" not in told["message"]
    else:
        assert told["message"] == f"body, {place}: {reason}"


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_the_largest_and_the_least_whole_number_pass(number: int) -> None:
    assert parse_body(json.dumps([number]).encode()) == [number]


def test_a_path_of_200_characters_is_told_whole() -> None:
    for length in (198, 199):
        told = refused(parse_body, json.dumps({"k" * length: 2**63}).encode())
        assert told["details"]["path"] == f"$.{'k' * length}"[:200] + "…" * (length == 199)


def test_a_body_may_be_64_levels_deep() -> None:
    assert parse_body(b"[" * 64 + b"]" * 64)
    assert parse_body(b"[" * 3 + b"]" * 3, max_depth=3) == [[[]]]
    assert refused(parse_body, b"[" * 4 + b"]" * 4, max_depth=3)["details"] == {
        "path": "$[0][0][0]"
    }


def test_a_body_has_as_many_values_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.MOST_VALUES == 400_000
    monkeypatch.setattr(limits, "MOST_VALUES", 5)
    assert parse_body(b"[1, 2, 3]") == [1, 2, 3]
    told = refused(parse_body, json.dumps([1] * 50).encode())
    assert told["details"] == {"path": "$"}
    assert told["message"] == "body, $: " + str(limits.burden(json.dumps([1] * 50).encode(), 5))


@pytest.mark.parametrize(
    ("body", "has"),
    [
        (rb'"\ud800"', True),
        (rb'"\ud83d\ude00"', False),
        (b"{", False),
        (b"[" * 100_000, False),
        (b'"a"', False),
    ],
)
def test_half_a_character_is_found(body: bytes, *, has: bool) -> None:
    assert limits._has_surrogate(body) is has
