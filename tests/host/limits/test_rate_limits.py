"""Rates: what a bucket lets in over any time, and what a refused client is told."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.host.access.limits import Buckets, Rate, RateLimits
from evalwright.host.http.errors import ApiError

SECOND = 1_000_000_000
PLENTY = Rate(1_000_000, 1_000_000)

rates = st.builds(Rate, st.floats(0.01, 10_000), st.integers(1, 50))
pauses = st.lists(st.integers(0, 3 * SECOND), min_size=1, max_size=60)


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.ns = 7 * SECOND

    def __call__(self) -> int:
        return self.ns


def limits(time: Time, key: Rate = PLENTY, tenant: Rate = PLENTY, address: Rate = PLENTY):
    return RateLimits(key, tenant, address, clock_ns=time)


def refusal(limits: RateLimits, key_id: str = "k", tenant: str = "t") -> ApiError | None:
    try:
        limits.count(key_id, tenant)
    except ApiError as error:
        return error
    return None


def is_let_in(limits: RateLimits, key_id: str = "k", tenant: str = "t") -> bool:
    return refusal(limits, key_id, tenant) is None


def test_a_rested_key_may_send_a_burst_and_then_at_its_rate() -> None:
    time = Time()
    limited = limits(time, key=Rate(2, 3))
    assert [is_let_in(limited) for _ in range(4)] == [True, True, True, False]
    time.ns += SECOND // 2
    assert [is_let_in(limited) for _ in range(2)] == [True, False]


@given(rates, pauses)
def test_no_more_is_let_in_than_the_burst_and_the_rate_allow(rate: Rate, waits: list[int]) -> None:
    time = Time()
    limited = limits(time, key=rate)
    start, admitted = time.ns, 0
    for wait in waits:
        time.ns += wait
        admitted += is_let_in(limited)
        seconds = (time.ns - start) / SECOND
        assert admitted <= rate.burst + seconds * rate.per_second * 1.0001 + 0.0001


@given(rates, pauses)
def test_who_keeps_to_the_rate_is_never_refused(rate: Rate, waits: list[int]) -> None:
    time = Time()
    limited = limits(time, key=rate)
    for wait in waits:
        time.ns += math.ceil(SECOND / rate.per_second) + wait
        assert is_let_in(limited)


@given(key=rates, tenant=rates, waits=pauses)
def test_who_waits_as_long_as_told_is_let_in(key: Rate, tenant: Rate, waits: list[int]) -> None:
    time = Time()
    limited = limits(time, key=key, tenant=tenant)
    for wait in waits:
        time.ns += wait
        error = refusal(limited)
        if error is not None:
            assert error.details is not None
            time.ns += error.details["retryAfterMs"] * 1_000_000
            assert is_let_in(limited)


@given(key=rates, tenant=rates)
def test_a_refusal_says_how_long_to_wait_and_for_what(key: Rate, tenant: Rate) -> None:
    limited = limits(Time(), key=key, tenant=tenant)
    error = None
    while error is None:
        error = refusal(limited)
    assert (error.status, error.code) == (429, "rate_limited")
    assert error.details is not None
    assert error.headers is not None
    assert error.details["scope"] in {"key", "tenant"}
    assert (
        error.details["limit"] == {"key": key, "tenant": tenant}[error.details["scope"]].per_second
    )
    retry_after = error.headers["Retry-After"]
    assert retry_after.isdecimal()
    assert int(retry_after) >= 1
    assert (int(retry_after) - 1) * 1000 < error.details["retryAfterMs"] <= int(retry_after) * 1000


def test_the_keys_of_a_tenant_share_what_the_tenant_may_send() -> None:
    limited = limits(Time(), key=Rate(1, 2), tenant=Rate(1, 3))
    sent = [refusal(limited, key) for key in ("a", "a", "a", "b", "b")]
    scopes = [error.details["scope"] if error and error.details else None for error in sent]
    assert scopes == [None, None, "key", None, "tenant"]


def test_one_tenant_takes_nothing_from_another() -> None:
    limited = limits(Time(), tenant=Rate(1, 1))
    assert is_let_in(limited, "a", "acme")
    assert not is_let_in(limited, "a", "acme")
    assert is_let_in(limited, "g", "globex")


def test_what_a_key_is_refused_does_not_count_for_its_tenant() -> None:
    limited = limits(Time(), key=Rate(1, 1), tenant=Rate(1, 2))
    assert [is_let_in(limited, "greedy") for _ in range(10)] == [True] + [False] * 9
    assert is_let_in(limited, "modest")


def test_what_a_tenant_is_refused_does_not_count_for_the_key() -> None:
    time = Time()
    limited = limits(time, key=Rate(0.001, 2), tenant=Rate(1, 1))
    assert [is_let_in(limited) for _ in range(5)] == [True] + [False] * 4
    time.ns += SECOND
    assert is_let_in(limited)


# Clients without a key.


def lets_address_in(limits: RateLimits, address: str) -> bool:
    try:
        limits.count_address(address)
    except ApiError:
        return False
    return True


def test_a_client_without_a_key_is_told_how_long_to_wait() -> None:
    limited = limits(Time(), address=Rate(0.5, 1))
    limited.count_address("192.0.2.1")
    with pytest.raises(ApiError) as caught:
        limited.count_address("192.0.2.1")
    assert (caught.value.status, caught.value.code) == (429, "rate_limited")
    assert caught.value.headers == {"Retry-After": "2"}
    assert caught.value.details == {"retryAfterMs": 2000, "scope": "global", "limit": 0.5}


def test_a_client_without_a_key_is_limited_by_its_address() -> None:
    time = Time()
    limited = limits(time, address=Rate(1, 2))
    assert [lets_address_in(limited, "192.0.2.1") for _ in range(3)] == [True, True, False]
    assert lets_address_in(limited, "192.0.2.2")
    time.ns += SECOND
    assert lets_address_in(limited, "192.0.2.1")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:0:ffff::", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "", True),
        ("not:an:address", "not:another", False),
    ],
)
def test_a_network_of_ipv6_is_one_client(one: str, other: str, *, is_same: bool) -> None:
    limited = limits(Time(), address=Rate(1, 1))
    assert lets_address_in(limited, one)
    assert lets_address_in(limited, other) is not is_same


def test_requests_without_a_key_take_nothing_from_keys() -> None:
    limited = limits(Time(), address=Rate(1, 1))
    lets_address_in(limited, "k")
    assert not lets_address_in(limited, "k")
    assert is_let_in(limited, "k", "k")


# Memory.


def test_buckets_that_are_full_again_are_forgotten() -> None:
    buckets = Buckets(Rate(10, 5))
    for number in range(20_000):  # ten a second, each of them new: few are ever not full
        buckets.count(f"client {number}", number * SECOND // 10)
    assert len(buckets) <= 2_000


@given(most=st.integers(2, 40), names=st.lists(st.integers(0, 100), max_size=300))
def test_however_many_come_at_once_no_more_are_kept_than_there_is_room(
    most: int, names: list[int]
) -> None:
    buckets = Buckets(Rate(1, 1000), most=most)
    for name in names:
        buckets.count(str(name), 0)
        assert len(buckets) <= most


def test_who_came_last_is_remembered_when_room_runs_out() -> None:
    buckets = Buckets(Rate(1, 1), most=10)
    for number in range(50):
        buckets.count(str(number), 0)
        for recent in range(max(0, number - 4), number + 1):
            assert buckets.wait_ns(str(recent), 0) > 0


@given(rates, st.integers(1, SECOND))
def test_a_bucket_is_remembered_until_it_is_full_however_many_others_come(
    rate: Rate, pause: int
) -> None:
    alone, crowded = Buckets(rate), Buckets(rate)
    alone.count("k", 0)
    crowded.count("k", 0)
    for number in range(1_500):
        crowded.count(str(number), pause)
    while alone.wait_ns("k", pause) == 0:
        assert crowded.wait_ns("k", pause) == 0
        alone.count("k", pause)
        crowded.count("k", pause)
    assert crowded.wait_ns("k", pause) == alone.wait_ns("k", pause)
