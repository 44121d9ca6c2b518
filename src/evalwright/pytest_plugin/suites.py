"""Suites as pytest collects them: a file for each suite, an item for each task."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalwright.api.expectation import raise_at
from evalwright.cli.output import without_secrets
from evalwright.contracts.coverage import NO_CLAIMS
from evalwright.contracts.documents import read_input
from evalwright.contracts.errors import BadInput, EvalwrightError
from evalwright.contracts.messages import phrase
from evalwright.contracts.run_plan import TaskSelection
from evalwright.contracts.suite import Task
from evalwright.engine.suites.loader import SuiteSubject, read_subject
from evalwright.engine.suites.validation import check_file
from evalwright.engine.task_names import TaskNames
from evalwright.pytest_plugin import session_of
from evalwright.pytest_plugin.asked import spoken
from evalwright.pytest_plugin.failure_report import explain, line_of
from evalwright.pytest_plugin.suite_work import WorkedTask
from evalwright.reports.run.stories import TaskStory, mask_stories, task_stories


class SuiteFile(pytest.File):
    """A suite."""

    subject: SuiteSubject

    @property
    def shown_path(self) -> Path:
        """How messages call the file: from where pytest was started."""
        return Path(os.path.relpath(self.path))

    def collect(self) -> Iterator["TaskItem"]:
        """Every task of the suite, in its order."""
        evaluation = session_of(self.config)
        assert evaluation is not None
        try:
            self.subject = _read(self.shown_path)
            agent = (
                evaluation.asked.agent or self.subject.agent or evaluation.asked.config.run.agent
            )
            if agent is None and not self.config.option.collectonly:
                raise BadInput(
                    phrase(
                        "{file}: names no agent; write `agent: agent.py:answer` in a wide suite, "
                        "give {@agent}, or set `agent` in [tool.evalwright] of pyproject.toml",
                        file=self.shown_path,
                    )
                )
        except EvalwrightError as error:
            raise self.CollectError(without_secrets(spoken(error))) from None
        names = TaskNames.of_tasks(self.subject.suite.tasks)
        for task in self.subject.suite.tasks:
            name = names.name_of(task.task_id).replace("::", ":")  # which would end that of a node
            yield TaskItem.from_parent(self, name=name, task=task)

    def selected(self, tasks: list[Task], by: list[str]) -> SuiteSubject:
        """The suite with the tasks that were not deselected."""
        suite = self.subject.suite
        wanted = {task.task_id for task in tasks}
        kept = [task for task in suite.tasks if task.task_id in wanted]
        agent = self.config.getoption("evalwright_agent") or self.subject.agent
        claims = self.subject.claims if agent == self.subject.agent else NO_CLAIMS
        subject = self.subject._replace(agent=agent, claims=claims)
        if len(kept) == len(suite.tasks):
            return subject
        from msgspec.structs import replace

        selection = TaskSelection(len(suite.tasks), by)
        return subject._replace(suite=replace(suite, tasks=kept), selection=selection)


def _read(path: Path) -> SuiteSubject:
    try:
        return read_subject(path, None)
    except BadInput:
        check_file(read_input(path), str(path))
        raise


class TaskItem(pytest.Item):
    """A task: it passes if its score in the run does."""

    def __init__(self, *, task: Task, **others: Any) -> None:
        super().__init__(**others)
        self.task = task
        self.bundle: dict[str, Any] | None = None  # for the process that has the log
        self.extra_keyword_matches.update(task.tags)
        self.add_marker("evalwright")

    @property
    def suite_file(self) -> SuiteFile:
        """The file that the task stands in."""
        assert isinstance(self.parent, SuiteFile)
        return self.parent

    def reportinfo(self) -> tuple[Path, None, str]:
        """How the task is called."""
        return self.path, None, self.task.task_id

    def setup(self) -> None:
        """Load the agent, once for the suite."""
        evaluation = session_of(self.config)
        assert evaluation is not None
        try:
            self._work = evaluation.work(self.suite_file)
        except EvalwrightError as error:
            told = without_secrets(spoken(error))
            raise pytest.fail.Exception(told, pytrace=False) from None

    def runtest(self) -> None:
        """Ask the agent, check what it says, and fail if that is not good enough."""
        record, self.bundle = self._work.work_on(self.task.task_id)
        if record.failure is not None:
            failed: str | None = without_secrets(spoken(record.failure))
        else:
            failed = self._failed(record)
        if failed is not None:
            raise_at(str(self.path), line_of(self.path, self.task), failed)

    def _failed(self, record: WorkedTask) -> str | None:
        """Why the task did not pass, in the first of its runs in which it did not."""
        stories = [self._story(record, number) for number in range(len(record.runs))]
        scores = [story.scored for story in stories if story.scored is not None]
        self.user_properties.append(("score", sum(each.score for each in scores) / len(scores)))
        costs = [each.cost_usd for each in scores if each.cost_usd is not None]
        if costs:
            self.user_properties.append(("cost_usd", sum(costs)))
        failed = [n for n, each in enumerate(scores) if not each.passed]
        if not failed:
            return None
        story = mask_stories([stories[failed[0]]])[0]
        told = explain(self.config, story, record.runs[failed[0]])
        if len(scores) > 1:
            told = f"failed in {len(failed)} of {len(scores)} runs: {told}"
        return told

    def _story(self, record: WorkedTask, number: int) -> TaskStory:
        return task_stories(self._work.suite, record.runs[number], {self.task.task_id})[0]

    def repr_failure(
        self,
        excinfo: "pytest.ExceptionInfo[BaseException]",
        style: Any = None,
    ) -> Any:
        """What went wrong, without the code that found it out."""
        where = excinfo.tb
        while where.tb_next is not None:
            where = where.tb_next
        if where.tb_frame.f_code.co_filename == str(self.path):
            excinfo = pytest.ExceptionInfo.from_exception(excinfo.value.with_traceback(where))
        chosen = self.config.getoption("tbstyle", "auto")
        return super().repr_failure(excinfo, style or ("long" if chosen == "auto" else chosen))
