"""Principals: whose partition of the log a key works in, and what it may do."""

import itertools

import pytest

from evalwright.host.access.keys import Principal, tenant_of
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import ApiOperation, Route


def principal(tenant: str = "acme", workspace: str | None = None, **more: bool) -> Principal:
    return Principal(
        "k", tenant, workspace, frozenset({"runs:read", "runs:create"}), "key:k", **more
    )


EVERYONE = [
    principal(tenant, workspace, is_test=is_test)
    for tenant, workspace, is_test in itertools.product(
        ("acme", "acme-lab"), (None, "lab", "test"), (False, True)
    )
]


def test_workspaces_and_test_keys_have_partitions_of_their_own():
    assert len({each.partition for each in EVERYONE}) == len(EVERYONE)
    assert [principal().partition, principal(workspace="lab").partition] == ["acme", "acme/lab"]
    assert principal(workspace="lab", is_test=True).partition == "acme/lab~test"


@pytest.mark.parametrize("each", EVERYONE, ids=lambda each: each.partition)
def test_a_partition_belongs_to_its_tenant(each: Principal):
    assert tenant_of(each.partition) == each.tenant


def route(*scopes: str, **more: bool) -> Route:
    operation = ApiOperation(id="x", summary="x", tag="x")
    return Route("GET", "/v1/x", lambda _: None, operation, scopes, **more)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    "allowed",
    [
        route("runs:read"),
        route("suites:read", "runs:create"),
        route("runs:read", "runs:create", all_scopes=True),
    ],
    ids=lambda each: " ".join(each.scopes),
)
def test_a_key_with_the_scopes_of_a_route_is_let_in(allowed: Route):
    allowed.check_scopes(principal())


@pytest.mark.parametrize(
    ("refused", "needed"),
    [
        (route("runs:cancel"), "runs:cancel"),
        (route("runs:cancel", "suites:read"), "runs:cancel or suites:read"),
        (route("runs:read", "suites:read", all_scopes=True), "runs:read and suites:read"),
    ],
    ids=["one", "any", "all"],
)
def test_a_key_without_the_scopes_of_a_route_is_refused(refused: Route, needed: str):
    with pytest.raises(ApiError) as caught:
        refused.check_scopes(principal())
    error = caught.value
    assert (error.status, error.code) == (403, "forbidden")
    assert error.details == {"scopeRequired": needed}
    assert error.message == f"the key lacks the scope {needed}"


def test_a_route_without_scopes_has_to_be_declared_open():
    with pytest.raises(AssertionError, match="must be declared open"):
        route()
    assert route(is_open=True).is_open
