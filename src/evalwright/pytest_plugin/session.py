"""One session of pytest with evaluations: what works on tasks, what keeps the log, and the gate.

Where xdist spreads the tests, every worker has one of these and so has the process that reports;
only that one writes to the log. What a task recorded travels in the report on it.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import TestCase

import pytest

from evalwright.contracts.errors import BadInput, EvalwrightError
from evalwright.engine.clock import SystemClock
from evalwright.engine.session import ModelPool
from evalwright.pytest_plugin.asked import asked_of, spoken
from evalwright.pytest_plugin.controller import LEFT_TO_BAR, Controller
from evalwright.pytest_plugin.evaluate_fixture import EvaluateFixture, repeated
from evalwright.pytest_plugin.recorded_test import RecordedTest, repeats_of, task_ids
from evalwright.pytest_plugin.suite_work import Begun, Loop, SuiteWork
from evalwright.pytest_plugin.suites import SuiteFile, TaskItem

CARRIED = "evalwright"  # the attribute of a report with what was recorded
_RECORD = pytest.StashKey[RecordedTest]()
_CHOOSING = {"keyword": "-k", "markexpr": "-m"}
_CHOOSING_FLAGS = {"lf": "--lf", "stepwise": "--stepwise"}


class Evaluation:
    """The evaluations of a session, in one of its processes."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.asked = asked_of(config)
        if self.asked.options.record and getattr(config.option, "dist", "no") != "no":
            raise pytest.UsageError("--evalwright-record is for one process; leave out -n")
        sent = getattr(config, "workerinput", {}).get("evalwright")
        self.begun = Begun(*sent) if sent else Begun(SystemClock().now_us(), os.urandom(16).hex())
        self._loop: Loop | None = None
        self._work: dict[SuiteFile, SuiteWork | EvalwrightError] = {}
        self._chosen: dict[SuiteFile, list[Any]] = {}
        self._test_ids: dict[str, str] = {}
        self._left_out = 0  # evaluations in tests that were deselected
        self._controller = None if sent else Controller(self.asked, self.begun, config.rootpath)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of xdist which session it belongs to."""
        if self.asked.options.has_budget and self.begun.ledger is None:
            descriptor, path = tempfile.mkstemp(prefix="evalwright-", suffix=".jsonl")
            os.close(descriptor)
            self.begun = self.begun._replace(ledger=path)
        node.workerinput["evalwright"] = tuple(self.begun)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse marks that would change nothing."""
        for item in items:
            if _is_marked(item) and issubclass(getattr(item, "cls", None) or object, TestCase):
                message = "@pytest.mark.evalwright is for tests of pytest, not of unittest"
                raise pytest.UsageError(f"{item.nodeid}: {message}")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which tasks are left to be run."""
        for item in session.items:
            if isinstance(item, TaskItem):
                self._chosen.setdefault(item.suite_file, []).append(item.task)
        self._test_ids = task_ids(item.nodeid for item in session.items if _is_evaluation(item))

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Count the evaluations that are left out."""
        self._left_out += sum(map(_is_evaluation, items))

    def work(self, file: SuiteFile) -> SuiteWork:
        """The work on a suite; begun when its first task is."""
        known = self._work.get(file)
        if known is None:
            self._loop = self._loop or Loop()
            subject = file.selected(self._chosen[file], self._chosen_by())
            try:
                known = SuiteWork(self.asked, subject, file.shown_path, self.begun, self._loop)
            except EvalwrightError as error:
                known = error
            self._work[file] = known
        if isinstance(known, EvalwrightError):
            raise known
        return known

    def evaluate(self, item: pytest.Item) -> EvaluateFixture:
        """The fixture of a test."""
        return EvaluateFixture(self.asked, self._record(item))

    def _record(self, item: pytest.Item) -> RecordedTest:
        if _RECORD not in item.stash:
            task_id = self._test_ids.get(item.nodeid) or task_ids([item.nodeid])[item.nodeid]
            redactor = ModelPool(self.asked.config).redactor
            try:
                item.stash[_RECORD] = RecordedTest(item, task_id, redactor)
            except BadInput as error:  # of its mark
                pytest.fail(str(error), pytrace=False)
        return item.stash[_RECORD]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin anew where another plugin runs a test again."""
        if _RECORD in item.stash:
            del item.stash[_RECORD]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Any:
        """Run a test as often as its mark says."""
        __tracebackhide__ = True
        try:
            is_marked = repeats_of(pyfuncitem) is not None
        except BadInput as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        if not is_marked:
            return (yield)
        once = pyfuncitem.obj
        pyfuncitem.obj = repeated(once, self._record(pyfuncitem))
        try:
            return (yield)
        finally:
            pyfuncitem.obj = once

    def _chosen_by(self) -> list[str]:
        """What chose among the tasks, as far as pytest tells."""
        option = self.config.option
        named = [argument for argument in self.config.args if "::" in argument]
        said = {name: getattr(option, name, None) for name in (*_CHOOSING, *_CHOOSING_FLAGS)}
        words = [f"{flag} {said[name]}" for name, flag in _CHOOSING.items() if said[name]]
        flags = [flag for name, flag in _CHOOSING_FLAGS.items() if said[name]]
        return [f"pytest {each}" for each in (*words, *flags, *named)] or ["pytest"]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: "pytest.CallInfo[None]") -> Any:
        """Have the report carry what was recorded."""
        report = yield
        if call.when == "call" and (bundle := self._bundle(item)) is not None:
            setattr(report, CARRIED, bundle)
            is_scored = isinstance(item, TaskItem) and bundle["failure"] is None
            if self.asked.gate and is_scored and report.failed:
                report.outcome = "skipped"
                report.wasxfail = LEFT_TO_BAR
        return report

    def _bundle(self, item: pytest.Item) -> dict[str, Any] | None:
        if isinstance(item, TaskItem):
            return item.bundle
        bundle = item.stash[_RECORD].bundle() if _RECORD in item.stash else None
        if bundle is not None:
            bundle |= {"left_out": self._left_out, "left_out_by": self._chosen_by()}
        return bundle

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add it to the log, in the process that has that."""
        if self._controller is None:
            return  # it is sent on
        bundle = report.__dict__.pop(CARRIED, None)
        if bundle is not None:
            try:
                is_left = getattr(report, "wasxfail", None) == LEFT_TO_BAR
                self._controller.add(bundle, report if is_left else None)
            except EvalwrightError as error:
                pytest.exit(f"evalwright: {spoken(error)}", returncode=error.exit_code)

    @pytest.hookimpl(tryfirst=True)  # others write then what they were told of tests
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """End what was started; then the gate says what the runs come to."""
        for work in self._work.values():
            if isinstance(work, SuiteWork):
                work.close()
                if self._controller is not None:
                    self._controller.add(work.rest())
        if self._loop is not None:
            self._loop.close()
        if self._controller is not None:
            self._controller.end(session)
            if self.begun.ledger is not None:
                Path(self.begun.ledger).unlink(missing_ok=True)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show it."""
        if self._controller is not None:
            self._controller.show(terminalreporter)


def _is_evaluation(item: pytest.Item) -> bool:
    return _is_marked(item) or "evaluate" in getattr(item, "fixturenames", ())


def _is_marked(item: pytest.Item) -> bool:
    is_marked = item.get_closest_marker("evalwright") is not None
    return is_marked and isinstance(item, pytest.Function)
