"""Scores without a model: graded features of a prompt, lowered by what the rules found."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from evalwright.contracts.prompt_result import WEIGHTS, Criterion, Finding, FindingSeverity, grade
from evalwright.prompts.document import Prompt
from evalwright.prompts.rules.features import Feature, features, substance
from evalwright.prompts.rules.reading import read

# What one finding takes of a score; further findings of its rule take half of the one before.
PENALTIES: Mapping[FindingSeverity, float] = {"error": 0.2, "warning": 0.1, "info": 0.03}
_LOWEST, _SPAN = 1.0, 9.0
_DIGITS = 2
_GOOD, _WEAK = 0.75, 0.4
_NAMED = 2  # features in a reason


class StructuralResult(msgspec.Struct, frozen=True):
    """A score from 1 to 10 and a reason for each criterion, their mean in percent, a summary."""

    rubric: Mapping[Criterion, tuple[float, str]]
    percentage: float
    summary: str


def structural_scores(prompt: Prompt, findings: Sequence[Finding]) -> StructuralResult:
    """The scores of a prompt by its features and findings."""
    filled = substance(read(prompt)) ** 0.25
    by_criterion: dict[Criterion, list[Finding]] = {}
    for each in findings:
        by_criterion.setdefault(each.criterion, []).append(each)
    rubric = {
        criterion: _score(graded, by_criterion.get(criterion, ()), filled)
        for criterion, graded in features(prompt).items()
    }
    mean = sum(WEIGHTS[criterion] * score for criterion, (score, _) in rubric.items())
    percentage = round(10 * mean, _DIGITS)
    return StructuralResult(rubric, percentage, _summary(rubric, percentage, len(findings)))


def _score(
    graded: Sequence[Feature], findings: Sequence[Finding], filled: float
) -> tuple[float, str]:
    reached = possible = 0.0
    for each in graded:
        reached += each.weight * each.grade
        possible += each.weight
    share = reached / possible * filled * kept_after(findings)
    return round(_LOWEST + _SPAN * share, _DIGITS), _reason(graded, findings)


def kept_after(findings: Sequence[Finding]) -> float:
    """The share of a score that is left after findings."""
    kept = 1.0
    if not findings:
        return kept
    for (_, severity), count in Counter((each.rule, each.severity) for each in findings).items():
        kept *= 1 - PENALTIES[severity] * (2 - 0.5 ** (count - 1))
    return kept


def _reason(graded: Sequence[Feature], findings: Sequence[Finding]) -> str:
    best = [each for each in graded if each.grade >= _GOOD]
    worst = [each for each in graded if each.grade <= _WEAK]
    best.sort(key=lambda each: -each.grade * each.weight)
    worst.sort(key=lambda each: -(1 - each.grade) * each.weight)
    good = [each.name for each in best[:_NAMED]]
    weak = [each.name for each in worst[:_NAMED]]
    parts = []
    if good:
        parts.append(f"good: {', '.join(good)}")
    if weak:
        parts.append(f"lacking: {', '.join(weak)}")
    if findings:
        parts.append(f"found: {_counted(findings)}")
    text = "; ".join(parts) or "nothing stands out"
    return f"{text[0].upper()}{text[1:]}."


def _counted(findings: Sequence[Finding]) -> str:
    counts = Counter(each.rule for each in findings)
    return ", ".join(f"{rule} ×{count}" if count > 1 else rule for rule, count in counts.items())  # noqa: RUF001


def _summary(
    rubric: Mapping[Criterion, tuple[float, str]], percentage: float, findings: int
) -> str:
    ordered = sorted(rubric, key=lambda criterion: -rubric[criterion][0])
    best, worst = ordered[0], ordered[-1]
    found = "1 finding" if findings == 1 else f"{findings or 'no'} findings"
    return (
        f"{grade(percentage)} by structure: strongest in {best} ({rubric[best][0]:.1f}), "
        f"weakest in {worst} ({rubric[worst][0]:.1f}), {found}."
    )
