"""A project in a folder of its own, and pytest in this process."""

from pathlib import Path
from textwrap import dedent

import pytest

import evalwright as ew
from evalwright.engine.history import History, read_history
from evalwright.engine.runs import find_run
from evalwright.engine.suites.validation import check_events
from evalwright.store.location import existing_log


class Bench:
    """The project: files are written, pytest is run, the log is read."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester
        self.folder: Path = pytester.path

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(text), "utf-8")

    def pytest(self, *arguments: str, **how: bool) -> pytest.RunResult:
        plugins = ("-p", "evalwright.pytest_plugin", "-p", "xdist.plugin")
        return self._pytester.runpytest_inprocess(*plugins, *arguments, **how)

    def runs(self) -> list[str]:
        """The ids of all runs, oldest first; each is a valid log."""
        try:
            with existing_log(None) as log:
                ids = log.run_ids()[::-1]
                for run_id in ids:
                    lines = [event.to_json() for event in log.read(run_id)]
                    assert check_events(lines, "event") == []
                return ids
        except ew.EvalwrightError:
            return []

    def history(self, run: str = "latest") -> History:
        with existing_log(None) as log:
            return read_history(log, find_run(log, run))
