"""What can be counted in a prompt, graded from 0 to 1, by the criterion it speaks for."""

import re
from collections.abc import Iterable
from itertools import repeat
from math import exp
from typing import Any

import msgspec

from evalwright.contracts.prompt_result import Criterion
from evalwright.prompts.document import Prompt
from evalwright.prompts.rules.reading import Reading, Section, read
from evalwright.prompts.rules.task import asks, first_task, format_signs, has_example
from evalwright.prompts.rules.variables import declared_share
from evalwright.prompts.rules.vocabulary import words_of

_ITEM = re.compile(r"[ \t]*(?:[-*+•]|(\d+)[.)])[ \t]")
_LABEL = re.compile(
    r"[ \t>#*_-]*[A-Za-z][\w /&'()-]{1,40}(?:\*\*)?:|#{1,6}[ \t]|\*\*[^*\n]+\*\*[ \t]*$"
)
_NUMBER = re.compile(r"\d[\d,.]{0,12}\s{0,3}(?:%|(?:-|to)\s?\d|[a-z]{3})")
_SENTENCE_END = re.compile(r"[.!?:;](?:\s|$)")

_CONSTRAINTS = words_of(
    """
    must never only always avoid don't ensure limit required exactly without exclude maximum minimum
    least most unless strictly mandatory cannot shouldn't should
    """
)
_HEDGES = words_of(
    """
    maybe perhaps possibly probably somewhat various several some few many appropriate appropriately
    relevant suitable reasonable generally typically etc nice good better things stuff properly
    """
)
_CARE = words_of(
    """
    confidential privacy private pii sensitive redact anonymize anonymise unsure uncertain
    uncertainty assumption assumptions cite citations source sources evidence verify unknown
    fabricate invent hallucinate disclaimer compliance gdpr consent ethical legal lawful bias
    limitations untrusted risk risks security
    """
)
_SETTING = words_of(
    """
    context background audience goal purpose objective scope constraints assumptions requirements
    stakeholders environment users timeline
    """
)
_FIELDS = (
    ("title", "name"),
    ("description", "intro", "summary", "purpose"),
    ("version", "date", "updated"),
    ("author", "owner", "maintainer"),
    ("category", "tags", "topics", "type", "subcategory"),
)
_TEACHING = words_of("example examples sample usage input output expected")
_HELPING = words_of("tips use when related notes description goal context constraints governance")
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
    """The lines of a core, counted."""

    lines: int
    items: int
    steps: int
    labels: int
    longest: int  # words of the longest run of plain lines


def features(prompt: Prompt) -> dict[Criterion, tuple[Feature, ...]]:
    """The graded features of each criterion."""
    reading = read(prompt)
    shape = _shape(reading)
    return {
        "clarity": _clarity(reading, shape),
        "specificity": _specificity(reading, shape),
        "actionability": _actionability(reading, shape),
        "structure": _structure(reading, shape),
        "completeness": _completeness(reading),
        "safety": _safety(reading),
    }


def substance(reading: Reading) -> float:
    """Whether there is enough of a prompt to be judged: 0.5 at thirty words."""
    count = len(reading.word_list)
    return count / (count + _ENOUGH_WORDS)


def _clarity(reading: Reading, shape: LineCounts) -> tuple[Feature, ...]:
    words = len(reading.word_list)
    ends = shape.lines + len(_SENTENCE_END.findall(reading.prose))
    length = 2 * words / max(1, ends)
    hedges = 100 * _count(reading, _HEDGES) / max(1, words)
    return (
        Feature("a length that can be taken in", _fit(words), 2),
        Feature("short sentences and lines", exp(-max(0.0, length - _GOOD_LENGTH) / 20), 1),
        Feature("firm words", exp(-hedges / 3), 1.5),
        Feature("an early task", _early(reading), 2),
        Feature("a role", float(_ROLE.search(reading.lowered[:400]) is not None), 1),
    )


def _specificity(reading: Reading, shape: LineCounts) -> tuple[Feature, ...]:
    return (
        Feature("the form of the answer", format_signs(reading) / 4, 3),
        Feature("numbers that bound it", _rising(len(_NUMBER.findall(reading.lowered)), 2), 1.5),
        Feature("constraints", _rising(_count(reading, _CONSTRAINTS), 3), 2),
        Feature("listed points", _rising(shape.items, 7), 1.5),
        Feature("variables", _rising(len({e.name for e in reading.core_placeholders}), 1.5), 1),
    )


def _actionability(reading: Reading, shape: LineCounts) -> tuple[Feature, ...]:
    return (
        Feature("a task", float(first_task(reading) is not None), 2),
        Feature("instructions", _rising(asks(reading), 4), 3),
        Feature("numbered steps", _rising(shape.steps, 3), 1.5),
        Feature("declared variables", declared_share(reading), 1),
        Feature("enough to act on", substance(reading), 2),
    )


def _structure(reading: Reading, shape: LineCounts) -> tuple[Feature, ...]:
    words = max(1, len(reading.word_list))
    return (
        Feature("labelled parts of the prompt", _rising(shape.labels, 4), 2),
        Feature("lists", _rising(shape.items, 5), 1),
        Feature("sections of the file", _rising(len(reading.sections), 3), 1),
        Feature("no long run of plain text", 1 - min(1.0, shape.longest / max(80, words)), 1.5),
        Feature("sound fences", _sound_fences(reading), 1),
    )


def _completeness(reading: Reading) -> tuple[Feature, ...]:
    sections = [each for each in reading.sections if each is not reading.core_section]
    taught = sum(each.end - each.body for each in _titled(sections, _TEACHING))
    helped = sum(1 for _ in _titled(sections, _HELPING))
    setting = len(reading.words.keys() & _SETTING)
    return (
        Feature("front matter", _filled(reading.prompt.frontmatter), 1.5),
        Feature("examples", max(_rising(taught, 300), 0.3 * has_example(reading)), 2.5),
        Feature("goal and context", _rising(setting, 2), 1.5),
        Feature("notes on its use", _rising(helped, 2), 1),
        Feature("declared variables", declared_share(reading), 1),
        Feature("enough to act on", substance(reading), 1.5),
    )


def _safety(reading: Reading) -> tuple[Feature, ...]:
    care = _count(reading, _CARE)
    return (
        Feature("nothing that must not be there", 1.0, 6),
        Feature("words on sources, doubt and confidential data", _rising(care, 2.5), 3),
        Feature("enough to be judged", substance(reading), 1),
    )


def _titled(sections: Iterable[Section], words: frozenset[str]) -> Iterable[Section]:
    return (each for each in sections if not words.isdisjoint(each.key.split()))


def _count(reading: Reading, words: frozenset[str]) -> int:
    return sum(map(reading.words.get, words, repeat(0)))


def _rising(count: float, scale: float) -> float:
    """From 0 towards 1; about 0.63 at the scale."""
    return 1 - exp(-count / scale)


def _fit(words: int) -> float:
    enough = words / (words + _ENOUGH_WORDS)
    return enough * exp(-max(0, words - _TOO_MANY_WORDS) / _TOO_MANY_WORDS)


def _early(reading: Reading) -> float:
    task = first_task(reading)
    if task is None:
        return 0.0
    return 1 - task / max(1, len(reading.prose))


def _sound_fences(reading: Reading) -> float:
    fences = reading.fences
    sound = sum(1 for each in fences if each.closed and each.stray is None)
    return sound / len(fences) if fences else 1.0


def _filled(fields: dict[str, Any] | None) -> float:
    if not fields:
        return 0.0
    return sum(any(fields.get(key) for key in keys) for keys in _FIELDS) / len(_FIELDS)


def _shape(reading: Reading) -> LineCounts:
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
