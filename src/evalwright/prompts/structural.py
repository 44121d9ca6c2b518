"""Scores without a model: graded features of a prompt, lowered by what the rules found."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from math import exp

import msgspec

from evalwright.contracts.prompt_result import WEIGHTS, Criterion, Finding, FindingSeverity, grade
from evalwright.prompts.rules.reading import Reading
from evalwright.prompts.rules.task import asks, first_task, format_signs, has_example
from evalwright.prompts.rules.variables import declared_share

# What one finding takes off a score; each further finding of its rule takes half as much.
PENALTIES: Mapping[FindingSeverity, float] = {"error": 0.2, "warning": 0.1, "info": 0.03}
_LOWEST, _SPAN = 1.0, 9.0
_DIGITS = 2
_GOOD, _WEAK = 0.75, 0.4
_NAMED = 2  # features in a reason

_ITEM = re.compile(r"[ \t]*(?:[-*+•]|(\d+)[.)])[ \t]")
_LABEL = re.compile(
    r"[ \t>#*_-]*[A-Za-z][\w /&'()-]{1,40}(?:\*\*)?:|#{1,6}[ \t]|\*\*[^*\n]+\*\*[ \t]*$"
)
_NUMBER = re.compile(r"\d[\d,.]{0,12}\s{0,3}(?:%|(?:-|to)\s?\d|[a-z]{3})")
_SENTENCE_END = re.compile(r"[.!?:;](?:\s|$)")

_CONSTRAINTS = frozenset(
    """
    must never only always avoid don't ensure limit required exactly without exclude maximum minimum
    least most unless strictly mandatory cannot shouldn't should
    """.split()
)
_HEDGES = frozenset(
    """
    maybe perhaps possibly probably somewhat various several some few many appropriate appropriately
    relevant suitable reasonable generally typically etc nice good better things stuff properly
    """.split()
)
_CARE = frozenset(
    """
    confidential privacy private pii sensitive redact anonymize anonymise unsure uncertain
    uncertainty assumption assumptions cite citations source sources evidence verify unknown
    fabricate invent hallucinate disclaimer compliance gdpr consent ethical legal lawful bias
    limitations untrusted risk risks security
    """.split()
)
_SETTING = frozenset(
    """
    context background audience goal purpose objective scope constraints assumptions requirements
    stakeholders environment users timeline
    """.split()
)
_FIELDS = (
    ("title", "name"),
    ("description", "intro", "summary", "purpose"),
    ("version", "date", "updated"),
    ("author", "owner", "maintainer"),
    ("category", "tags", "topics", "type", "subcategory"),
)
_TEACHING = frozenset("example examples sample usage input output expected".split())
_HELPING = frozenset(
    "tips use when related notes description goal context constraints governance".split()
)
_ENOUGH_WORDS = 30
_TOO_MANY_WORDS = 1500
_GOOD_LENGTH = 14.0  # words of a sentence or line
_ROLE = re.compile(r"\b(?:you are|act as|you're|your role|as an? (?:expert|senior))\b")


class Feature(msgspec.Struct, frozen=True, gc=False):
    """One thing that was looked at: its grade, its weight, and what to call it."""

    name: str
    grade: float
    weight: float


class LineCounts(msgspec.Struct, frozen=True, gc=False):
    """The lines of a prompt, counted."""

    lines: int
    items: int
    steps: int
    labels: int
    longest: int  # words of the longest run of plain lines


class StructuralResult(msgspec.Struct, frozen=True):
    """A score from 1 to 10 and a reason for each criterion, their mean in percent, a summary."""

    rubric: Mapping[Criterion, tuple[float, str]]
    percentage: float
    summary: str


def structural_scores(reading: Reading, findings: Sequence[Finding]) -> StructuralResult:
    """The scores of a prompt by its features and findings."""
    words = len(reading.word_list)
    substance = words / (words + _ENOUGH_WORDS)  # is there enough to judge: 0.5 at thirty words
    by_criterion: dict[Criterion, list[Finding]] = {}
    for each in findings:
        by_criterion.setdefault(each.criterion, []).append(each)
    lines = _line_counts(reading)
    features: dict[Criterion, tuple[Feature, ...]] = {
        "clarity": _clarity(reading, lines, substance),
        "specificity": _specificity(reading, lines),
        "actionability": _actionability(reading, lines, substance),
        "structure": _structure(reading, lines),
        "completeness": _completeness(reading, substance),
        "safety": (
            Feature("nothing that must not be there", 1.0, 6),
            Feature(
                "words on sources, doubt and confidential data",
                _rising(_count(reading, _CARE), 2.5),
                3,
            ),
            Feature("enough to be judged", substance, 1),
        ),
    }
    rubric = {
        criterion: _score(graded, by_criterion.get(criterion, ()), substance**0.25)
        for criterion, graded in features.items()
    }
    percentage = round(
        10 * sum(WEIGHTS[name] * score for name, (score, _) in rubric.items()), _DIGITS
    )
    best, *_, worst = sorted(rubric, key=lambda criterion: -rubric[criterion][0])
    found = "1 finding" if len(findings) == 1 else f"{len(findings) or 'no'} findings"
    summary = (
        f"{grade(percentage)} by structure: strongest in {best} ({rubric[best][0]:.1f}), "
        f"weakest in {worst} ({rubric[worst][0]:.1f}), {found}."
    )
    return StructuralResult(rubric, percentage, summary)


def _score(
    graded: Sequence[Feature], findings: Sequence[Finding], filled: float
) -> tuple[float, str]:
    reached = possible = 0.0
    for each in graded:
        reached += each.weight * each.grade
        possible += each.weight
    share = reached / possible * filled * kept_after(findings)
    best = [each for each in graded if each.grade >= _GOOD]
    worst = [each for each in graded if each.grade <= _WEAK]
    best.sort(key=lambda each: -each.grade * each.weight)
    worst.sort(key=lambda each: -(1 - each.grade) * each.weight)
    counts = Counter(each.rule for each in findings)
    parts = {
        "good": [each.name for each in best[:_NAMED]],
        "lacking": [each.name for each in worst[:_NAMED]],
        "found": [f"{rule} ×{n}" if n > 1 else rule for rule, n in counts.items()],
    }
    text = "; ".join(f"{name}: {', '.join(listed)}" for name, listed in parts.items() if listed)
    text = text or "nothing stands out"
    return round(_LOWEST + _SPAN * share, _DIGITS), f"{text[0].upper()}{text[1:]}."


def kept_after(findings: Sequence[Finding]) -> float:
    """The share of a score that is left after findings."""
    kept = 1.0
    for (_, severity), count in Counter((each.rule, each.severity) for each in findings).items():
        kept *= 1 - PENALTIES[severity] * (2 - 0.5 ** (count - 1))
    return kept


def _clarity(reading: Reading, lines: LineCounts, substance: float) -> tuple[Feature, ...]:
    words = len(reading.word_list)
    ends = lines.lines + len(_SENTENCE_END.findall(reading.prose))
    length = 2 * words / max(1, ends)
    hedges = 100 * _count(reading, _HEDGES) / max(1, words)
    task = first_task(reading)
    fit = substance * exp(-max(0, words - _TOO_MANY_WORDS) / _TOO_MANY_WORDS)
    return (
        Feature("a length that can be taken in", fit, 2),
        Feature("short sentences and lines", exp(-max(0.0, length - _GOOD_LENGTH) / 20), 1),
        Feature("firm words", exp(-hedges / 3), 1.5),
        Feature("an early task", 0.0 if task is None else 1 - task / max(1, len(reading.prose)), 2),
        Feature("a role", float(_ROLE.search(reading.lowered[:400]) is not None), 1),
    )


def _specificity(reading: Reading, lines: LineCounts) -> tuple[Feature, ...]:
    return (
        Feature("the form of the answer", format_signs(reading) / 4, 3),
        Feature("numbers that bound it", _rising(len(_NUMBER.findall(reading.lowered)), 2), 1.5),
        Feature("constraints", _rising(_count(reading, _CONSTRAINTS), 3), 2),
        Feature("listed points", _rising(lines.items, 7), 1.5),
        Feature("variables", _rising(len({e.name for e in reading.placeholders}), 1.5), 1),
    )


def _actionability(reading: Reading, lines: LineCounts, substance: float) -> tuple[Feature, ...]:
    return (
        Feature("a task", float(first_task(reading) is not None), 2),
        Feature("instructions", _rising(asks(reading), 4), 3),
        Feature("numbered steps", _rising(lines.steps, 3), 1.5),
        Feature("declared variables", declared_share(reading), 1),
        Feature("enough to act on", substance, 2),
    )


def _structure(reading: Reading, lines: LineCounts) -> tuple[Feature, ...]:
    words = max(1, len(reading.word_list))
    sound = [each.closed and each.stray is None for each in reading.fences]
    return (
        Feature("labelled parts of the prompt", _rising(lines.labels, 4), 2),
        Feature("lists", _rising(lines.items, 5), 1),
        Feature("sections of the file", _rising(len(reading.sections), 3), 1),
        Feature("no long run of plain text", 1 - min(1.0, lines.longest / max(80, words)), 1.5),
        Feature("sound fences", sum(sound) / len(sound) if sound else 1.0, 1),
    )


def _completeness(reading: Reading, substance: float) -> tuple[Feature, ...]:
    sections = [each for each in reading.sections if each is not reading.core_section]
    titles = [(each, frozenset(each.key.split())) for each in sections]
    taught = sum(each.end - each.body for each, title in titles if title & _TEACHING)
    helped = sum(1 for _, title in titles if title & _HELPING)
    setting = len(reading.words.keys() & _SETTING)
    fields = reading.prompt.frontmatter or {}
    filled = sum(any(fields.get(key) for key in keys) for keys in _FIELDS) / len(_FIELDS)
    return (
        Feature("front matter", filled, 1.5),
        Feature("examples", max(_rising(taught, 300), 0.3 * has_example(reading)), 2.5),
        Feature("goal and context", _rising(setting, 2), 1.5),
        Feature("notes on its use", _rising(helped, 2), 1),
        Feature("declared variables", declared_share(reading), 1),
        Feature("enough to act on", substance, 1.5),
    )


def _count(reading: Reading, words: frozenset[str]) -> int:
    return sum(map(reading.words.get, words, repeat(0)))


def _rising(count: float, scale: float) -> float:
    """From 0 towards 1; about 0.63 at the scale."""
    return 1 - exp(-count / scale)


def _line_counts(reading: Reading) -> LineCounts:
    lines = items = steps = labels = longest = run = 0
    for line in reading.prose.split("\n"):
        first = line.strip()[:1]
        if not first:
            run = 0
            continue
        lines += 1
        item = _ITEM.match(line) if first in "-*+•" or first.isdecimal() else None
        if item is not None:
            items += 1
            steps += item[1] is not None
        may_label = ":" in line or line[0] in "#*"
        labelled = may_label and _LABEL.match(line) is not None
        labels += labelled
        if labelled or item is not None:
            run = 0
        else:
            run += line.count(" ") + 1
            longest = max(longest, run)
    return LineCounts(lines, items, steps, labels, longest)
