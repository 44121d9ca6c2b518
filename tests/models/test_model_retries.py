"""When a call is made again, and after how long."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.models.retries import (
    LONGEST_WAIT_S,
    TOTAL_S,
    RetryPolicy,
    is_worth_retrying,
    retry_after_s,
)

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def test_only_what_may_heal_is_tried_again() -> None:
    assert {s for s in range(200, 600) if is_worth_retrying(s)} == {
        408,
        409,
        429,
        *range(500, 600),
    }


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30"}, 30),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_s(headers, NOW) == seconds


@given(st.text(), st.text())
def test_no_header_breaks_the_reading(text: str, milliseconds: str) -> None:
    told = retry_after_s({"retry-after": text, "retry-after-ms": milliseconds}, NOW)
    assert told is None or told >= 0


@given(st.integers(1, 5), st.floats(0, 1, exclude_max=True), st.none() | st.floats(0, 200))
def test_a_wait_is_jittered_bounded_and_never_shorter_than_asked(
    retry: int, chance: float, asked: float | None
) -> None:
    retries = RetryPolicy(5, clock=lambda: 0.0, chance=lambda: chance)
    wait = retries.wait_before(retry, 0.0, asked)
    assert wait is not None
    assert (asked or 0) <= wait <= (asked or 0) + min(LONGEST_WAIT_S, 0.5 * 2 ** (retry - 1))


def test_it_ends_after_the_last_retry_or_when_the_time_is_over() -> None:
    at_end = RetryPolicy(5, clock=lambda: TOTAL_S, chance=lambda: 1.0)
    assert at_end.wait_before(1, 0.0, None) is None
    assert at_end.wait_before(1, TOTAL_S, None) == 0.5
    assert at_end.wait_before(6, TOTAL_S, None) is None
    assert RetryPolicy(0).wait_before(1, 0.0, None) is None
