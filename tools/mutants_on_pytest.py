"""A pytest plugin for `make mutants`: notes which tests start, how they end and what they cost."""

import json
import os
import sys

import pytest
from hypothesis import HealthCheck, settings

_failed: set[str] = set()
_seconds: dict[str, float] = {}
_started: dict[str, float] = {}


def _note(*parts: object) -> None:
    os.write(int(os.environ["MUTANTS_NOTES"]), json.dumps(parts).encode() + b"\n")


def _cpu() -> float:
    return sum(os.times()[:4])


def pytest_configure() -> None:
    """A busy machine is no failure: nothing that is slow is one."""
    settings.register_profile("mutants", deadline=None, suppress_health_check=list(HealthCheck))
    settings.load_profile("mutants")


def pytest_runtest_logstart(nodeid: str) -> None:
    """Say what runs now."""
    _started[nodeid] = _cpu()
    _note("started", nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up setup, call and teardown of a test."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.outcome != "passed":
        _failed.add(report.nodeid)


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Say how it ended, and what it took by the clock and of the processor."""
    outcome = "failed" if nodeid in _failed else "passed"
    _note(outcome, nodeid, _seconds.get(nodeid, 0.0), _cpu() - _started[nodeid])


def pytest_sessionfinish() -> None:
    """Say what was imported, so that the next session need not."""
    _note("imported", sorted(sys.modules))
