"""Long answers that many clients ask for and do not read."""

from contextlib import ExitStack, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_suite, a_task
from evalwright.host.errors import ApiError
from evalwright.host.response_budget import MIB, ResponseBudget
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
    served.host.response_budget = ResponseBudget(most_per_tenant=2 * LENGTH)
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
    served.host.response_budget = ResponseBudget(most_per_tenant=LENGTH + MIB)
    with served.host.response_budget.hold("acme", LENGTH):
        begun = long_suite.frames(run_id)
    rest = long_suite.frames(run_id, last=begun[-1].id if begun else -1)
    assert len(begun) < len(whole)
    assert begun + rest == whole


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), max_size=30))
def test_no_more_is_unread_than_the_bounds_allow(answers: list[tuple[str, int]]) -> None:
    response_budget = ResponseBudget(most=12, most_per_tenant=8)
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
    response_budget = ResponseBudget(most=1, most_per_tenant=1)
    with response_budget.hold("acme", 100):
        assert response_budget.held == 100
