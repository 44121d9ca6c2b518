"""The core of the host's behaviour, tried again with its log in PostgreSQL."""

# ruff: noqa: F401 - tests and their fixtures, which pytest finds here as well

import itertools
from collections.abc import Iterator

import pytest

from host.caller import Caller
from host.core.test_create_run import (
    shop,
    test_a_baseline_of_the_same_suite_is_compared_with,
    test_a_created_run_says_where_it_can_be_read,
    test_a_refusal_names_the_place_and_every_problem,
    test_the_owner_comes_from_the_key,
)
from host.core.test_event_stream import (
    test_a_client_goes_on_strictly_after_its_last_event,
    test_clients_that_come_while_events_come_miss_none_and_see_none_twice,
    test_debug_shows_everything_that_the_log_has,
    test_who_asks_for_json_gets_a_page,
)
from host.core.test_idempotency import (
    test_a_key_means_nothing_to_other_tenants,
    test_a_request_that_is_sent_again_is_answered_again_and_done_once,
    test_another_request_with_the_same_key_is_a_mismatch_and_names_no_run,
    test_duplicates_that_come_at_the_same_time_make_one_run,
)
from host.core.test_run_lifecycle import (
    running,
    test_a_paused_run_can_be_cancelled,
    test_a_run_that_has_ended_cannot_be_cancelled_paused_or_resumed,
    test_a_run_that_is_cancelled_ends_at_once,
    test_a_run_that_many_resume_at_once_is_resumed_once,
    test_cancelling_many_gives_a_result_for_each_in_order,
    test_nothing_is_recorded_after_the_end_of_a_cancelled_run,
)
from host.server import ServedHost, running_host
from postgres_server import PostgresServer
from subjects.waiting import Journal

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def lasting(postgres: PostgresServer) -> Iterator[ServedHost]:
    """A host for all tests of this module, each of which takes a tenant of its own."""
    address = postgres.new_database()
    with running_host(address) as served:
        yield served
    postgres.drop_database(address)


@pytest.fixture
def caller(lasting: ServedHost, gate: Journal) -> Caller:
    return lasting.caller(f"caller-{next(_numbers)}")


def test_a_tenant_sees_nothing_of_another(lasting: ServedHost, newcomer: Caller):
    run_id = newcomer.evaluate()
    stranger = lasting.caller("stranger")
    assert stranger.run_ids() == []
    for path in ("", "/events", "/eval-summary", "/annotations", "/debug-bundle"):
        assert stranger.get(f"/v1/runs/{run_id}{path}").refusal == (404, "not_found")
    assert stranger.post(f"/v1/runs/{run_id}/cancel").refusal == (404, "not_found")
