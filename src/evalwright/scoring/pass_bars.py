"""The bars on results: how many tasks must pass, over all and by tag, and what the score must be.

One function makes the words of a verdict that lets failed tasks through.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Literal, Protocol

import msgspec
from msgspec.structs import replace

from evalwright.contracts import amounts
from evalwright.contracts.messages import IN_LOGS, phrase
from evalwright.contracts.run_plan import CURRENT_RULE, FIRST_RULE
from evalwright.contracts.suite import Suite, TagBar, Thresholds
from evalwright.contracts.summary import EvalSummary
from evalwright.scoring.thresholds import mean, pass_score

EVERY_TASK = "every task must pass (default)"


class ScoredTask(Protocol):
    """What a bar asks of a task that has its score."""

    @property
    def score(self) -> float: ...

    @property
    def passed(self) -> bool: ...


class _ExpectedAnswer(Protocol):
    @property
    def kind(self) -> str: ...


class BarTask(Protocol):
    """What a bar asks of a task."""

    @property
    def task_id(self) -> str: ...

    @property
    def tags(self) -> list[str]: ...

    @property
    def weight(self) -> float: ...

    @property
    def expected(self) -> _ExpectedAnswer: ...


class PassBar(msgspec.Struct, frozen=True):
    """A bar over tasks: those of a tag, or all."""

    kind: Literal["passRate", "passScore", "default", "some"]
    wanted: float
    score: float
    passed: int
    tasks: int
    tag: str | None = None
    origin: str = "passScore"
    is_over_rest: bool = False  # the tasks without any tag that has a bar

    @property
    def met(self) -> bool | None:
        """Whether it is reached; None where a selection holds none of its tasks."""
        if not self.tasks:
            return None if self.tag is not None else False
        if self.kind == "passScore":
            return self.score >= self.wanted
        if self.kind == "some":
            return self.passed > 0
        return self.passed >= Decimal(repr(self.wanted)) * self.tasks

    @property
    def in_words(self) -> str:
        if self.kind == "default":
            return EVERY_TASK
        if self.kind == "some":
            return "at least one task passes"
        origin = self.origin if self.kind == "passScore" else self.kind
        return f"{amounts.bar(self.wanted)} ({origin})"

    @property
    def reached(self) -> str:
        if not self.tasks:
            return "not evaluated"
        count = f"{self.passed:,} of {self.tasks:,} tasks passed"
        return f"score {self.score:.4g}, {count}" if self.kind == "passScore" else count

    @property
    def sentence(self) -> str:
        where = f"{self.place}: " if self.is_over_part else ""
        if not self.tasks:
            return f"{where}no task was evaluated"
        count = f"{self.passed:,} of {self.tasks:,} tasks passed"
        if self.kind == "default":
            return f"{where}{count}, and {EVERY_TASK}"
        if self.kind == "some":
            return "no task passed"
        what, got = ("score ", self.score) if self.kind == "passScore" else ("", self.share)
        short = amounts.score(got)
        told = short if float(short) < self.wanted else repr(got)
        shown = f"{what}{told} is below {self.in_words}"
        return f"{where}{shown}" if what else f"{where}{count}: {shown}"

    @property
    def share(self) -> float:
        return self.passed / self.tasks if self.tasks else 0.0

    @property
    def is_over_part(self) -> bool:
        return self.is_over_rest or self.tag is not None

    @property
    def place(self) -> str:
        if self.tag is not None:
            return f"tag {on_one_line(self.tag)}"
        return "other tasks" if self.is_over_rest else "all tasks"


def on_one_line(tag: str) -> str:
    """A tag within a line: it comes from data, and must not write a line of its own."""
    return tag if tag.isprintable() else tag.encode("unicode_escape", "replace").decode()


def task_score(check_score: float, threshold: float | None, *, passed: bool) -> float:
    """What an answer scores: partial credit is for those who ask for it with a threshold."""
    return check_score if passed or threshold is not None else 0.0


def pass_bars(
    all_tasks: Iterable[BarTask],
    bars: Thresholds,
    results: Mapping[str, ScoredTask],
    scoring: int = CURRENT_RULE,
) -> list[PassBar]:
    """Every bar on the results of tasks; those that no bar is over must all pass.

    No run passes in which no task did, unless the `passScore` of an OpenWOP suite says so.
    """
    tasks = [task for task in all_tasks if task.task_id in results]
    if scoring == FIRST_RULE:
        origin = "passScore" if bars.pass_score is not None else "the default bar"
        return [_bar("passScore", pass_score(bars), tasks, results, origin=origin)]
    found = []
    if bars.pass_rate is None and bars.pass_score is None:
        others = [task for task in tasks if bars.tags.keys().isdisjoint(task.tags)]
        if others or not bars.tags:
            default = _bar("default", 1.0, others, results)
            found.append(replace(default, is_over_rest=bool(bars.tags)))
    over: list[tuple[str | None, list[BarTask], float | None, float | None]] = [
        (None, tasks, bars.pass_rate, bars.pass_score)
    ]
    over += [
        (tag, [task for task in tasks if tag in task.tags], bar.pass_rate, bar.pass_score)
        for tag, bar in bars.tags.items()
    ]
    for tag, of_tag, rate, score in over:
        if rate is not None:
            found.append(_bar("passRate", rate, of_tag, results, tag))
        if score is not None:
            found.append(_bar("passScore", score, of_tag, results, tag))
    is_met = all(bar.met is not False for bar in found)
    if tasks and is_met and not any(results[task.task_id].passed for task in tasks):
        is_portable = not any(task.expected.kind == "checks" for task in tasks)
        if not is_portable or bars.pass_score is None:
            found.append(_bar("some", 0.0, tasks, results))
    return found


class TagResult(msgspec.Struct, frozen=True):
    """What the tasks of a tag came to, and the bars over them."""

    tag: str
    tasks: int
    passed: int
    score: float | None  # None where a selection holds none of its tasks
    bars: list[PassBar]


def by_tag(
    all_tasks: Iterable[BarTask],
    bars: Thresholds,
    results: Mapping[str, ScoredTask],
    scoring: int = CURRENT_RULE,
) -> list[TagResult]:
    """Every tag, those that have a bar first."""
    tasks = [task for task in all_tasks if task.task_id in results]
    over = pass_bars(tasks, bars, results, scoring)
    found = []
    for tag in dict.fromkeys([*bars.tags, *(tag for task in tasks for tag in task.tags)]):
        whole = _bar("passScore", 0.0, [task for task in tasks if tag in task.tags], results, tag)
        score = whole.score if whole.tasks else None
        own = [bar for bar in over if bar.tag == tag]
        found.append(TagResult(tag, whole.tasks, whole.passed, score, own))
    return found


def _bar(
    kind: Literal["passRate", "passScore", "default", "some"],
    wanted: float,
    tasks: Sequence[BarTask],
    results: Mapping[str, ScoredTask],
    tag: str | None = None,
    origin: str = "passScore",
) -> PassBar:
    own = [results[task.task_id] for task in tasks]
    weights = [task.weight for task in tasks] if any(task.weight != 1 for task in tasks) else None
    score = mean([each.score for each in own], weights)
    passed = sum(each.passed for each in own)
    return PassBar(kind, wanted, score, passed, len(own), tag, origin)


def missed_bars(
    suite: Suite, results: Mapping[str, ScoredTask], scoring: int = CURRENT_RULE
) -> list[str]:
    """A sentence for each bar on results that is not met."""
    bars = pass_bars(suite.tasks, suite.thresholds, results, scoring)
    return [bar.sentence for bar in bars if bar.met is False]


def results_of(summary: EvalSummary) -> dict[str, ScoredTask]:
    """The results in a summary, by task."""
    return {task.task_id: task for task in summary.tasks}


def let_through(
    passed: int,
    tasks: int,
    score: float,
    thresholds: Thresholds,
    scoring: int = CURRENT_RULE,
    *,
    repeats: int = 1,
    flaky: int = 0,
    forgiven: bool = False,
) -> str:
    """What a verdict says beside PASSED where tasks failed: how many passed, and by which bar.

    Empty where every task passed. Of repeats, a task passed that did in every run; `forgiven` are
    flaky tasks that nothing but `flaky_as="warn"` lets through.
    """
    if passed == tasks:
        return ""
    parts = [f"{passed:,} of {tasks:,} tasks{' in every run' if repeats > 1 else ''}"]
    if flaky:
        parts.append(f"{flaky:,} flaky")
    counts = len(parts)
    if thresholds.pass_rate is not None:
        parts.append(f"bar {amounts.bar(thresholds.pass_rate)}")
    if thresholds.pass_score is not None:
        parts += [f"score {score:.4g}", f"bar {amounts.bar(thresholds.pass_score)} (passScore)"]
    if len(parts) == counts and scoring == FIRST_RULE:
        bar = amounts.bar(pass_score(thresholds))
        parts += [f"score {score:.4g}", f"bar {bar} (the default then)"]
    elif len(parts) == counts and thresholds.tags:
        told = (_of_tag(tag, bar) for tag, bar in thresholds.tags.items())
        parts.append(f"bars of {', '.join(told)}")
    return ", ".join([*parts, *[phrase("{@flaky_as:warn}").told(IN_LOGS)] * forgiven])


def _of_tag(tag: str, bar: TagBar) -> str:
    wanted = [] if bar.pass_rate is None else [amounts.bar(bar.pass_rate)]
    if bar.pass_score is not None:
        wanted.append(f"{amounts.bar(bar.pass_score)} (passScore)")
    return f"{on_one_line(tag)} {' and '.join(wanted)}"
