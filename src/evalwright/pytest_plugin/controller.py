"""The process with the log: it assembles the runs, and speaks for all of them at the end."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from _pytest.junitxml import LogXML, mangle_test_address, xml_key

from evalwright.cli.results import (
    failed_run,
    render_card,
    reported,
    write_folder,
    write_forms,
)
from evalwright.contracts.errors import EvalwrightError
from evalwright.engine.session import reasons_against, verdict_of, verdict_on
from evalwright.engine.single_task import AssembledRun
from evalwright.engine.verdict import Outcome
from evalwright.pytest_plugin.asked import SessionOptions, spoken
from evalwright.pytest_plugin.suite_work import Begun, events_of
from evalwright.pytest_plugin.tests_run import TestsRun
from evalwright.reports.formats.console import SHAPES, Style
from evalwright.reports.run.junit import Reported
from evalwright.reports.run.reported import ShownRun, shown_run
from evalwright.reports.run.scorecard import render_verdict
from evalwright.store.location import opened_log
from evalwright.store.protocol import EventLog

LEFT_TO_BAR = "the bar of the suite decides"
_NO_GATES = "  gates: none"
_NO_GATE = "  its failed tasks are failed tests; with --evalwright-gate the bar decides"


class GatheredSuite:
    """The runs of one suite: one, or its repeats."""

    def __init__(self, name: str, runs: list[AssembledRun]) -> None:
        self.name = name
        self.runs = runs
        self.outcomes: list[Outcome] = []
        self.left_to_bar: list[pytest.TestReport] = []  # on tasks that failed, if it is met

    def add(self, bundle: dict[str, Any]) -> None:
        """Add what a task recorded."""
        for run, rows in zip(self.runs, bundle["runs"], strict=True):
            if bundle["task"] is None:
                run.add_cut_off(events_of(rows))
            else:
                run.add_task(bundle["task"], events_of(rows))
            if bundle["failure"] is not None:
                code, message = bundle["failure"]
                run.fail(code, message)

    def end(self, reason: str, *, is_cut_off: bool = False) -> None:
        """End the runs."""
        ended = [run.end(reason, is_cut_off=is_cut_off) for run in self.runs]
        self.outcomes = [outcome for outcome in ended if outcome is not None]

    @property
    def is_complete(self) -> bool:
        """Whether every run has its result."""
        return len(self.outcomes) == len(self.runs)

    def reasons(self) -> list[str]:
        """Why the suite must not ship."""
        if self.is_complete:
            return reasons_against(self.outcomes)
        failures = [run.failure for run in self.runs if run.failure]
        history = self.runs[0].history
        count, done = len(history.plan.suite.tasks), len(history.scored)
        return failures[:1] or [f"only {done} of {count} tasks have a score"]


class Controller:
    """All runs of a session, and the tests that failed for other reasons."""

    def __init__(self, asked: SessionOptions, begun: Begun, root: Path) -> None:
        self._asked = asked
        self._begun = begun
        self._tests = TestsRun(root)
        self._open = ExitStack()
        self._log: EventLog | None = None
        self._suites: dict[str, GatheredSuite] = {}
        self._notices: list[str] = []
        self._lines: list[str] = []

    def add(self, bundle: dict[str, Any], left_to_bar: pytest.TestReport | None = None) -> None:
        """Take what the report on a task carries; the report itself where the bar decides on it."""
        if self._log is None:
            self._log = self._open.enter_context(opened_log(self._asked.db))
        if "tests" in bundle:
            self._tests.add(bundle)
            return
        name = bundle["suite"]
        self._notices += [f"{name}: {notice}" for notice in bundle["notices"]]
        if name not in self._suites:
            runs = [
                AssembledRun(self._log, run_id, events_of(rows))
                for run_id, rows in bundle["opening"]
            ]
            self._suites[name] = GatheredSuite(name, runs)
        self._suites[name].add(bundle)
        if left_to_bar is not None:
            self._suites[name].left_to_bar.append(left_to_bar)

    def end(self, session: pytest.Session) -> None:
        """End all runs, write what was asked for, and set the exit code."""
        if self._log is None:
            return
        why = session.shouldfail or session.shouldstop or "pytest ended before all tasks were run"
        try:
            with self._open:
                for suite in self._suites.values():
                    suite.end(str(why))
                if self._tests.tasks:
                    self._suites["tests"] = self._tested(self._log, session)
                self._report(self._log)
        except EvalwrightError as error:
            self._lines.append(f"NO RESULT  {spoken(error)}")
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        else:
            self._decide(session)

    def _tested(self, log: EventLog, session: pytest.Session) -> GatheredSuite:
        """The run of the evaluations in tests; cut off with the session, where that is."""
        opening = self._tests.opening(self._asked, log)
        run_id = self._begun.run_id("tests", 0)
        suite = GatheredSuite("tests", [AssembledRun(log, run_id, opening)])
        for task_id, events in sorted(self._tests.events.items()):
            suite.runs[0].add_task(task_id, events)
        self._notices += [f"tests: {notice}" for notice in self._tests.notices]
        is_cut_off = session.shouldfail or session.shouldstop
        is_cut_off = is_cut_off or session.exitstatus == pytest.ExitCode.INTERRUPTED
        suite.end(str(is_cut_off or ""), is_cut_off=bool(is_cut_off))
        return suite

    def _decide(self, session: pytest.Session) -> None:
        held_back = [suite for suite in self._suites.values() if suite.reasons()]
        if held_back and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        for suite in held_back:
            # Have pytest tell of them as failed: the bar that was to decide is missed.
            # Its summary, `--lf` and `--junitxml` have been told that they were expected to.
            plugins = session.config.pluginmanager
            terminal, last_failed = map(plugins.get_plugin, ("terminalreporter", "lfplugin"))
            session.testsfailed += len(suite.left_to_bar)
            for report in suite.left_to_bar:
                report.outcome = "failed"
                del report.wasxfail
                if terminal is not None and report in terminal.stats.get("xfailed", ()):
                    terminal.stats["xfailed"].remove(report)
                    terminal.stats.setdefault("failed", []).append(report)
                if last_failed is not None:
                    last_failed.pytest_runtest_logreport(report)
            xml = session.config.stash.get(xml_key, None)
            if xml is not None and suite.left_to_bar:
                _correct_junit(xml, suite.left_to_bar)

    def _report(self, log: EventLog) -> None:
        results = self._asked.results
        shown: list[Reported] = []
        for suite in self._suites.values():
            runs = [shown_run(log, outcome) for outcome in suite.outcomes]
            shown += reported(results, log, runs)
            for run in suite.runs:
                if run.failure:
                    code, _, message = run.failure.partition(": ")
                    shown.append(failed_run(results, log, run.run_id, code, message))
            if results.out is not None:
                folder = results.out / suite.name.replace("/", "-")
                for each in runs:
                    place = folder if len(self._suites) > 1 else results.out
                    write_folder(place, log, each, is_private=results.show_secrets)
            self._lines += self._told(suite, runs)
        write_forms(results, shown)

    def _told(self, suite: GatheredSuite, runs: Sequence[ShownRun]) -> list[str]:
        style = Style(colour=False)
        if suite.is_complete:
            card = render_card(runs, style, with_failures=False).splitlines()
            if suite.name == "tests":
                if _NO_GATES not in card:
                    return card
                # The scorecard of evaluations in tests, each of which is a gate of its own.
                outcome = suite.outcomes[0]
                passed, tasks = outcome.summary.passed_count, outcome.summary.task_count
                verdict = render_verdict(verdict_of(outcome), "", style)
                bars = (
                    line.replace("every task must pass", "").rstrip()
                    for line in card[1 + len(verdict) :]
                )
                word = f"PASSED {SHAPES['ship']}" if passed == tasks else "RECORDED"
                told = f"{word} {passed:,} of {tasks:,} tasks passed"
                return [card[0], told, *(line for line in bars if line != _NO_GATES)]
            if verdict_on(suite.outcomes).words and not self._asked.gate:
                card.append(_NO_GATE)
            return card
        ids = ", ".join(run.run_id for run in suite.runs)
        return [
            f"NO RESULT  {suite.name}",
            *(f"  {spoken(why)}" for why in suite.reasons()),
            f"  run {ids}",
        ]

    def show(self, terminal: Any) -> None:
        """Say what the runs come to."""
        if not self._lines:
            return
        terminal.section("evalwright")
        for notice in self._notices:
            terminal.line(f"warning: {spoken(notice)}", yellow=True)
        for line in self._lines:
            verdict = line.partition(" ")[0]
            terminal.line(line, green=verdict == "PASSED", red=verdict in ("FAILED", "NO"))


def _correct_junit(xml: LogXML, reports: Sequence[pytest.TestReport]) -> None:
    """Make expected failures in the report of pytest failures."""
    wrong = {".".join(mangle_test_address(report.nodeid)): report for report in reports}
    for element in [reporter.to_xml() for reporter in xml.node_reporters_ordered]:
        told = element.find("skipped")
        name = f"{element.get('classname')}.{element.get('name')}".removeprefix(f"{xml.prefix}.")
        report = wrong.get(name)
        if told is not None and report is not None and told.get("message") == LEFT_TO_BAR:
            told.tag, told.text = "failure", str(report.longrepr)
            crash = getattr(report.longrepr, "reprcrash", None)
            told.attrib = {"message": told.text if crash is None else str(crash.message)}
            xml.stats["skipped"] -= 1
            xml.stats["failure"] += 1
