"""How `make soak` spends its minutes: on every kind of fault once, then on further seeds of them.

A kind is a test with its parameters, without the seed that its random choices are made from.
"""

import os
import time
from collections import Counter

import pytest

from faults.soaking import IS_SOAK

_UNTIL = "SOAK_UNTIL"  # set once, where the processes of pytest inherit it
_LONGEST_SEED_SECONDS = 30.0


def pytest_configure(config: pytest.Config) -> None:
    if IS_SOAK:
        minutes = float(os.environ.get("SOAK_MINUTES", "10"))
        os.environ.setdefault(_UNTIL, str(time.time() + 60 * minutes))
        config.pluginmanager.register(Soak())  # hooks of this file are for the tests beside it


def _seed(item: pytest.Item) -> int:
    seed: int = item.callspec.params.get("seed", 0) if hasattr(item, "callspec") else 0
    return seed


class Soak:
    """The order of the tests, their end, and what is said of them."""

    def __init__(self) -> None:
        self._kinds, self._reached, self._more = Counter[str](), Counter[str](), Counter[str]()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=_seed)
        for item in items:
            item.user_properties.append(("seed", _seed(item)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        left = float(os.environ[_UNTIL]) - time.time()
        if _seed(item) and left < _LONGEST_SEED_SECONDS:
            pytest.skip("the minutes of `make soak` are over")
        if left < 0:
            pytest.fail("not reached within the minutes of `make soak`", pytrace=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file, is_kind = report.nodeid.partition("::")[0], dict(report.user_properties)["seed"] == 0
        if report.when == "setup" and is_kind:
            self._kinds[file] += 1
        if report.when == "call" and not report.skipped:
            (self._reached if is_kind else self._more)[file] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("what was soaked")
        line = "{1:4} of {2:4} kinds of faults, {3:4} further seeds  {0}".format
        for file, kinds in sorted(self._kinds.items()):
            terminalreporter.line(line(file, self._reached[file], kinds, self._more[file]))
        sums = (each.total() for each in (self._reached, self._kinds, self._more))
        terminalreporter.line(line("in all", *sums))
