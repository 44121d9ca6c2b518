"""A real Ray cluster of this machine alone."""

import importlib.util
from pathlib import Path

import pytest

WHY = "ray is not installed; `make test-ray` installs it and runs this"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip all of this folder where there is no Ray."""
    if importlib.util.find_spec("ray"):
        return
    for item in items:
        if Path(item.path).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.skip(reason=WHY))
