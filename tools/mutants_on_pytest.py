"""A pytest plugin for `make mutants`: writes down which tests pass, and how long each takes."""

import json
import os
from pathlib import Path

import pytest

_seconds: dict[str, float] = {}
_failed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up setup, call and teardown of a test."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.outcome != "passed":
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Keep those that pass, where that is asked for."""
    if file := os.environ.get("MUTANTS_TIMES"):
        passed = {test: took for test, took in _seconds.items() if test not in _failed}
        Path(file).write_text(json.dumps(passed))
