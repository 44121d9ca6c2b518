"""Shares, money and time as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.amounts import dollars, percent, share_interval, span


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [(4, 7, "57.1%"), (1, 1, "100.0%"), (0, 3, "0.0%"), (0, 0, "\N{EN DASH}")],
)
def test_a_share_has_one_decimal(part, whole, shown):
    assert percent(part, whole) == shown


@given(st.integers(1, 10**7).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_is_all_or_none_only_if_it_is(counts):
    part, whole = counts
    assert (percent(part, whole) == "100.0%") == (part == whole)
    assert (percent(part, whole) == "0.0%") == (part == 0)


def test_an_interval_has_whole_percents():
    assert share_interval(0.5101, 1.0) == "51\N{EN DASH}100%"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "$0.00"),
        (0.002, "$0.002"),
        (0.0028, "$0.0028"),
        (0.001234567, "$0.001235"),
        (0.5, "$0.50"),
        (0.1234, "$0.1234"),
        (1234.5, "$1,234.50"),
        (-0.25, "\N{MINUS SIGN}$0.25"),
        (4e-7, "<$0.000001"),
    ],
)
def test_small_prices_keep_their_digits_and_no_price_has_idle_zeros(value, shown):
    assert dollars(value) == shown


@given(st.floats(1e-12, 1e9))
def test_no_price_is_shown_as_nothing(value):
    assert dollars(value).strip("<$0.,")


def test_time_has_a_unit_that_fits():
    assert [span(ms) for ms in (312, 8400, 12_345, 61_000, 3_600_000)] == [
        "312 ms",
        "8.4 s",
        "12.3 s",
        "1 min 1 s",
        "1 h 0 min",
    ]
