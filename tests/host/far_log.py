"""A log that counts as one on another machine: whoever waits for it on an event loop is noted."""

import asyncio
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from evalwright.store.sqlite import claims
from evalwright.store.sqlite import log as sqlite
from evalwright.store.sqlite.log import Database


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _callers() -> list[str]:
    """Where the host asked; nothing if a test did, which may wait."""
    found = [each for each in traceback.extract_stack() if "/evalwright/host/" in each.filename]
    return [f"{Path(each.filename).name}:{each.lineno} {each.name}" for each in found[-1:]]


@contextmanager
def far_log() -> Iterator[list[str]]:
    """Every log that is opened meanwhile is far; gives the places that waited for it on a loop."""
    waits: list[str] = []

    def noting(work: Any) -> Any:
        def noted(*arguments: Any, **named: Any) -> Any:
            if _has_loop():
                waits.extend(_callers())
            return work(*arguments, **named)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "is_local", False)
        patch.setattr(Database, "query", noting(Database.query))
        patch.setattr(sqlite.claims, "claim", noting(claims.claim))
        patch.setattr(sqlite.claims, "is_claimed", noting(claims.is_claimed))
        yield waits
