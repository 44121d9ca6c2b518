"""Why tasks failed: what was expected and what the agent said, read from the log."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from evalwright.contracts.documents import without_collecting
from evalwright.contracts.events import (
    Checked,
    Decided,
    ErrorDetail,
    EvalScored,
    Event,
    Found,
    InvocationCompleted,
    InvocationStarted,
    Judged,
)
from evalwright.contracts.suite import Suite, Task
from evalwright.contracts.summary import SafetyFinding
from evalwright.contracts.verdicts import UNTOLD, CheckResult
from evalwright.engine.history import read_history
from evalwright.engine.projection import project_tasks
from evalwright.engine.task_names import TaskName, TaskNames
from evalwright.reports.formats.console import Style, printable
from evalwright.store.protocol import EventLog


class TaskStory(msgspec.Struct, frozen=True):
    """One task with what the agent decided, and its score where it has one."""

    task: Task
    scored: EvalScored | None
    decision: Any
    answered: bool
    judged: Sequence[Judged] = ()
    findings: Sequence[SafetyFinding] = ()
    checks: Sequence[CheckResult] = ()  # of repetitions, of the first one that did not pass
    passed_times: int = 0  # of the repetitions of a task that is repeated
    unscored: ErrorDetail | None = None  # why the answer has no score of its own
    called: TaskName = TaskName("", "")

    @property
    def error(self) -> dict[str, Any] | None:
        """The error in place of an answer, or of its score."""
        if self.unscored is not None:
            return {"code": self.unscored.code, "message": self.unscored.message}
        return self.decision.get("error") if not self.answered else None


def task_stories(
    suite: Suite, events: Iterable[Event], wanted: set[str] | None = None
) -> list[TaskStory]:
    """The tasks that did not pass or were not answered, or those asked for, in suite order."""
    names = TaskNames.of_tasks(suite.tasks)
    tasks = [task for task in suite.tasks if wanted is None or task.task_id in wanted]
    stories = []
    with without_collecting():
        for found in project_tasks(tasks, events).values():
            scored = found.scored
            ended = [attempt for attempt in found.all_attempts if attempt.has_answer]
            if not ended or (wanted is None and scored is not None and scored.passed):
                continue
            completed, checks = ended[-1].completed, found.checks
            failed = (each for each in checks if not all(result.passed for result in each.checks))
            story = TaskStory(
                task=found.task,
                scored=scored,
                decision=ended[-1].decided,
                answered=completed is not None and completed.outcome != "failed",
                judged=found.current.judged,
                findings=found.current.findings,
                checks=next(failed, checks[-1]).checks if checks else (),
                passed_times=sum(each.passed for each in checks),
                unscored=next((each.error for each in checks if each.error), None),
                called=names.of(found.task.task_id),
            )
            stories.append(story)
    return stories


def read_stories(log: EventLog, run_id: str, wanted: set[str]) -> list[TaskStory]:
    """The stories of these tasks, with the suite as it was recorded: there, secrets are masked."""
    suite = read_history(log, run_id).plan.suite
    return task_stories(suite, log.read(run_id, STORY_TYPES), wanted)


def mask_stories(stories: Iterable[TaskStory]) -> list[TaskStory]:
    """The stories without the secrets in what was asked, expected, answered and judged.

    Personal data stays: it belongs to the suite, and a difference in it could not be seen.
    """
    from evalwright.signals.masking import mask_text, mask_value  # only a failure needs them

    def mask(story: TaskStory) -> TaskStory:
        expected = story.task.expected
        match, rubric = expected.match, expected.rubric
        if match is not None:
            match = replace(match, value=mask_value(match.value, personal=False))
        if rubric is not None:
            rubric = [
                replace(each, criterion=mask_text(each.criterion, personal=False))
                for each in rubric
            ]
        task = replace(
            story.task,
            input=mask_value(story.task.input, personal=False),
            expected=replace(expected, match=match, rubric=rubric),
        )
        decision = mask_value(story.decision, personal=False)
        return replace(
            story,
            task=task,
            decision=decision,
            judged=list(map(judged, story.judged)),
            checks=list(map(checked, story.checks)),
        )

    def checked(result: CheckResult) -> CheckResult:
        expected = mask_value(result.expected, personal=False)
        actual = mask_value(result.actual, personal=False)
        reason = mask_text(result.reason, personal=False)
        if (expected, actual) != (result.expected, result.actual):
            # it may quote a part of a secret that nobody can know as one
            reason = reason and UNTOLD
        return replace(result, expected=expected, actual=actual, reason=reason)

    def judged(said: Judged) -> Judged:
        verdicts = [
            replace(each, reason=mask_text(each.reason, personal=False)) for each in said.verdicts
        ]
        return replace(said, verdicts=verdicts)

    return [mask(story) for story in stories]


STORY_TYPES = (
    InvocationStarted.TYPE,
    Decided.TYPE,
    InvocationCompleted.TYPE,
    Judged.TYPE,
    Found.TYPE,
    Checked.TYPE,
    EvalScored.TYPE,
)


def called_cells(called: TaskName, style: Style) -> tuple[str, str]:
    """The title and the name of a task; where there is little room, the name alone."""
    name = printable(called.name)
    if not called.subtitle:
        return called.title or name, ""
    return (name, "") if style.is_narrow else (called.title, name)
