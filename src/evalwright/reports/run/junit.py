"""Runs as JUnit: one test case per task, and one for each reason not to ship."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from evalwright.contracts.short_names import suite_name
from evalwright.contracts.summary import EvalSummary, TaskResult
from evalwright.reports.formats.console import one_line
from evalwright.reports.formats.junit import JunitCase, JunitProblem, JunitSuite, junit_document
from evalwright.reports.run.stories import TaskStory

if TYPE_CHECKING:
    from evalwright.engine.task_names import TaskNames
    from evalwright.reports.formats.ci import NotedFile
    from evalwright.reports.run.attack_table import AttackTable
    from evalwright.reports.run.bars import RunBar
    from evalwright.reports.run.fault_table import FaultTable
    from evalwright.reports.run.task_records import RunReading, TaskRecord
    from evalwright.scoring.regression import RegressionReport


class ReportedSeveral(NamedTuple):
    """What runs come to together: the repeats of one, or a run for each of several agents."""

    name: str
    reasons: Sequence[str]
    words: str = ""  # by what they passed though tasks failed
    group: str = ""  # the id of repeats
    change: str = ""  # against a baseline, whether that is chance
    file: "NotedFile | None" = None

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against them."""
        return not self.reasons

    @property
    def verdict(self) -> str:
        return " ".join(filter(None, ("Passed", self.words))) if self.passed else "Failed"


class ReportedRun(NamedTuple):
    """A run that has a result, with the stories of the tasks that did not pass.

    `read` reads all its tasks; only reports of all of them ask for that.
    """

    run_id: str
    summary: EvalSummary
    reasons: Sequence[str]
    stories: Sequence[TaskStory]
    nondeterministic: bool = False
    marks: Sequence[str] = ()  # tags that say how far the scores depend on more than the suite
    read: "Callable[[], RunReading] | None" = None
    change: "RegressionReport | None" = None  # against a baseline
    file: "NotedFile | None" = None
    words: str = ""  # by what it passed though tasks failed
    tables: "Sequence[AttackTable | FaultTable]" = ()
    bars: "Sequence[RunBar]" = ()
    tag_bars: Sequence[str] = ()  # a line for each tag that has a bar
    repeat: str = ""  # which of several repeats it is
    repeats: ReportedSeveral | None = None  # of them all, where it is one
    names: "TaskNames | None" = None  # of its tasks
    variant: str = ""  # the agent or model, where it is one of several side by side
    page: str = ""  # the name of the file that has its page, beside one of several runs

    @property
    def name(self) -> str:
        """The suite as people call it, and which of several answered."""
        suite = suite_name(f"{self.summary.suite_id}@{self.summary.suite_version}")
        return ", ".join(filter(None, (suite, self.variant)))

    @property
    def passed(self) -> bool:
        """Whether it met its bars, and nothing else speaks against it."""
        return self.summary.passed and not self.reasons

    @property
    def verdict(self) -> str:
        return " ".join(filter(None, ("Passed", self.words))) if self.passed else "Failed"

    def records(self) -> "Sequence[TaskRecord]":
        return [] if self.read is None else [task.record for task in self.read().tasks]


class FailedRun(NamedTuple):
    """A run that ended without a result, and why."""

    run_id: str
    code: str
    message: str
    read: "Callable[[], RunReading] | None" = None
    file: "NotedFile | None" = None

    def records(self) -> "Sequence[TaskRecord]":
        return [] if self.read is None else [task.record for task in self.read().tasks]


Reported: TypeAlias = ReportedRun | FailedRun | ReportedSeveral


def render_junit(runs: Sequence[Reported]) -> bytes:
    """A suite per run; one that ended without a result is a single error.

    What speaks against repeats stands in the last of them.
    """
    repeats = [run for run in runs if isinstance(run, ReportedRun)]
    last = {run.repeats.group: run.run_id for run in repeats if run.repeats is not None}
    suites = []
    for run in runs:
        if isinstance(run, FailedRun):
            problem = JunitProblem("error", run.code, run.message)
            case = JunitCase("evalwright", "run", problem=problem)
            suites.append(JunitSuite(run.run_id, [case]))
        elif isinstance(run, ReportedRun):
            is_last = run.repeats is None or last[run.repeats.group] == run.run_id
            suites.append(_suite(run, is_last=is_last))
        elif run.group not in last:
            cases = _thresholds(run.name, run.reasons)
            suites.append(JunitSuite(run.name, cases, None, [("verdict", run.verdict)]))
    return junit_document(suites)


def _thresholds(suite: str, reasons: Sequence[str]) -> list[JunitCase]:
    return [
        JunitCase(suite, f"threshold-{number}", None, JunitProblem("failure", "threshold", reason))
        for number, reason in enumerate(reasons, 1)
    ]


def _suite(run: ReportedRun, *, is_last: bool) -> JunitSuite:
    summary = run.summary
    stories = {story.task.task_id: story for story in run.stories}
    name = run.name
    properties = [("runId", run.run_id), ("verdict", run.verdict)]
    properties += [("bar", line) for line in run.tag_bars]
    if run.change is not None:
        change = run.change.sentence if run.repeats is None else run.repeats.change
        properties.append(("baseline", f"{run.change.called}: {change}"))
    if run.nondeterministic:
        properties.append(("nondeterministic", "live-shadow"))
    properties += [("mark", mark) for mark in run.marks]
    if run.repeats is not None:
        properties += [("repeat", run.repeat), ("verdictOnAllRepeats", run.repeats.verdict)]
    cases = [
        _case(name, result, stories.get(result.task_id), run.names) for result in summary.tasks
    ]
    if is_last:
        cases += _thresholds(name, (run.repeats or run).reasons)
    took = sum(result.latency_ms or 0 for result in summary.tasks)
    return JunitSuite(name, cases, took, properties)


def _case(
    suite: str, result: TaskResult, story: TaskStory | None, names: "TaskNames | None"
) -> JunitCase:
    problem = None if story is None else problem_of(story)
    took = result.latency_ms or 0
    if names is None:
        return JunitCase(suite, result.task_id, took, problem)
    called = names.of(result.task_id)
    return JunitCase(suite, called.name, took, problem, title=called.subtitle)


def problem_of(story: TaskStory) -> JunitProblem:
    """Why a task did not pass, in a line, and more of it."""
    error = story.error
    if error is not None:
        message = f"{error.get('code')}: {one_line(error.get('message', ''))}"
        return JunitProblem("error", str(error.get("code")), message)
    expected = story.task.expected
    found = "".join(f"{each.severity} {each.kind}; " for each in story.findings)
    failed = [check for check in story.checks if not check.passed]
    if failed:
        told = "; ".join(f"{each.check}: {one_line(each.reason)}" for each in failed)
        kind = "safety" if found else expected.kind
        # Each check that failed with what it expected and what there was, then the whole output
        lines = []
        for check in failed:
            lines += [
                f"{check.check}: {one_line(check.reason, None)}",
                f"  expected  {one_line(check.expected, None)}",
                f"  actual    {one_line(check.actual, None)}",
            ]
        return JunitProblem(
            "failure",
            kind,
            f"{found}{told}",
            "\n".join([*lines, f"output  {one_line(story.decision, None)}"]),
        )
    match = expected.match
    wanted = f"expected {match.strategy} {one_line(match.value)}; " if match else ""
    message = f"{found}{wanted}got {one_line(story.decision)}"
    kind = "safety" if found else expected.kind
    return JunitProblem("failure", kind, message, one_line(story.decision, None))
