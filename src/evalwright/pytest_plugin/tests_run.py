"""The run of the evaluations that stand in tests: one for the session, made when it ends."""

import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.run_plan import (
    DEFAULT_SETTINGS,
    AgentFacts,
    Baseline,
    JudgePanel,
    SuiteSource,
    TaskSelection,
)
from evalwright.contracts.suite import Mode, Suite, Task
from evalwright.engine.clock import SystemClock
from evalwright.engine.isolation import PARTIAL
from evalwright.engine.plan import Plan, merged
from evalwright.pytest_plugin.asked import SessionOptions
from evalwright.pytest_plugin.recorded_test import AGENT_ID
from evalwright.pytest_plugin.suite_work import events_of
from evalwright.store.protocol import EventLog, NewEvent

VERSION = "0.0.0"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


class TestsRun:
    """What the tests of a session recorded."""

    __test__ = False  # it is no test of ours

    def __init__(self, root: Path) -> None:
        name = _NOT_IN_NAMES.sub("-", root.name.lower()).strip("-") or "tests"
        self._suite_id = f"local.pytest.evals.{name}"
        self._root = root
        self.tasks: dict[str, Task] = {}
        self.events: dict[str, list[NewEvent]] = {}
        self._panel: JudgePanel | None = None
        self._left_out = 0
        self._by: list[str] = []
        self.notices: list[str] = []

    def add(self, bundle: dict[str, Any]) -> None:
        """Take what a test recorded; the first score of a task counts."""
        for each in bundle["tests"]:
            task = msgspec.json.decode(each["task"], type=Task)
            if task.task_id in self.tasks:
                self.notices.append(f"{task.task_id} was recorded twice; the first counts")
                continue
            self.tasks[task.task_id] = task
            self.events[task.task_id] = events_of(each["events"])
        if bundle["panel"] is not None:
            self._panel = msgspec.json.decode(bundle["panel"], type=JudgePanel)
        self._left_out, self._by = bundle["left_out"], bundle["left_out_by"]
        self.notices += bundle["notices"]

    def opening(self, asked: SessionOptions, log: EventLog) -> list[NewEvent]:
        """What the run begins with."""
        tasks = [self.tasks[task_id] for task_id in sorted(self.tasks)]
        modes: list[Mode] = ["golden", "rubric", "regression"]
        suite = Suite(self._suite_id, VERSION, list(modes), tasks)
        selection, tags = None, list(asked.options.tags)
        if self._left_out:
            selection = TaskSelection(len(tasks) + self._left_out, self._by)
            tags.append(PARTIAL)
        baseline = self._baseline(asked, log, suite, is_part=selection is not None)
        if self._panel is None:
            modes.remove("rubric")
        if baseline is None or baseline.left_out is not None:
            modes.remove("regression")
        content = hashlib.sha256(msgspec.json.encode(tasks)).hexdigest()
        # Without a bar unless one is asked for: every test has its own.
        settings = merged(asked.options, DEFAULT_SETTINGS)
        chosen = tuple(
            gate
            for gate in settings.fail_on
            if gate != "findings" and (baseline is not None or not gate.endswith("regression"))
        )
        usual = ("regression",) if baseline is not None else ("none",)
        plan = Plan(
            suite=suite,
            modes=modes,
            agent=AgentFacts(AGENT_ID, "pytest"),
            settings=msgspec.structs.replace(settings, fail_on=chosen or usual),
            tags=tags,
            panel=self._panel,
            baseline=baseline,
            source=SuiteSource(str(self._root), f"sha256:{content}"),
            selection=selection,
        )
        now, encode = SystemClock().now_us(), msgspec.json.encode
        first = min((events[0].at_us for events in self.events.values()), default=now)
        return [NewEvent(each.TYPE, None, first, encode(each)) for each in plan.opening()]

    def _baseline(
        self, asked: SessionOptions, log: EventLog, suite: Suite, *, is_part: bool
    ) -> Baseline | None:
        if asked.options.baseline is None:
            return None
        from evalwright.engine.baselines import find_baseline, read_baseline

        try:
            found = find_baseline(log, asked.options.baseline, suite.suite_id, AGENT_ID)
            from evalwright.engine.session import ModelPool

            baseline = read_baseline(
                log,
                found.run_id,
                suite,
                ModelPool(asked.config).redactor,
                is_part=is_part,
                allow_partial=asked.options.allow_partial,
                with_repeats=found.group is not None,
            )
        except BadInput as error:
            self.notices.append(f"the evaluations in tests are compared with nothing: {error}")
            return None
        return msgspec.structs.replace(baseline, name=found.name, age_s=found.age_s)
