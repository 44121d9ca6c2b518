"""Both clients, and hosts for them."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from client.blocking import Blocking
from evalwright.client import Client, Retries
from host.conftest import gate, lasting, process, served
from host.server import ServedHost

__all__ = ["client", "connect", "gate", "lasting", "process", "served"]

_numbers = itertools.count(1)

Connect = Callable[..., Any]


@pytest.fixture(params=["Client", "AsyncClient"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients of one kind, which need not be patient."""
    kind = {"Client": Client, "AsyncClient": Blocking}[request.param]
    with ExitStack() as opened:

        def make(url: str, key: str | None = None, **options: Any) -> Any:
            options.setdefault("retries", Retries(limit=3, chance=lambda: 0.0))
            return opened.enter_context(kind(url, key, **options))

        yield make


@pytest.fixture
def client(lasting: ServedHost, connect: Connect) -> Any:
    """A client of the lasting host, of a tenant that has nothing yet."""
    return connect(lasting.url, lasting.key(f"tenant-{next(_numbers)}"))
