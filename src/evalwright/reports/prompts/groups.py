"""Records put together for readers: the runs of one file and judge, files, and all of them."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from statistics import fmean
from typing import Literal

from msgspec import UNSET

from evalwright.contracts.prompt_result import (
    Criterion,
    Finding,
    Grade,
    PromptResult,
    grade,
)
from evalwright.prompts.agreement import (
    PanelAgreement,
    RunSpread,
    panel_agreement,
    run_spread,
)
from evalwright.prompts.change import by_evaluation, criterion_percentages, percentages
from evalwright.prompts.results import is_skipped, recommendations

FileStatus = Literal["passed", "skipped", "failed", "error"]
_GRAVITY: tuple[FileStatus, ...] = ("error", "failed", "skipped", "passed")


class FileRuns:
    """The runs of one file with one judge; every run must pass, and an error is never a pass."""

    def __init__(self, judge: str, records: Sequence[PromptResult]) -> None:
        self.judge = judge  # its name, as it is shown
        self.records = records
        self.path = records[0].input.path
        self.threshold = records[0].threshold

    @cached_property
    def status(self) -> FileStatus:
        """An error in any run, else a failure in any run, else passed, or passed over."""
        if any(each.execution.status == "error" for each in self.records):
            return "error"
        if all(is_skipped(each) for each in self.records):
            return "skipped"
        return "passed" if all(each.passed for each in self.records) else "failed"

    @cached_property
    def spread(self) -> RunSpread | None:
        """What the successful runs say together; None if there is none."""
        found = percentages(self.records)
        verdicts = [each.passed for each in self.records if each.scores]
        return run_spread(found, self.threshold, verdicts) if found else None

    @property
    def score(self) -> float | None:
        return self.spread.mean if self.spread else None

    @property
    def grade(self) -> Grade | None:
        return None if self.score is None else grade(self.score)

    @cached_property
    def criteria(self) -> dict[Criterion, float]:
        return criterion_percentages(self.records)

    @cached_property
    def first(self) -> PromptResult:
        """The first run that was evaluated, else the first."""
        return next((each for each in self.records if each.scores), self.records[0])

    @property
    def not_a_prompt(self) -> bool:
        """Whether the file is something else."""
        details = self.first.details
        return details is not UNSET and details.not_a_prompt is not None

    @property
    def errors(self) -> list[PromptResult]:
        return [each for each in self.records if each.execution.status == "error"]

    @cached_property
    def findings(self) -> list[Finding]:
        """What the linter found; it is the same in every run."""
        return findings(self.first)

    @property
    def issues(self) -> list[str]:
        """The issues of all runs, each once."""
        found = [each.issues for each in self.records if each.issues is not UNSET]
        return list(dict.fromkeys(issue for issues in found for issue in issues))

    @property
    def recommendations(self) -> list[str]:
        """What to improve by the mean of the runs; of a single run, its own words."""
        if len(self.records) == 1:
            own = self.first.recommendations
            return [] if own is UNSET else own
        return recommendations(self.criteria, self.threshold)


class File:
    """One file with all its judges; it passes when it passes with each."""

    def __init__(self, groups: Sequence[FileRuns]) -> None:
        self.groups = groups
        self.path = groups[0].path
        self.status = min((each.status for each in groups), key=_GRAVITY.index)

    @property
    def badness(self) -> tuple[int, float]:
        """What files are ordered by, the worst first: their status, then the lowest score."""
        scores = [0.0 if each.score is None else each.score for each in self.groups]
        return _GRAVITY.index(self.status), min(scores)

    @property
    def findings(self) -> list[Finding]:
        return next((each.findings for each in self.groups if each.findings), [])


class Overview:
    """All records together."""

    def __init__(self, results: Sequence[PromptResult]) -> None:
        self.results = results
        # The names of judges; the provider is shown where the name alone is not clear
        judges = dict.fromkeys((each.model.provider, each.model.name) for each in results)
        names = [name for _, name in judges]
        shown = {
            (provider, name): name if names.count(name) == 1 else f"{provider}:{name}"
            for provider, name in judges
        }
        self.groups = [
            FileRuns(shown[each[0].model.provider, each[0].model.name], each)
            for each in by_evaluation(results).values()
        ]
        by_path: dict[str, list[FileRuns]] = {}
        for group in self.groups:
            by_path.setdefault(group.path, []).append(group)
        self.files = [File(groups) for groups in by_path.values()]
        self.judges = list(dict.fromkeys(shown.values()))

    def count(self, status: FileStatus) -> int:
        return sum(file.status == status for file in self.files)

    @property
    def averages(self) -> dict[str, float | None]:
        """The mean of each judge, in percent; judges differ in level, so they are not mixed."""
        found = {
            judge: [each.score for each in self.of_judge(judge) if each.status != "skipped"]
            for judge in self.judges
        }
        known = {
            judge: [each for each in all_ if each is not None] for judge, all_ in found.items()
        }
        return {judge: fmean(scores) if scores else None for judge, scores in known.items()}

    @property
    def cost_usd(self) -> float | None:
        """What all evaluations cost, as far as it is known."""
        details = [each.details for each in self.results if each.details is not UNSET]
        known = [each.cost_usd for each in details if each.cost_usd is not None]
        return float(sum(Decimal(repr(each)) for each in known)) if known else None

    def worst_first(self) -> list[FileRuns]:
        """Errors, then failures, then the rest, each from the lowest score up."""
        return sorted(
            self.groups,
            key=lambda each: (_GRAVITY.index(each.status), each.score or 0.0),
        )

    def of_judge(self, judge: str) -> Iterator[FileRuns]:
        return (group for group in self.groups if group.judge == judge)

    def agreement(self, threshold: float) -> PanelAgreement | None:
        """How far judges agree, where there are several."""
        if len(self.judges) < 2:
            return None
        scores = {
            judge: {
                each.path: each.score for each in self.of_judge(judge) if each.score is not None
            }
            for judge in self.judges
        }
        return panel_agreement(scores, threshold)


def findings(result: PromptResult) -> list[Finding]:
    """What the linter found in a file."""
    return [] if result.details is UNSET else result.details.findings


def count_findings(found: Sequence[Finding]) -> int:
    """How many findings there are, those included that are not listed."""
    return sum(1 if each.more is UNSET else 1 + each.more for each in found)


def share(part: int, whole: int) -> str:
    """A share in whole percent; neither all nor none unless it is."""
    if not whole:
        return "0%"
    shown = round(100 * part / whole)
    if part and not shown:
        return "<1%"
    return ">99%" if part < whole and shown == 100 else f"{shown}%"
