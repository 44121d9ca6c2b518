"""Visitors of the pages of a host."""

from collections.abc import Callable
from typing import Any

import pytest

from host.caller import Caller
from host.server import ServedHost
from host.web.visitor import Visitor, signed_in

Comer = Callable[..., Visitor]


@pytest.fixture
def visitor(lasting: ServedHost, newcomer: Caller) -> Visitor:
    """Somebody of a tenant that has nothing yet, who may do everything; see `newcomer`."""
    assert newcomer.key is not None
    return signed_in(lasting.url, newcomer.key)


@pytest.fixture
def with_scopes(lasting: ServedHost) -> Callable[..., Visitor]:
    """Visitors of a tenant whose keys have some scopes only."""

    def visit(tenant: str, *scopes: str, **fields: Any) -> Visitor:
        return signed_in(lasting.url, lasting.key(tenant, scopes=list(scopes), **fields))

    return visit
