"""Visitors of the pages of a host."""

from collections.abc import Callable
from typing import Any

import pytest

from evalwright.host.web.pages import compare as compare_page
from evalwright.host.web.pages import run as run_page
from host.caller import Caller
from host.server import ServedHost
from host.web.visitor import Visitor, signed_in
from subjects.waiting import TIME_LIMIT_S

Comer = Callable[..., Visitor]


@pytest.fixture(autouse=True)
def pages_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes no longer than it should is on a page at once, however busy the machine."""
    monkeypatch.setattr(compare_page, "AT_MOST_S", TIME_LIMIT_S)
    monkeypatch.setattr(run_page, "READY_SECONDS", TIME_LIMIT_S)


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
