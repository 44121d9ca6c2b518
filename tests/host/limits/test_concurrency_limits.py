"""Limits on what happens at once, in total and per tenant, and that every count goes down again."""

from contextlib import ExitStack

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from evalwright.host.access.limits import ConcurrencyLimit
from evalwright.host.http.errors import ApiError


def test_a_full_host_says_when_to_come_again() -> None:
    limit = ConcurrencyLimit("requests", most=1, most_per_tenant=1)
    with limit.hold(), pytest.raises(ApiError) as caught, limit.hold():
        pass
    error = caught.value
    assert (error.status, error.code) == (503, "service_unavailable")
    assert error.headers is not None
    assert error.details is not None
    assert error.headers["Retry-After"] == str(error.details["retryAfter"])
    assert int(error.headers["Retry-After"]) >= 1


def test_a_tenant_with_all_its_places_taken_is_refused_and_no_other_is() -> None:
    limit = ConcurrencyLimit("streams", most=10, most_per_tenant=1)
    with limit.hold_for("acme"):
        with limit.hold_for("globex"), pytest.raises(ApiError) as caught, limit.hold_for("acme"):
            pass
        error = caught.value
    assert (error.status, error.code) == (429, "rate_limited")
    assert error.headers == {"Retry-After": "1"}
    assert error.details == {"retryAfterMs": 1000, "scope": "tenant", "limit": 1}
    assert "streams" in error.message


def test_a_place_comes_back_when_its_holder_fails() -> None:
    limit = ConcurrencyLimit("requests", most=1, most_per_tenant=1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), limit.hold(), limit.hold_for("acme"):
            raise ZeroDivisionError
    assert (limit.held, limit.held_by("acme")) == (0, 0)


def test_a_refused_tenant_gives_back_the_place_among_all() -> None:
    limit = ConcurrencyLimit("streams", most=2, most_per_tenant=1)
    with limit.hold(), limit.hold_for("acme"):
        with pytest.raises(ApiError), limit.hold(), limit.hold_for("acme"):
            pass
        assert limit.held == 1


class ComingAndGoing(RuleBasedStateMachine):
    """Holders come and go in any order; the counts always agree with a plain count of them."""

    MOST, MOST_PER_TENANT = 5, 3

    def __init__(self) -> None:
        super().__init__()
        self.limit = ConcurrencyLimit("requests", self.MOST, self.MOST_PER_TENANT)
        self.inside: list[tuple[str, ExitStack]] = []

    def count(self, tenant: str) -> int:
        return sum(holder == tenant for holder, _ in self.inside)

    @rule(tenant=st.sampled_from(["acme", "globex", "initech"]))
    def come(self, tenant: str) -> None:
        is_room = len(self.inside) < self.MOST and self.count(tenant) < self.MOST_PER_TENANT
        with ExitStack() as held:
            try:
                held.enter_context(self.limit.hold())
                held.enter_context(self.limit.hold_for(tenant))
            except ApiError:
                assert not is_room
            else:
                assert is_room
                self.inside.append((tenant, held.pop_all()))

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        _, held = self.inside.pop(data.draw(st.integers(0, len(self.inside) - 1)))
        held.close()

    @invariant()
    def counts_agree(self) -> None:
        assert self.limit.held == len(self.inside)
        for tenant in ("acme", "globex", "initech"):
            assert self.limit.held_by(tenant) == self.count(tenant)


TestComingAndGoing = ComingAndGoing.TestCase
