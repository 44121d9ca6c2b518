"""A project in a folder of its own, and pytest in this process."""

import pytest
from _pytest.pytester import SysModulesSnapshot

from subjects.pytest_bench import Bench

OF_THE_PROJECT = ("agent", "conftest", "test_shop", "test_unit")


@pytest.fixture
def kept_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules stay, but for those of the project; of plugins, only ours and xdist are loaded."""

    def snapshot(_self: pytest.Pytester) -> SysModulesSnapshot:
        return SysModulesSnapshot(lambda name: name not in OF_THE_PROJECT)

    monkeypatch.setattr(pytest.Pytester, "_Pytester__take_sys_modules_snapshot", snapshot)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def bench(kept_modules: None, pytester: pytest.Pytester) -> Bench:
    return Bench(pytester)
