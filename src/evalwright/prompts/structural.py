"""Scores without a model: graded aspects of a prompt, lowered by what the rules found.

The aspects are those that a reader with a rubric looks for: work rather than a role, the form of
the answer, limits, odd cases, examples. They are counted for each hundred words, so length earns
nothing, by marks that all languages share and by tables of words for each language.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import exp, log2

import msgspec

from evalwright.contracts.prompt_result import WEIGHTS, Criterion, Finding, FindingSeverity, grade
from evalwright.prompts.file_kinds import PromptKind
from evalwright.prompts.rubric import ASPECTS, LEXICAL, RUBRIC, RULES_ADVICE, STRUCTURAL
from evalwright.prompts.rules.prompt_text import Reading
from evalwright.prompts.vocabulary import Concept, concept_counts, has_vocabulary, shows_example
from evalwright.signals.language import WITHOUT_SPACES
from evalwright.signals.patterns import quick_pattern, when_used

# What one finding takes off a score; each further finding of its rule takes half as much.
PENALTIES: Mapping[FindingSeverity, float] = {"error": 0.2, "warning": 0.1, "info": 0.03}
# What a finding leaves of every score where the whole prompt suffers: a model cannot do what two
# orders forbid each other, and gets no prompt from a template that cannot be filled in.
_SPOILS: Mapping[str, float] = {"PE211": 0.9, "PE105": 0.75, "PE307": 0.95}
_LOWEST, _SPAN = 1.0, 9.0
_DIGITS = 2
_GOOD, _WEAK = 0.75, 0.4
_NAMED = 2  # aspects in a reason
_READ_AT_WORK = ("agent_rules", "skill")

_FEW = 0.15  # of a hundred words: so that little of a thing is enough in a short prompt
# What is left of the scores of a text without an instruction or a question, and of one that
# addresses nobody and speaks neither of an input nor of an answer.
_ASKS_NOTHING, _ADDRESSES_NOBODY = 0.7, 0.75
_KEPT_IN_MIND: frozenset[PromptKind] = frozenset({"agent_rules", "skill"})  # they have no answer
_SHORT = 60  # words
_UNLISTED = 0.35  # what prose is worth where points are looked at
_FEW_WORDS, _MANY_WORDS = 5, 25  # of a point: below it is a keyword, above it counts as so many
_LETTERS_OF_A_WORD = 2  # in these scripts, roughly
_DECLARED_FORMS = frozenset({"responseFormat", "response_format", "jsonSchema", "outputs"})
_DECLARED_WORTH = 3  # words on the form
_MARKS = frozenset("-*+•・●▪◦–第")
_BEFORE_LABEL, _AFTER_LABEL = frozenset("#*<\\【［{"), frozenset(":：*")
_ENDS = frozenset(".!?;:。！？；：।؟")
_FENCES = ("```", "~~~")

_ITEM = re.compile(
    r"[ \t>]*(?:[-*+•・●▪◦–]|\d{1,3}[.)）、．]|[①-⑳]|[一二三四五六七八九十]{1,3}、"
    r"|第\w{1,3}步)[ \t*]*"
)
_LABEL = re.compile(
    r"[ \t>*_\\【\[]{0,9}[^\W\d_][^\n:：.!?。]{0,45}[:：](?:\*\*)?[ \t\r]*$"
    r"|[ \t]*\\?#{1,6}[ \t]?\S|\*\*[^*\n]+\*\*[:：]?[ \t\r]*$|[ \t]*[【［].{1,40}[】］]"
    r"|[ \t]*\\?</?[^\W\d][^<>\n]{0,60}>[ \t\r]*$|[ \t]*\{%"
)
_LEAD = when_used(r"[ \t>*_\-•\d.)\\]{0,9}[^\W\d_][^\n:：.!?。]{1,35}[:：](?:\*\*)?[ \t]*\S")
# The first letter precedes what looks back at it, so that `re` can skip to the next one.
_NUMBER = when_used(r"\d(?<![\w.]\d)[\d,.]*")
_KEY = when_used(r"[\"'`“][^\W\d][\w ]{0,30}[\"'`”][ \t]*:")
_QUOTED = when_used(
    r"\"[^\"\n]{1,80}\"|“[^”\n]{1,80}”|«[^»\n]{1,80}»|「[^」\n]{1,80}」|„[^“”\n]{1,80}[“”]|`[^`\n]{1,60}`"
)
_QUOTES = "\"'`“«「„"  # with which keys and quotations begin
_CLASSES = when_used(
    r"[A-Z](?<!\w[A-Z])[A-Z_]{2,40}(?:[ \t]*[,/|][ \t]*|[ \t]\w{1,4}[ \t])[A-Z][A-Z_]{2,40}\b"
)
_ANY_CLASSES = quick_pattern(
    rb"[A-Z][A-Z_]{2,40}(?:[ \t]*[,/|][ \t]*|[ \t][\w\x80-\xff]{1,16}[ \t])[A-Z][A-Z_]{2}"
)
_SENTENCE_END = when_used(r"[.!?;。！？；؟।](?:(?<=[。！？；؟।])|[ \t]+)(?=\S)")
_TEMPLATED = when_used(r"\{\{[^{}\n]{1,60}\}\}|\{%[^{}\n]{1,80}%\}")


class LineCounts(msgspec.Struct, frozen=True, gc=False):
    """The lines of a prompt, counted."""

    lines: int
    points: int  # items of lists, and lines that stand like items
    steps: int  # points with a number
    keywords: int  # points of a few words
    point_words: float  # of all points
    labels: int  # headings, tags, and labels on a line of their own
    leads: int  # lines that begin with a label


class Evidence(msgspec.Struct, frozen=True):
    """What was counted in a prompt."""

    words: int
    sentences: int
    concepts: Mapping[Concept, int]
    is_lexical: bool  # there is a table of the words of its language
    lines: LineCounts
    numbers: int
    keys: int  # as in JSON
    quotes: int
    examples: int  # sections that show one
    forms: int  # of the answer: classes such as ALLOW or BLOCK, and what the file declares
    variables: int
    asks: bool  # there is an instruction or a question
    addresses: bool  # somebody, or speaks of an input or an answer


class StructuralResult(msgspec.Struct, frozen=True):
    """A score from 1 to 10 and a reason for each criterion, their mean in percent, a summary.

    The advice says for each criterion what to change first, with an example.
    """

    rubric: Mapping[Criterion, tuple[float, str]]
    percentage: float
    summary: str
    advice: Mapping[Criterion, str]


def structural_scores(reading: Reading, findings: Sequence[Finding]) -> StructuralResult:
    """The scores of a prompt by its aspects and findings."""
    evidence = gather(reading)
    grades = aspect_grades(evidence)
    filled = evidence.words / (evidence.words + 1)
    filled *= 1 if evidence.asks else _ASKS_NOTHING
    filled *= 1 if evidence.addresses else _ADDRESSES_NOBODY
    for each in findings:
        filled *= _SPOILS.get(each.rule, 1)
    by_criterion: dict[Criterion, list[Finding]] = {}
    for each in findings:
        by_criterion.setdefault(each.criterion, []).append(each)
    rubric = {
        criterion: _score(criterion, grades, by_criterion.get(criterion, ()), filled)
        for criterion in RUBRIC
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
    # The weakest aspect of each criterion, the worst criterion first; none of them twice.
    own = RULES_ADVICE if reading.prompt.kind in _READ_AT_WORK else {}
    left = set(grades)
    advice: dict[Criterion, str] = {}
    for criterion in sorted(rubric, key=lambda each: rubric[each][0]):
        names = [name for name, _ in RUBRIC[criterion] if name in left]
        weakest = min(names, key=grades.__getitem__)
        left.discard(weakest)
        advice[criterion] = own.get(weakest) or ASPECTS[weakest].advice
    return StructuralResult(rubric, percentage, summary, advice)


def _score(
    criterion: Criterion,
    grades: Mapping[str, float],
    findings: Sequence[Finding],
    filled: float,
) -> tuple[float, str]:
    reached = possible = 0.0
    best, worst = [], []
    for name, weight in RUBRIC[criterion]:
        reached += weight * (grade := grades[name])
        possible += weight
        if grade >= _GOOD:
            best.append((-weight * grade, ASPECTS[name].title))
        elif grade <= _WEAK:
            worst.append((-weight * (1 - grade), ASPECTS[name].title))
    share = reached / possible * filled * kept_after(findings)
    parts = [
        f"{name}: {', '.join([title for _, title in sorted(ranked)[:_NAMED]])}"
        for name, ranked in (("good", best), ("lacking", worst))
        if ranked
    ]
    if findings:
        counts = Counter(each.rule for each in findings).items()
        parts.append(f"found: {', '.join(f'{rule} ×{n}' if n > 1 else rule for rule, n in counts)}")
    text = "; ".join(parts) or "nothing stands out"
    return round(_LOWEST + _SPAN * share, _DIGITS), f"{text[0].upper()}{text[1:]}."


def kept_after(findings: Sequence[Finding]) -> float:
    """The share of a score that is left after findings."""
    kept = 1.0
    if not findings:
        return kept
    for (_, severity), count in Counter((each.rule, each.severity) for each in findings).items():
        kept *= 1 - PENALTIES[severity] * (2 - 0.5 ** (count - 1))
    return kept


def aspect_grades(found: Evidence) -> dict[str, float]:
    """Each aspect from 0 to 1, by what there is of it in a hundred words."""
    count, lines = found.concepts, found.lines
    hundreds = found.words / 100
    size = hundreds + _FEW
    whole = hundreds + 1  # where what a short prompt says once is neither good nor bad
    sentence = found.words / max(1, found.sentences)
    point = lines.point_words / max(1, lines.points)
    unneeded = 0.8 * min(1.0, max(0.0, 2 - found.words / _SHORT))  # a short text needs no parts
    full_points = lines.points - 0.7 * lines.keywords + 0.5 * lines.steps
    shown = count["examples"] + found.examples + found.keys / 2 + found.quotes / 3
    limits, cases = _rising(count["limits"] / size, 2.5), _rising(count["cases"] / size, 0.8)
    grades: dict[str, float] = {
        "work": exp(-count["you"] / whole / 3),
        "deeds": exp(-max(0, count["claims"] - 1) / whole / 2),
        "voice": exp(-count["self"] / whole),
        "firmness": exp(-count["hedges"] / whole / 2),
        "sentences": exp(-max(0.0, sentence - 14) / 15),
        "whole_points": 1 - max(0, lines.keywords - 3) / max(4, lines.points),
        "brevity": min(1.0, max(0.0, 1 - log2((found.words + 1) / 40) / 6)),
        "form": _rising((count["forms"] + found.forms + found.keys / 3) / size, 2.5),
        "limits": limits,
        "numbers": _rising(found.numbers / size, 1.5),
        "instructions": _rising(count["asks"] / size, 4),
        "cases": cases,
        "points": _rising(full_points / size, 3),
        "worded_points": min(1.0, point / 12) if lines.points else _UNLISTED,
        "parts": max(unneeded, _rising((lines.labels + lines.leads) / size, 3)),
        "examples": _rising(shown / size, 0.8),
        "input": _rising((count["inputs"] + 2 * found.variables) / whole, 2.5),
        "doubt": (2 * limits + cases) / 3,
        "harmless": 1.0,
    }
    if not found.is_lexical:  # what cannot be read counts as good as what can be seen
        seen = sum(grades[name] for name in STRUCTURAL) / len(STRUCTURAL)
        grades |= {name: max(grades[name], seen) for name in LEXICAL}
    return grades


def _rising(count: float, scale: float) -> float:
    """From 0 towards 1; about 0.63 at the scale."""
    return 1 - exp(-count / scale)


def gather(reading: Reading) -> Evidence:
    """Count what a prompt shows of itself."""
    language, core, prose = reading.prompt.language, reading.core, reading.prose
    concepts = concept_counts(language.code, reading.lowered, reading.words)
    lines = line_counts(prose, is_unspaced=language.script in WITHOUT_SPACES)
    is_known = has_vocabulary(language.code)
    declared = reading.prompt.frontmatter or {}
    forms = _DECLARED_WORTH * any(map(declared.get, _DECLARED_FORMS))
    if _ANY_CLASSES.search(core.encode("utf-8", "surrogatepass")):
        forms += len(_CLASSES.findall(core))
    quotes = any(map(core.__contains__, _QUOTES))
    templated = len(set(_TEMPLATED.findall(core))) if "{" in core else 0
    variables = max(templated, len({each.name for each in reading.placeholders}))
    spoken_of = concepts["you"] + concepts["forms"] + forms + variables + concepts["inputs"] // 2
    return Evidence(
        words=len(reading.word_list),
        sentences=lines.lines + len(_SENTENCE_END.findall(prose)),
        concepts=concepts,
        is_lexical=is_known,
        lines=lines,
        numbers=len(_NUMBER.findall(prose)),
        keys=len(_KEY.findall(core)) if quotes else 0,
        quotes=len(_QUOTED.findall(core)) if quotes else 0,
        examples=sum(shows_example(each.key) for each in reading.sections),
        forms=forms,
        variables=variables,
        asks=concepts["asks"] > 0 or "?" in core or "？" in core or not is_known,
        addresses=spoken_of > 0 or reading.prompt.kind in _KEPT_IN_MIND or not is_known,
    )


def line_counts(prose: str, *, is_unspaced: bool) -> LineCounts:
    """Tell points, labels and plain lines apart."""
    lines = points = steps = keywords = labels = leads = 0
    point_words = 0.0
    in_run = False  # the line before ended a sentence, so that this one stands like an item
    for line in prose.split("\n"):
        text = line.strip()
        if not text or text.startswith(_FENCES):
            in_run = False
            continue
        lines += 1
        first, last = text[0], text[-1]
        item = _ITEM.match(line) if first in _MARKS or first.isnumeric() else None
        may_label = first in _BEFORE_LABEL or last in _AFTER_LABEL
        if item is None and may_label and _LABEL.match(line):
            labels += 1
            in_run = False
            continue
        if item is not None or in_run:
            said = text if item is None else line[item.end() :]
            words = len(said) / _LETTERS_OF_A_WORD if is_unspaced else said.count(" ") + 1
            points += 1
            steps += item is not None and first.isnumeric()
            keywords += words < _FEW_WORDS
            point_words += min(words, _MANY_WORDS)
        leads += (":" in text or "：" in text) and _LEAD.match(line) is not None
        in_run = last in _ENDS
    return LineCounts(lines, points, steps, keywords, point_words, labels, leads)
