"""How much a prompt asks for: six counts, each worth less the higher it is, and their sum.

score = 100 x sum over the counts of weight x n / (n + half), where `half` is the count that is
worth half of its weight. The bars of the tiers are fixed.
"""

import re
from collections import Counter

import msgspec

from evalwright.contracts.prompt_result import Complexity, ComplexityTier
from evalwright.prompts.document import Prompt
from evalwright.prompts.placeholders import holds_prose
from evalwright.prompts.vocabulary import concept_counts, has_vocabulary
from evalwright.signals.language import WITHOUT_SPACES
from evalwright.signals.language import words as language_words
from evalwright.signals.patterns import quick_pattern, spans_in, when_used

TIERS: tuple[tuple[float, ComplexityTier], ...] = (
    (60, "reasoning"),
    (45, "complex"),
    (30, "moderate"),
    (0, "simple"),
)


class Counts(msgspec.Struct, frozen=True):
    """What is counted in a prompt."""

    words: int
    steps: int  # items of lists, also inside a fence that holds a prompt
    constraints: int  # words such as must, never, only
    variables: int  # placeholders with different names
    sections: int  # headings, also inside a fence that holds a prompt
    examples: int  # mentions of an example


# For each count its weight and its half.
WEIGHTS: dict[str, tuple[float, float]] = {
    "words": (0.25, 800),
    "steps": (0.25, 40),
    "constraints": (0.15, 6),
    "variables": (0.15, 8),
    "sections": (0.10, 15),
    "examples": (0.10, 3),
}


CONSTRAINT_WORDS = (
    *("must", "never", "always", "only", "avoid", "cannot", "don't"),
    *("exactly", "required", "mandatory", "forbidden", "ensure", "shall"),
)
CONSTRAINT_PHRASES = ("do not ", "at least ", "at most ", "no more than ", "up to ")
_ENDS = ("", ",", ".", ":", ";", "**", ":**")
EXAMPLE_WORDS = ("example", "examples", "e.g", "(e.g", "sample", "samples")

# The words as they come out of splitting a text: with what may cling to them.
_CONSTRAINTS, _EXAMPLES = (
    frozenset(
        f"{mark}{word}{end}".encode() for word in words for mark in ("", "**") for end in _ENDS
    )
    for words in (CONSTRAINT_WORDS, EXAMPLE_WORDS)
)
_CONSTRAINT_PHRASES = tuple(phrase.encode() for phrase in CONSTRAINT_PHRASES)
_LONGEST = 2 + max(map(len, _CONSTRAINTS | _EXAMPLES))  # with the space before, and one more
_WORDS = "|".join(map(re.escape, CONSTRAINT_WORDS + EXAMPLE_WORDS)).encode()
_MAYBE_COUNTED = quick_pattern(rb"[ \t\n\r\x0b\x0c](?:\*\*)?(?:%b)" % _WORDS)
# Spaces, and anything else for what is between them: to count words takes less than to make them.
_OUTLINES = bytes(32 if chr(each) in " \t\n\r\x0b\x0c" else 97 for each in range(256))
# How the lines of items and headings begin, in a text that begins with a line feed.
_LINE = when_used(r"\n[^\S\n]*([-*+•]|#+|[0-9]+[.)]) ")


def complexity(prompt: Prompt, lowered: bytes | None = None) -> Complexity:
    """The complexity of a prompt, from what it asks and not from what it is about.

    `lowered` is its body in UTF-8, in lower case, where that is known.
    """
    counts = count(prompt, lowered)
    score = 0.0
    for name, (weight, half) in WEIGHTS.items():
        number = getattr(counts, name)
        score += 100 * weight * number / (number + half)
    score = round(score, 1)
    return Complexity(tier=next(tier for bar, tier in TIERS if score >= bar), score=score)


def count(prompt: Prompt, lowered: bytes | None = None) -> Counts:
    """Count what makes a prompt complex."""
    # What is counted is English: bytes are made small and searched much faster than other letters.
    if lowered is None:
        lowered = prompt.body.encode("utf-8", "surrogatepass").lower()
    data = b" " + lowered
    starts = (start for start, _ in spans_in(_MAYBE_COUNTED, data))
    counted = [data[start : start + _LONGEST].split(None, 1)[0] for start in starts]
    steps = sections = 0
    for block in prompt.blocks:
        if block.kind == "list_item":
            steps += 1
        elif block.kind == "heading":
            sections += 1
        elif block.kind == "fence" and holds_prose(block):
            # A prompt in a fence, by how its lines begin.
            for mark in _LINE.findall("\n" + block.text):
                steps += mark[0] != "#"
                sections += mark[0] == "#"
    has_spaces = prompt.language.script not in WITHOUT_SPACES
    constraints = sum(map(_CONSTRAINTS.__contains__, counted))
    constraints += sum(map(data.count, _CONSTRAINT_PHRASES))
    examples = sum(map(_EXAMPLES.__contains__, counted))
    if not prompt.language.is_english and has_vocabulary(prompt.language.code):
        own = prompt.body.lower()
        found = concept_counts(prompt.language.code, own, Counter(language_words(own)))
        constraints, examples = found["limits"], found["examples"]
    return Counts(
        words=data.translate(_OUTLINES).count(b" a")
        if has_spaces
        else len(language_words(prompt.body.lower())),
        steps=steps,
        constraints=constraints,
        variables=len({placeholder.name.lower() for placeholder in prompt.placeholders}),
        sections=sections,
        examples=examples,
    )
