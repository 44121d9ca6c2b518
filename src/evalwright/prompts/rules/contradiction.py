"""Instructions that cannot both be followed."""

import re
from collections.abc import Collection, Iterator

import msgspec

from evalwright.prompts.findings import Hit, rule
from evalwright.prompts.rules.opposites import opposite_sentences
from evalwright.prompts.rules.prompt_text import Reading
from evalwright.signals.patterns import when_used
from evalwright.signals.word_tables import either, text_tables, word_tables


class Phrase(msgspec.Struct, frozen=True):
    """A way to ask for something: the words with which it can begin, and how it goes on."""

    words: list[str]
    pattern: re.Pattern[str]
    needs: str | None  # a word further on, without which there is no need to search


_FILLERS = frozenset(
    "the a an any your their its all this that of to and or in on for with".split()
)
_PARTS, _BEGINS, _PHRASES, _NEEDS, _ORDERS, _OCCASIONS, _ = word_tables(__file__).values()

_ASKED_FOR = {
    name: Phrase(
        words,
        when_used(re.sub(r"\{([a-z]+)\}", lambda part: _PARTS[part[1]][0], either(_PHRASES[name]))),
        next(iter(_NEEDS.get(name, ())), None),
    )
    for name, words in _BEGINS.items()
}
# What cannot both be done, with an example of how both can be said.
_OPPOSITES = [
    (*pair.split(" / "), remedy) for pair, remedy in text_tables(__file__)["opposites"].items()
]
# What is forbidden, and the same asked for.
_OPPOSITE_IN_THING = (("never", "always"), ("use not", "use"))

# A sentence that forbids something, or asks for it, from its first word to its last.
_WHOLE = when_used(
    r"(?:^|(?<=\n)|(?<=[.!?;] ))[ \t>]*(?:[-*+•]|\d+[.)])?[ \t]*"
    r"((?:please |(?:and|but|so|also),? )?[a-z][^.!?;:,\n\"“”`|]{8,160})(?=[.!?;]|\n|$)"
)
_FORBIDS, _DEMANDS, _NO_LIMIT = map(when_used, map(either, _ORDERS.values()))
_MODAL = when_used(r"\b(?:must|should|shall)( not| never)?(?: always)? be\b")
_OCCASION, _OWN_SECTION, _GENERAL_LABEL = map(when_used, map(either, _OCCASIONS.values()))
_FEWEST = 2  # words
_BANS = ("not", "never", "don't", "avoid", "refrain", "under")

# Both in one breath: “the answer only and any reasoning”.
_ONLY_AND_MORE = when_used(
    r"\bonly and (?:any|the|your|an?)\b[^.\n]{0,30}\b(?:reasoning|explanations?|rationale)\b"
)
_SIZES = frozenset(
    "words characters sentences bullets items lines points paragraphs pages columns rows".split()
)
_NEAR = 3000  # characters
_NEGATED = when_used(r"\b(?:not|never|don't|avoid|without|no)\W+(?:\w+\W+)?$")


@rule("PE211", "warning", "clarity")
def contradictory_instructions(reading: Reading) -> Iterator[Hit]:
    """Two instructions that cannot both be followed.

    Brief and exhaustive, JSON alone and an explanation in prose, no explanation and a reason,
    always and never the same thing, exactly three and exactly five: a model obeys one of them, and
    which one changes. Keep one, or say when each holds: “JSON alone; put the explanation into the
    field `reason`”. The same sentence as an order and as a ban is found wherever no heading, label
    or condition tells the two apart; outside English the ban needs a “never”.
    """
    if reading.language.is_english:
        # One pair may be opposite in several ways.
        hits: dict[int, Hit] = {}
        for hit in _in_english(reading):
            hits.setdefault(reading.line(hit.offset), hit)
        yield from hits.values()
        return
    for pair in opposite_sentences(reading.language.code, reading.lowered, _NEAR):
        first, second = sorted(pair, key=lambda each: each.start)
        cited = [" ".join(reading.prose[e.start : e.end].split()) for e in (first, second)]
        start = second.end - len(reading.prose[second.start : second.end].lstrip())
        line = reading.line(reading.place(first.end - 1))
        yield Hit(
            reading.place(start),
            f"“{cited[1].lstrip('-*• ')}” contradicts “{cited[0].lstrip('-*• ')}” in line "
            f"{line}: keep one, or say when each holds, as in “{_IN_TURN}.”",
        )


def _in_english(reading: Reading) -> Iterator[Hit]:
    for one, other, remedy in _OPPOSITES:
        first = next(_asked(reading, one), None)
        second = None if first is None else next(_asked(reading, other), None)
        if first is not None and second is not None and _are_near(first, second):
            yield _hit(reading, first, second, remedy)
    for forbidden, wanted in _OPPOSITE_IN_THING:
        things: dict[tuple[str, ...], re.Match[str]] = {}
        for match in _wholly_asked(reading, forbidden):
            things.setdefault(_essence(match[1]), match)
        for match in _wholly_asked(reading, wanted) if things else ():
            opposite = things.get(_essence(match[1]))
            if opposite is not None and _are_near(match, opposite):
                yield _hit(reading, match, opposite, _IN_TURN)
    yield from _in_sentences(reading)
    counts: dict[str, re.Match[str]] = {}
    for match in _asked(reading, "exactly"):
        first = counts.setdefault(match[2], match)
        # Parts of an answer have sizes of their own.
        if first[1] != match[1] and match[2] not in _SIZES:
            yield _hit(reading, match, first, _IN_NUMBER)
    yield from _in_language(reading)
    may_be = "only and " in reading.lowered
    for match in _ONLY_AND_MORE.finditer(reading.lowered) if may_be else ():
        yield Hit(
            reading.place(match.start()),
            f"“{_cited(match)}” asks for one thing alone and for another: name both parts of the "
            "answer, such as “first the number, then the reasoning”.",
        )


def _in_sentences(reading: Reading) -> Iterator[Hit]:
    if reading.words.keys().isdisjoint(_BANS):
        return
    banned: dict[tuple[str, ...], re.Match[str]] = {}
    for match, is_ban, rest in _sentences(reading.lowered, _BANS):
        if is_ban and len(rest) >= _FEWEST:
            banned.setdefault(rest, match)
    # Of the verb, the ending may differ.
    telling = {max(rest[1:], key=len) for rest in banned}
    for match, is_ban, rest in _sentences(reading.lowered, telling):
        ban = None if is_ban else banned.get(rest)
        if (
            ban is not None
            and _are_near(match, ban)
            and _heading(reading, match) == _heading(reading, ban)
        ):
            yield _hit(reading, match, ban, _IN_TURN)


def _sentences(
    text: str, signs: Collection[str]
) -> Iterator[tuple[re.Match[str], bool, tuple[str, ...]]]:
    """The sentences of the lines that hold one of some words, each with its `_order`."""
    if not signs:
        return
    end = -1
    for found in re.finditer("|".join(map(re.escape, signs)), text):
        if found.start() > end:
            start = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", found.end())
            end = len(text) if end < 0 else end
            for match in _WHOLE.finditer(text, start, end):
                yield match, *_order(match[1])


def _order(sentence: str) -> tuple[bool, tuple[str, ...]]:
    """Whether a sentence forbids, and the words that say what."""
    modal = _MODAL.search(sentence)
    if modal is not None:
        return modal[1] is not None, _essence(_MODAL.sub("be", sentence))
    bare = _NO_LIMIT.sub("", sentence.strip())
    ban = _FORBIDS.match(bare)
    start = ban or _DEMANDS.match(bare)
    verb, _, rest = bare[start.end() if start is not None else 0 :].partition(" ")
    if ban is not None and ban["doing"]:
        verb = verb.removesuffix("ing")
    return ban is not None, _essence(f"{verb.removesuffix('e')} {rest}")


def _heading(reading: Reading, match: re.Match[str]) -> str:
    """The heading or the label above that says of what case a sentence speaks; or nothing."""
    before = reading.lowered[max(0, match.start(1) - _NEAR) : match.start(1)]
    lines = [line.strip() for line in before.split("\n")[:-1] if line.strip()]
    at = next((n for n, line in enumerate(reversed(lines)) if line.startswith("#")), len(lines))
    below = lines[len(lines) - at :]
    label = next((each for each in reversed(below) if not _POINT.match(each)), "")
    if label.endswith(":") and not _GENERAL_LABEL.search(label):
        return label
    heading = lines[-1 - at] if at < len(lines) else ""
    is_case = heading.startswith("###") or _OWN_SECTION.search(heading)
    return heading if is_case and not _GENERAL_LABEL.search(heading) else ""


def _asked(reading: Reading, name: str) -> Iterator[re.Match[str]]:
    phrase = _ASKED_FOR[name]
    if phrase.needs is not None and phrase.needs not in reading.words:
        return
    for place in sorted(reading.places(*phrase.words)):
        match = phrase.pattern.match(reading.lowered, place)
        if match is not None and not _NEGATED.search(reading.lowered, max(0, place - 30), place):
            yield match


def _wholly_asked(reading: Reading, name: str) -> Iterator[re.Match[str]]:
    """Where a phrase is asked, but not on an occasion, and not in quotes."""
    text = reading.lowered
    for match in _asked(reading, name):
        before = text[max(0, match.start() - 200) : match.start()]
        sentence = _SENTENCE_START.split(before)[-1]
        after = text[match.end() : match.end() + 2].strip(".,;!")
        if _OCCASION.search(sentence) or after[:1] in _ENDS:
            continue
        if " " not in match[1] and sentence.strip(" \t-*•.)0123456789") not in _STARTS:
            continue
        lines = [line for line in before.split("\n")[:-1] if line.strip()]
        # A label above a line, such as “For guests:” or a heading, says for whom it holds.
        above = next((each.strip() for each in reversed(lines) if not _POINT.match(each)), "")
        if not above.endswith(":") or _GENERAL_LABEL.search(above):
            yield match


_SENTENCE_START = when_used(r"[.!?;]\s+|\n")
_STARTS = ("", "you", "please")
_EVER = (*_STARTS, "always", "you must", "you must always", "you should", "you always")
_ENDS = tuple('"”`')
_POINT = when_used(r"[ \t]*(?:[-*+•]|\d+[.)])[ \t]|[^\n:]*$")


def _are_near(one: re.Match[str], other: re.Match[str]) -> bool:
    """Whether two passages are about the same; far apart, they are about different occasions."""
    return abs(one.start() - other.start()) <= _NEAR


def _essence(phrase: str) -> tuple[str, ...]:
    return tuple(word for word in phrase.split() if word not in _FILLERS)


def _in_language(reading: Reading) -> Iterator[Hit]:
    first: re.Match[str] | None = None
    for match in _asked(reading, "one language"):
        before = reading.lowered[max(0, match.start() - 200) : match.start()]
        if _SENTENCE_START.split("\n" + before)[-1].strip(" \t-*•.)0123456789") not in _EVER:
            continue  # on an occasion
        first = first or match
        if first[1] != match[1] and _are_near(first, match):
            yield _hit(reading, match, first, "Answer in English, and in French on request")
            return


_IN_TURN = "Use tables in reports, and never in chats"
_IN_NUMBER = "Name exactly three risks, and five for a contract"


def _hit(reading: Reading, one: re.Match[str], other: re.Match[str], remedy: str) -> Hit:
    first, second = sorted((one, other), key=lambda match: match.start())
    line = reading.line(reading.place(first.start()))
    return Hit(
        reading.place(second.start()),
        f"“{_cited(second)}” contradicts “{_cited(first)}” in line {line}: keep one, or say when "
        f"each holds, as in “{remedy}.”",
    )


def _cited(match: re.Match[str]) -> str:
    return " ".join(match[0].replace('"', "").replace("'", "").split()).strip(":.")
