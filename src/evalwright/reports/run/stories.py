"""Why tasks failed: what was expected and what the agent said, read from the log."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

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
from evalwright.engine.task_names import TaskName, TaskNames
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
    stories = {
        task.task_id: _StoryReader(task)
        for task in suite.tasks
        if wanted is None or task.task_id in wanted
    }
    for event in events:
        story = stories.get(event.task_id or "")
        if story is not None:
            story.take(event)
            if wanted is None and story.scored is not None and story.scored.passed:
                del stories[story.task.task_id]
    ended = [story.end() for story in stories.values() if story.has_ended]
    return [replace(each, called=names.of(each.task.task_id)) for each in ended]


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


class _StoryReader:
    """Reads the story of one task from the log."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.scored: EvalScored | None = None
        self._decision: bytes | None = None
        self._outcome: str | None = None
        self._judged: list[Judged] = []
        self._findings: list[SafetyFinding] = []
        self._checks: list[CheckResult] = []
        self._passed_times = 0
        self._unscored: ErrorDetail | None = None

    @property
    def has_ended(self) -> bool:
        """Whether an invocation came to its end."""
        return self._decision is not None and self._outcome is not None

    def take(self, event: Event) -> None:
        """Fold one event in."""
        match event.type:
            case InvocationStarted.TYPE:  # what was said of an earlier attempt does not count
                self._judged, self._findings = [], []
            case Decided.TYPE:
                self._decision = event.body
            case InvocationCompleted.TYPE:
                self._outcome = event.decode(InvocationCompleted).outcome
            case Judged.TYPE | Found.TYPE | Checked.TYPE:
                self._take_judgement(event)
            case EvalScored.TYPE:
                self.scored = event.decode(EvalScored)

    def _take_judgement(self, event: Event) -> None:
        """What judges, signals and checks say of an answer."""
        match event.type:
            case Judged.TYPE:
                self._judged.append(event.decode(Judged))
            case Found.TYPE:
                self._findings += event.decode(Found).findings
            case Checked.TYPE:
                checked = event.decode(Checked)
                self._unscored = self._unscored or checked.error
                self._passed_times += checked.passed
                if all(each.passed for each in self._checks):
                    self._checks = checked.checks

    def end(self) -> TaskStory:
        """The story so far."""
        assert self._decision is not None
        return TaskStory(
            task=self.task,
            scored=self.scored,
            decision=_decision(self._decision),
            answered=self._outcome != "failed",
            judged=self._judged,
            findings=self._findings,
            checks=self._checks,
            passed_times=self._passed_times,
            unscored=self._unscored,
        )


STORY_TYPES = (
    InvocationStarted.TYPE,
    Decided.TYPE,
    InvocationCompleted.TYPE,
    Judged.TYPE,
    Found.TYPE,
    Checked.TYPE,
    EvalScored.TYPE,
)


def _decision(body: bytes) -> Any:
    return msgspec.json.decode(body, type=Decided).decision
