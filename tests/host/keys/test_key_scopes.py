"""Scopes: what can be asked for, what wildcards stand for, what a plain key may do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.errors import BadInput
from evalwright.host.access.keys import DEFAULT_SCOPES, SCOPES, expand_scopes

FAMILIES = sorted({scope.partition(":")[0] for scope in SCOPES})

scopes = st.sampled_from(sorted(SCOPES))
wildcards = st.sampled_from([f"{family}:*" for family in FAMILIES])


def test_a_wildcard_stands_for_all_scopes_of_its_kind() -> None:
    assert expand_scopes(["deploy:*"]) == {"deploy:promote", "deploy:rollback", "deploy:pause"}


@given(st.sets(scopes))
def test_scopes_that_are_named_are_given_and_no_others(asked: set[str]) -> None:
    assert expand_scopes(asked) == asked


@given(st.sets(scopes | wildcards))
def test_what_is_given_is_of_a_kind_that_was_asked_for(asked: set[str]) -> None:
    given_scopes = expand_scopes(asked)
    assert given_scopes <= SCOPES.keys()
    assert {scope for scope in asked if not scope.endswith("*")} <= given_scopes
    kinds = {scope.partition(":")[0] for scope in asked}
    assert {scope.partition(":")[0] for scope in given_scopes} == kinds


@given(st.text(max_size=20).filter(lambda text: text not in SCOPES))
def test_a_scope_that_does_not_exist_is_refused(text: str) -> None:
    if text in {f"{family}:*" for family in FAMILIES}:
        return
    with pytest.raises(BadInput, match="runs:create"):
        expand_scopes(["runs:read", text])


@pytest.mark.parametrize(
    "text", ["*", "runs", "runs:", ":*", "*:read", "run:*", "runs:re*", "RUNS:READ"]
)
def test_nothing_near_a_scope_is_taken_for_one(text: str) -> None:
    with pytest.raises(BadInput, match="no such scope"):
        expand_scopes([text])


def test_a_plain_key_may_do_all_with_runs_suites_and_agents() -> None:
    assert expand_scopes(["runs:*", "suites:*", "agents:*"]) <= DEFAULT_SCOPES


@pytest.mark.parametrize("kind", ["deploy", "webhooks", "approvals", "audit", "packs", "workspace"])
def test_a_plain_key_may_do_nothing_with(kind: str) -> None:
    assert not expand_scopes([f"{kind}:*"]) & DEFAULT_SCOPES
