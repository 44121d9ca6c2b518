"""When a request is sent again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.client import HostError, Retries, Unreachable
from evalwright.client.retry_policy import Attempts

GONE = Unreachable("nobody there")


def refusal(status: int, code: str = "any", retry_after: float | None = None) -> HostError:
    return HostError(status, code, "words", None, retry_after)


def waits(failure: HostError | Unreachable, **options: object) -> list[float]:
    """The waits between attempts that all fail in the same way."""
    attempts = Attempts(Retries(chance=lambda: 1.0, **options))
    return list(iter(lambda: attempts.wait_after(failure), None))


def test_a_broken_connection_is_tried_again_at_once_then_ever_later():
    assert waits(GONE) == [0.0, 0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_host_that_is_busy_is_asked_again(status):
    assert waits(refusal(status), limit=3) == [0.25, 0.5, 1.0]


@pytest.mark.parametrize("status", [200, 301, 400, 401, 403, 404, 409, 413, 422, 500, 501])
def test_other_refusals_stand(status):
    assert waits(refusal(status)) == []


def test_the_answer_to_a_request_that_is_being_worked_on_is_waited_for():
    assert waits(refusal(409, "idempotency_in_flight", 1), limit=1) == [1.25]


def test_what_the_host_asks_for_is_waited_at_least():
    assert waits(refusal(429, retry_after=7), limit=2) == [7.25, 7.25]


def test_a_host_that_asks_for_too_long_is_not_waited_for():
    assert waits(refusal(429, retry_after=31)) == []


def test_a_certificate_that_is_not_trusted_will_not_be_trusted_later():
    assert waits(Unreachable("not trusted", may_pass=False)) == []


def test_success_makes_the_count_begin_anew():
    attempts = Attempts(Retries(limit=1, chance=lambda: 0.0))
    assert attempts.wait_after(GONE) is not None
    attempts.succeeded()
    assert attempts.wait_after(GONE) is not None
    assert attempts.wait_after(GONE) is None


@given(st.integers(0, 20), st.floats(0, 1), st.floats(0, 60), st.none() | st.integers(0, 100))
def test_waits_are_bounded_in_number_and_length(limit, chance, longest, asked):
    attempts = Attempts(Retries(limit=limit, longest_wait_s=longest, chance=lambda: chance))
    failure = refusal(503, retry_after=asked)
    found = list(iter(lambda: attempts.wait_after(failure), None))
    assert len(found) <= limit
    assert all(0 <= wait <= longest + 0.25 for wait in found)
    assert all(wait >= asked for wait in found if asked is not None)
