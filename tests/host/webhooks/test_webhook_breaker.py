"""The breaker: four failures in a row, an hour of rest, one try."""

from hypothesis import given
from hypothesis import strategies as st

from evalwright.host.webhooks.delivery import FAILURES_TO_OPEN, OPEN_S, Breaker


def failed(times: int, at: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(times):
        breaker.note_failure(at)
    return breaker


def test_three_failures_in_a_row_are_borne():
    assert failed(3).allows(0.0)


def test_the_fourth_failure_in_a_row_opens_for_an_hour():
    breaker = failed(4)
    assert [breaker.allows(now) for now in (0.0, 3599.0, 3600.0)] == [False, False, True]


def test_a_success_between_failures_starts_the_count_anew():
    breaker = failed(3)
    breaker.note_success()
    for _ in range(3):
        breaker.note_failure(0.0)
    assert breaker.allows(0.0)


def test_a_failed_try_opens_for_another_hour():
    breaker = failed(4)
    breaker.note_failure(3600.0)
    assert not breaker.allows(7199.0)
    assert breaker.allows(7200.0)


def test_a_try_that_succeeds_closes():
    breaker = failed(4)
    breaker.note_success()
    assert breaker.is_untroubled
    assert breaker.allows(3600.0)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 2 * OPEN_S)), max_size=40))
def test_nothing_is_tried_within_an_hour_of_the_last_of_four_failures(steps):
    breaker, now, recent, failed_at = Breaker(), 0.0, [], 0.0
    for is_success, pause in steps:
        now += pause
        is_open = recent[-FAILURES_TO_OPEN:].count(False) == FAILURES_TO_OPEN
        assert breaker.allows(now) == (not is_open or now - failed_at >= OPEN_S)
        if not breaker.allows(now):
            continue
        recent.append(is_success)
        if is_success:
            breaker.note_success()
        else:
            failed_at = now
            breaker.note_failure(now)
