"""The process with the log: it assembles the runs, and speaks for all of them at the end."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from evalwright.cli.results import (
    failed_run,
    render_card,
    reported,
    write_folder,
    write_forms,
)
from evalwright.engine.execution import Outcome
from evalwright.engine.piecework import AssembledRun
from evalwright.engine.session import reasons_against
from evalwright.pytest_plugin.asked import SessionOptions, spoken
from evalwright.pytest_plugin.working import events_of
from evalwright.reports.console import Style
from evalwright.reports.run.junit import FailedRun, ReportedRun
from evalwright.reports.run.reported import ShownRun, failed_stories
from evalwright.reports.run.scorecard import agreement
from evalwright.store.location import opened_log
from evalwright.store.protocol import EventLog


class GatheredSuite:
    """The runs of one suite: one, or its repeats."""

    def __init__(self, log: EventLog, name: str, opening: Sequence[Any]) -> None:
        self.name = name
        self.runs = [AssembledRun(log, run_id, events_of(rows)) for run_id, rows in opening]
        self.outcomes: list[Outcome] = []

    def take(self, bundle: dict[str, Any]) -> None:
        """Add what a task recorded."""
        for run, rows in zip(self.runs, bundle["runs"], strict=True):
            if bundle["task"] is None:
                run.take_rest(events_of(rows))
            else:
                run.take(bundle["task"], events_of(rows))
            if bundle["failure"] is not None:
                code, message = bundle["failure"]
                run.fail(code, message)

    def end(self, reason: str) -> None:
        """End the runs."""
        ended = [run.end(reason) for run in self.runs]
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


class Gathering:
    """All runs of a session, and the tests that failed for other reasons."""

    def __init__(self, asked: SessionOptions) -> None:
        self._asked = asked
        self._open = ExitStack()
        self._log: EventLog | None = None
        self._suites: dict[str, GatheredSuite] = {}
        self._notices: list[str] = []
        self._left_to_gate = 0  # tasks that failed, which the bar of their suite decides on
        self._lines: list[str] = []

    def take(self, bundle: dict[str, Any], *, has_failed: bool = False) -> None:
        """Take what the report on a task carries."""
        if self._log is None:
            self._log = self._open.enter_context(opened_log(self._asked.db))
        name = bundle["suite"]
        self._notices += [f"{name}: {notice}" for notice in bundle["notices"]]
        if name not in self._suites:
            self._suites[name] = GatheredSuite(self._log, name, bundle["opening"])
        self._suites[name].take(bundle)
        self._left_to_gate += has_failed and bundle["failure"] is None

    def end(self, session: pytest.Session) -> None:
        """End all runs, write what was asked for, and set the exit code."""
        if self._log is None:
            return
        why = session.shouldfail or session.shouldstop or "pytest ended before all tasks were run"
        with self._open:
            for suite in self._suites.values():
                suite.end(str(why))
            self._report(self._log)
        self._decide(session)

    def _decide(self, session: pytest.Session) -> None:
        """The gate speaks for tasks of suites; whatever else failed stays as it is."""
        is_held_back = any(suite.reasons() for suite in self._suites.values())
        code = pytest.ExitCode(session.exitstatus)
        if is_held_back and code == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        others = session.testsfailed - self._left_to_gate
        is_failed = code == pytest.ExitCode.TESTS_FAILED
        if is_failed and not is_held_back and not others and not session.shouldfail:
            session.exitstatus = pytest.ExitCode.OK

    def _report(self, log: EventLog) -> None:
        results = self._asked.results
        shown: list[ReportedRun | FailedRun] = []
        for suite in self._suites.values():
            runs = [
                ShownRun(
                    outcome,
                    failed_stories(log, outcome, show_secrets=False),
                    agreement(log, outcome),
                )
                for outcome in suite.outcomes
            ]
            shown += [reported(results, log, each) for each in runs]
            for run in suite.runs:
                if run.failure:
                    code, _, message = run.failure.partition(": ")
                    shown.append(failed_run(results, log, run.run_id, code, message))
            if results.out is not None:
                folder = results.out / suite.name.replace("/", "-")
                for each in runs:
                    write_folder(folder if len(self._suites) > 1 else results.out, log, each)
            self._lines += self._told(suite, runs)
        write_forms(results, shown)

    def _told(self, suite: GatheredSuite, runs: Sequence[ShownRun]) -> list[str]:
        style = Style(colour=False)
        if suite.is_complete:
            return render_card(runs, style, with_failures=False).splitlines()
        ids = ", ".join(run.run_id for run in suite.runs)
        return [
            f"NO RESULT  {suite.name}",
            *(f"  {why}" for why in suite.reasons()),
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
            verdict = line.partition("  ")[0]
            terminal.line(line, green=verdict == "PASSED", red=verdict in ("FAILED", "NO RESULT"))
