"""How `make soak` spends its minutes: on every fault once, then on further seeds of them."""

import os
import time

import pytest

from faults.soaking import IS_SOAK

_UNTIL = "SOAK_UNTIL"  # set once, where the processes of pytest inherit it


def pytest_configure() -> None:
    if IS_SOAK:
        minutes = float(os.environ.get("SOAK_MINUTES", "10"))
        os.environ.setdefault(_UNTIL, str(time.time() + 60 * minutes))


def _seed(item: pytest.Item) -> int:
    seed: int = item.callspec.params.get("seed", 0) if hasattr(item, "callspec") else 0
    return seed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if IS_SOAK:
        items.sort(key=_seed)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if IS_SOAK and _seed(item) > 0 and time.time() > float(os.environ[_UNTIL]):
        pytest.skip("the minutes of `make soak` are over")
