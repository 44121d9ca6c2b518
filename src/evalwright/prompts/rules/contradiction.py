"""Instructions that cannot both be followed."""

import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from evalwright.prompts.document import Prompt
from evalwright.prompts.findings import Hit, Rule
from evalwright.prompts.rules.reading import Reading, read
from evalwright.prompts.rules.vocabulary import FILLERS


class Phrase(msgspec.Struct, frozen=True):
    """A way to ask for something: the words with which it can begin, and how it goes on."""

    words: tuple[str, ...]
    pattern: re.Pattern[str]


def _phrase(words: str, pattern: str) -> Phrase:
    return Phrase(tuple(words.split()), re.compile(pattern))


_ANSWER = r"(?:your |the |all |each )?(?:final )?(?:response|answer|output|reply|report|summary)s?"
_END = r"(?: as possible)?(?=[.,;\n])(?!, (?:but|yet))"
_FEATURE = (
    r"(?:any )?(markdown|tables|bullet points|emojis?|headings|citations|code blocks|code examples)"
    r"(?=\s*[.;,\n])"
)
_THING = r"([a-z]+\s+(?:[a-z-]+\s*){1,2})"

_SHORT = _phrase(
    "keep be",
    rf"keep {_ANSWER} (?:as )?(?:brief|short|concise)\b|be (?:as )?(?:brief|concise){_END}",
)
_LONG = _phrase(
    "be make",
    rf"be (?:as )?(?:exhaustive|comprehensive|detailed){_END}"
    rf"|make {_ANSWER} (?:as )?(?:exhaustive|comprehensive|detailed|long)\b",
)
_BARE_FORMAT = _phrase(
    "only nothing just json yaml xml csv no without",
    r"(?:only|nothing but|just)\s+(?:a |an |the )?(?:valid |raw )?(?:json|yaml|xml|csv|sql)\b"
    r"|(?:json|yaml|xml|csv)\s+only\b"
    r"|(?:no|without(?: any)?) (?:other|additional|extra|surrounding) (?:text|prose|commentary)\b",
)
_WORDS_AROUND = _phrase(
    "explain describe add write",
    r"(?:(?<=\n)|(?<=[-.;*] )|(?<=then )|(?<=also ))"
    r"(?:explain (?:your|why|how|the)|describe your reasoning|write a (?:paragraph|narrative)|"
    r"add an? (?:explanation|introduction|summary) (?:before|after|in prose))\b",
)
_QUESTIONS = _phrase(
    "ask", r"ask (?:me |the user )?(?:clarifying|follow-up|any|as many) questions\b"
)
_NO_QUESTIONS = _phrase(
    "do don't never",
    r"(?:do not|don't|never) ask (?:me |the user )?(?:any |clarifying |follow-up )*questions\b",
)
_OPPOSITES = (
    (_SHORT, _LONG),
    (_BARE_FORMAT, _WORDS_AROUND),
    (_QUESTIONS, _NO_QUESTIONS),
)

_ALWAYS = _phrase("always must sure", rf"(?:always|must(?! not)|sure to)\s+{_THING}")
_NEVER = _phrase("never must do don't", rf"(?:never|must not|do not|don't)\s+(?:ever\s+)?{_THING}")
_USE = _phrase("use include add", rf"(?:use|include|add)\s+{_FEATURE}")
_USE_NOT = _phrase(
    "do don't never avoid",
    rf"(?:(?:do not|don't|never)\s+(?:use|include|add)|avoid\s+(?:using|including))\s+{_FEATURE}",
)
# What is forbidden, and the same asked for.
_OPPOSITE_IN_THING = ((_NEVER, _ALWAYS), (_USE_NOT, _USE))

_NEGATED = re.compile(r"\b(?:not|never|don't|avoid|without|no)\W+(?:\w+\W+)?$")
_EXACTLY = _phrase(
    "exactly", r"exactly (\d+|one|two|three|four|five|six|seven|eight|nine|ten) ([a-z]+s)\b"
)


def _contradictions(prompt: Prompt) -> Iterator[Hit]:
    reading = read(prompt)
    for one, other in _OPPOSITES:
        first = next(_asked(reading, one), None)
        second = None if first is None else next(_asked(reading, other), None)
        if first is not None and second is not None:
            yield _hit(reading, first, second)
    for forbidden, wanted in _OPPOSITE_IN_THING:
        yield from _about_one_thing(reading, forbidden, wanted)
    yield from _in_number(reading)


def _asked(reading: Reading, instruction: Phrase) -> Iterator[re.Match[str]]:
    """Where an instruction is given, and not the opposite of it."""
    for place in sorted(reading.places(*instruction.words)):
        match = instruction.pattern.match(reading.lowered, place)
        if match is not None and not _NEGATED.search(reading.lowered, max(0, place - 30), place):
            yield match


def _about_one_thing(reading: Reading, forbidden: Phrase, wanted: Phrase) -> Iterator[Hit]:
    things: dict[tuple[str, ...], re.Match[str]] = {}
    for match in _asked(reading, forbidden):
        things.setdefault(_essence(match[1]), match)
    for match in _asked(reading, wanted) if things else ():
        other = things.get(_essence(match[1]))
        if other is not None:
            yield _hit(reading, match, other)


def _essence(phrase: str) -> tuple[str, ...]:
    return tuple(islice((word for word in phrase.split() if word not in FILLERS), 2))


def _in_number(reading: Reading) -> Iterator[Hit]:
    counts: dict[str, re.Match[str]] = {}
    for match in _asked(reading, _EXACTLY):
        first = counts.setdefault(match[2], match)
        if first[1] != match[1]:
            yield _hit(reading, match, first)


def _hit(reading: Reading, one: re.Match[str], other: re.Match[str]) -> Hit:
    first, second = sorted((one, other), key=lambda match: match.start())
    line = reading.line(reading.place(first.start()))
    return Hit(
        reading.place(second.start()),
        f"“{_cited(second)}” contradicts “{_cited(first)}” in line {line}.",
    )


def _cited(match: re.Match[str]) -> str:
    return " ".join(match[0].split())


RULES = (
    Rule(
        id="PE211",
        name="contradictory-instructions",
        severity="warning",
        criterion="clarity",
        summary="Two instructions that cannot both be followed.",
        explanation=(
            "Brief and exhaustive, JSON alone and an explanation in prose, always and never the "
            "same thing, exactly three and exactly five: a model obeys one of them, and which "
            "one changes. Keep one, or say when each holds."
        ),
        check=_contradictions,
    ),
)
