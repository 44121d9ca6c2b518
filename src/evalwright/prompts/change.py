"""What got better and worse since a baseline, and whether that is more than noise.

Scores of the linter are exact: any change is real. A judge scatters, so its changes are held
against the scatter of its runs: the standard deviation of a single run, the greater of the file's
own and of all files of that judge, both sides together. Many files are compared at once, so the
bar is raised (Bonferroni): where nothing changed, all of it together gives a false alarm in at most
one of twenty comparisons. Files whose content changed have a separate bar; the others,
whose scores can only move with the judge, hardly raise it.
"""

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.jsonvalue import NotJson, parse
from evalwright.contracts.prompt_result import (
    WEIGHTS,
    Criterion,
    PromptResult,
)
from evalwright.contracts.schema import PROMPT_RESULT, check_schema
from evalwright.prompts.agreement import CONFIDENCE, run_noise, t_quantile

Verdict = Literal[
    "better", "worse", "same", "within noise", "noise unknown", "only before", "only now"
]
VERDICTS: tuple[Verdict, ...] = (
    "worse",
    "better",
    "within noise",
    "noise unknown",
    "same",
    "only before",
    "only now",
)
Key = tuple[str, str, int]  # path, provider:model, tier

# Judges give whole points. Rounding six criteria alone scatters an overall by as much as this, so
# runs that happen to agree prove no less.
ROUNDING_SD = 1.25
_MOST_PROBLEMS = 20
_DIGITS = 4


class FileChange(msgspec.Struct, frozen=True):
    """One file with one judge, before and now: percentages, and points between them.

    A side without a successful evaluation has no mean. `noise` is the standard deviation of a
    single run, `margin` the change from which on it is more than noise.
    """

    path: str
    judge: str
    tier: int
    verdict: Verdict
    before: float | None = None
    after: float | None = None
    noise: float | None = None
    margin: float | None = None
    criteria: Mapping[Criterion, float] = {}
    content_changed: bool | None = None  # None: the records do not say
    lost_cases: bool = False  # all test cases passed in every run, and now some fail in every run

    @property
    def delta(self) -> float | None:
        if self.before is None or self.after is None:
            return None
        return round(self.after - self.before, _DIGITS)


class Change(msgspec.Struct, frozen=True):
    """All files of both sides: those of now in their order, then those of the baseline alone."""

    files: tuple[FileChange, ...]
    notes: tuple[str, ...] = ()

    @property
    def regressed(self) -> bool:
        return any(each.verdict == "worse" for each in self.files)

    @property
    def compared(self) -> tuple[FileChange, ...]:
        """The files with a score on both sides; without any, nothing can be said to be worse."""
        return tuple(each for each in self.files if each.delta is not None)

    @property
    def counts(self) -> dict[Verdict, int]:
        found = Counter(each.verdict for each in self.files)
        return {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}


def compare_results(baseline: Sequence[PromptResult], new: Sequence[PromptResult]) -> Change:
    """What changed for each file and judge; different tiers are not set against each other."""
    before, after = by_evaluation(baseline), by_evaluation(new)
    noise = _Noise(before, after)
    files = [
        _file(key, before.get(key, ()), after.get(key, ()), noise) for key in {**after, **before}
    ]
    compared = tuple(each for each in files if each is not None)
    return Change(compared, tuple(_notes(baseline, new, compared)))


def by_evaluation(results: Iterable[PromptResult]) -> dict[Key, list[PromptResult]]:
    """The runs of each file, judge and tier, in the order in which they first come."""
    found: dict[Key, list[PromptResult]] = {}
    for result in results:
        judge = f"{result.model.provider}:{result.model.name}"
        key = posixpath.normpath(result.input.path), judge, result.execution.tier
        found.setdefault(key, []).append(result)
    return found


def percentages(results: Iterable[PromptResult]) -> list[float]:
    """The overall scores of those that were evaluated, in percent."""
    return [round(each.scores.overall * 10, _DIGITS) for each in results if each.scores]


def criterion_percentages(results: Iterable[PromptResult]) -> dict[Criterion, float]:
    """The mean of each criterion over those that were evaluated, in percent."""
    found = [each.scores.by_criterion() for each in results if each.scores]
    if not found:
        return {}
    return {name: round(fmean(scores[name] for scores in found) * 10, _DIGITS) for name in WEIGHTS}


class _Noise:
    """How far the runs of each judge scatter, and how large a change must be to stand out."""

    def __init__(
        self,
        before: Mapping[Key, Sequence[PromptResult]],
        after: Mapping[Key, Sequence[PromptResult]],
    ) -> None:
        runs: dict[tuple[str, int], list[list[float]]] = {}
        for side in (before, after):
            for key, results in side.items():
                runs.setdefault(key[1:], []).append(percentages(results))
        self._sd = {judge: run_noise(by_file) for judge, by_file in runs.items()}
        self._freedom = {
            judge: sum(max(0, len(each) - 1) for each in by_file) for judge, by_file in runs.items()
        }
        rivals = Counter(_family(key, before[key], after[key]) for key in after if key in before)
        self._errors = {
            family: t_quantile(
                self._freedom[family[:2]], 1 - (1 - CONFIDENCE) / count / len(rivals)
            )
            for family, count in rivals.items()
            if self._freedom[family[:2]]
        }

    def of(
        self, key: Key, before: Sequence[PromptResult], after: Sequence[PromptResult]
    ) -> tuple[float, float] | None:
        """The deviation of one run, and the change that is more than noise; None if unknown."""
        all_files = self._sd[key[1:]]
        if all_files is None or not key[2]:
            return None
        old, new = percentages(before), percentages(after)
        sd = max(run_noise([old, new]) or 0.0, all_files, ROUNDING_SD)
        errors = self._errors[_family(key, before, after)]
        return sd, errors * sd * sqrt(1 / len(old) + 1 / len(new))


def _file(
    key: Key, before: Sequence[PromptResult], after: Sequence[PromptResult], noise: _Noise
) -> FileChange | None:
    """The change of one file; one that has no score on either side has nothing to tell."""
    old, new = percentages(before), percentages(after)
    if old and new:
        sd, margin = noise.of(key, before, after) or (None, None)
        criteria = criterion_percentages(before), criterion_percentages(after)
        cases = [_cases(each) for each in before]
        had_passed = all(cases) and all(map(all, cases))
        change = FileChange(
            *key,
            "same",
            before=round(fmean(percentages(before)), _DIGITS),
            after=round(fmean(percentages(after)), _DIGITS),
            noise=sd,
            margin=margin,
            criteria={
                name: round(criteria[1][name] - criteria[0][name], _DIGITS) for name in WEIGHTS
            },
            content_changed=_content_changed(before, after),
            lost_cases=had_passed and not any(all(_cases(each)) for each in after),
        )
        verdict: Verdict
        if change.lost_cases:
            verdict = "worse"
        elif not change.delta:
            verdict = "same"
        elif change.tier and margin is None:
            verdict = "noise unknown"
        elif margin is not None and abs(change.delta) <= margin:
            verdict = "within noise"
        else:
            verdict = "better" if change.delta > 0 else "worse"
        return msgspec.structs.replace(change, verdict=verdict)
    if old:
        return FileChange(*key, "only before", before=round(fmean(old), _DIGITS))
    return FileChange(*key, "only now", after=round(fmean(new), _DIGITS)) if new else None


def _family(
    key: Key, before: Sequence[PromptResult], after: Sequence[PromptResult]
) -> tuple[str, int, bool | None]:
    """What is held to one bar: files of one judge, those with other content than before apart."""
    return key[1], key[2], _content_changed(before, after)


def _content_changed(before: Sequence[PromptResult], after: Sequence[PromptResult]) -> bool | None:
    old, new = _contents(before), _contents(after)
    return None if None in old | new else old != new


def _contents(results: Sequence[PromptResult]) -> set[str | None]:
    return {None if each.details is UNSET else each.details.content_sha256 for each in results}


def _cases(result: PromptResult) -> list[bool]:
    return [] if result.details is UNSET else [case.passed for case in result.details.cases]


def _notes(
    baseline: Sequence[PromptResult], new: Sequence[PromptResult], files: Sequence[FileChange]
) -> Iterable[str]:
    if not any(each.delta is not None for each in files):
        yield (
            "Nothing can be compared: the baseline and these results have no successful "
            "evaluation of the same file by the same judge at the same tier."
        )
    for what in ("rubric_version", "evaluator_version"):
        old, new_ = _versions(baseline, what), _versions(new, what)
        if old and new_ and old != new_:
            words = what.replace("_", " ")
            yield (
                f"The {words} was {', '.join(old)} and is {', '.join(new_)}: "
                "scores may differ for that reason alone."
            )


def _versions(results: Sequence[PromptResult], what: str) -> list[str]:
    return sorted({getattr(each.metadata, what) for each in results if each.metadata is not UNSET})


def read_results(source: bytes, name: str) -> list[PromptResult]:
    """Records from JSON: one object, an array, or one object a line; raises `InvalidDocument`."""
    documents = list(_documents(source.removeprefix(b"\xef\xbb\xbf"), name))
    problems = [
        problem.below(place)
        if place.startswith("$")
        else Problem(f"{place}: {problem.path}", problem.message, problem.remedy)
        for place, document in documents
        for problem in check_schema(document, PROMPT_RESULT)
    ]
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        hidden = [Problem("$", f"and {more} more problems")] if more > 0 else []
        raise InvalidDocument(name, [*problems[:_MOST_PROBLEMS], *hidden])
    return [msgspec.convert(document, PromptResult, strict=False) for _, document in documents]


def _documents(source: bytes, name: str) -> Iterable[tuple[str, Any]]:
    try:
        whole = parse(source)
    except NotJson as error:
        lines = [
            (number, line) for number, line in enumerate(source.split(b"\n"), 1) if line.strip()
        ]
        if len(lines) < 2 or not all(line.lstrip().startswith(b"{") for _, line in lines):
            remedy = "results are a JSON object, an array of them, or one object a line"
            problem = Problem("$", f"not JSON: {error.reason}", remedy)
            raise InvalidDocument(name, [problem]) from None
        for number, line in lines:
            try:
                yield f"line {number}", parse(line)
            except NotJson as wrong:
                problem = Problem(f"line {number}", f"not JSON: {wrong.reason}")
                raise InvalidDocument(name, [problem]) from None
        return
    if isinstance(whole, list):
        yield from ((f"$[{place}]", each) for place, each in enumerate(whole))
    else:
        yield "$", whole
