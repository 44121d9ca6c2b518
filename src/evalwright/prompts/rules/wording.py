"""Rules about words, sentences and length."""

import re
from collections.abc import Iterator
from functools import lru_cache
from string import ascii_lowercase

from evalwright.prompts.findings import Hit, Rule
from evalwright.prompts.rules.reading import Reading, lowered_in_place, quick_pattern
from evalwright.prompts.rules.task import TASK_VERBS

LONG_SENTENCE = 50  # words
LONG_PARAGRAPH = 150  # words
TOKEN_BUDGET = 4000
_BYTES_PER_TOKEN = 4
_SHOUTED_WORDS = 5
_SHOWN = 40  # characters of a cited passage

_VAGUE_AMOUNTS = ("few", "several", "various", "some", "couple", "number", "amount")
_VAGUE_AMOUNT = re.compile(
    r"(?:several|various|some|(?<=a )few|(?<=a )couple of|(?<=a )number of|"
    r"(?:(?<=reasonable )|(?<=appropriate ))(?:number|amount) of)\s+(?:[a-z-]+\s+){0,2}"
    r"(?:examples?|options?|ideas?|alternatives?|suggestions?|recommendations?|points?|items?|"
    r"questions?|paragraphs?|sentences?|words|bullets?|steps?|sections?|variations?|versions?|"
    r"scenarios?|details?|headlines?|metrics|tips|reasons?)\b"
)
_COMPLETE = ("several", "various", "some")
_VAGUE_CONDITIONS = ("needed", "appropriate", "necessary")
_VAGUE_CONDITION = re.compile(
    r"(?:(?<=\bas )|(?<=\bwhere )|(?<=\bif ))(?:needed|appropriate|necessary)\b"
)
_SENTENCE_START = re.compile(r"[\n.!?;]")
_FIRST_WORD = re.compile(r"[\s>*_#\d.()\-•]*(?:please |then )?([a-z-]+)")
_NEGATIONS = ("not", "don't", "never", "do", "cannot", "can't", "shouldn't", "must", "should")
_DOUBLE_NEGATIVE = re.compile(
    r"(?:do not|don't|never|must not|should not|shouldn't|cannot|can't)\s+(?:ever\s+)?"
    r"(?:fail to|neglect to|omit|avoid|refrain from|not|exclude)\b"
    r"|not (?:un(?:common|likely|reasonable|necessary|important|related|clear|usual)|"
    r"im(?:possible|probable|proper)|in(?:frequent|significant|correct|valid)|without)\b"
)
_CAPITALS = re.compile(r"\b[A-Z][A-Z']+\b(?:[ ,]+\b[A-Z][A-Z']*\b){4,}")
_SHORT_CAPITALS = frozenset("THE TO OF IS ARE NOT YOU MUST ANY THIS THAT BE".split())
_WITHIN_A_SENTENCE = tuple(f" {word} " for word in _SHORT_CAPITALS)
_EXCLAMATION = re.compile(r"!{3,}")
_PARAGRAPH = re.compile(r"[^\n]+(?:\n(?![ \t]*(?:\n|[-*+•|>#]|\d+[.)]|```|\*\*))[^\n]+)*")
_NO_PARAGRAPH = re.compile(r"[ \t]*(?:[|>#]|```)")
_SENTENCE_END = re.compile(r"[.!?:;](?=[\s*_\"'”)]|$)|\s[\u2013\u2014-]\s|\n")
_LEFTOVER = re.compile(
    r"\bTODO\b(?=[:\s(\]])|\bFIXME\b|\bLorem ipsum\b|"
    r"\[[^\]\n]{0,60}\b(?:to be (?:added|written|defined|completed|determined)|TBD|TODO)\b"
    r"[^\]\n]{0,40}\]"
    r"|\bWORK IN PROGRESS\b|\bcurrently under development\b"
    r"|\[(?:Use case|Tip) 1\]",
    re.IGNORECASE,
)
_LEFTOVER_SIGNS = (
    *("todo", "fixme", "lorem ipsum", "tbd", "to be added", "to be written", "to be defined"),
    *("to be completed", "to be determined", "work in progress", "currently under development"),
    *("[use case 1]", "[tip 1]"),
)
_ANY_LEFTOVER_SIGN = b"(?i)" + b"|".join(re.escape(sign.encode()) for sign in _LEFTOVER_SIGNS)


def _vague(reading: Reading) -> Iterator[Hit]:
    for pattern, words in (
        (_VAGUE_AMOUNT, _VAGUE_AMOUNTS),
        (_VAGUE_CONDITION, _VAGUE_CONDITIONS),
    ):
        for place in reading.places(*words):
            match = pattern.match(reading.lowered, place)
            if match is not None and _is_instruction(reading, place):
                yield _vague_hit(reading, match)


def _vague_hit(reading: Reading, match: re.Match[str]) -> Hit:
    start = match.start()
    if not match[0].startswith(_COMPLETE):  # the word before belongs to it: “a few”, “as needed”
        start = len(reading.lowered[: start - 1].rstrip(ascii_lowercase))
    phrase = " ".join(reading.lowered[start : match.end()].split())
    return Hit(
        reading.place(start),
        f"“{phrase}” leaves open how many or when: give a number or a condition.",
    )


def _is_instruction(reading: Reading, index: int) -> bool:
    """Whether the sentence around an index starts with a verb that asks for something."""
    window = reading.lowered[max(0, index - 300) : index]
    starts = [match.end() for match in _SENTENCE_START.finditer(window)]
    first = _FIRST_WORD.match(window, starts[-1] if starts else 0)
    return first is not None and first[1] in TASK_VERBS


def _double_negative(reading: Reading) -> Iterator[Hit]:
    for place in reading.places(*_NEGATIONS):
        match = _DOUBLE_NEGATIVE.match(reading.lowered, place)
        if match is not None:
            phrase = " ".join(match[0].split())
            yield Hit(reading.place(place), f"“{phrase}” negates twice: say what to do instead.")


def _shouting(reading: Reading) -> Iterator[Hit]:
    shouted = any(map(reading.prose.__contains__, _WITHIN_A_SENTENCE))
    for match in _CAPITALS.finditer(reading.prose) if shouted else ():
        if _is_shouted(match[0]) and not _is_bracketed(reading.prose, match.start()):
            yield Hit(
                reading.place(match.start()),
                f"“{_cited(match[0])}” is shouted: emphasis on everything is emphasis on nothing.",
            )
    for match in _EXCLAMATION.finditer(reading.prose) if "!!!" in reading.prose else ():
        yield Hit(reading.place(match.start()), "One exclamation mark is enough.")


def _is_shouted(text: str) -> bool:
    """Sentences hold short words; rows of acronyms and names of options do not."""
    words = set(re.split(r"[ ,]+", text))
    return len(words) >= _SHOUTED_WORDS and not words.isdisjoint(_SHORT_CAPITALS)


def _is_bracketed(text: str, index: int) -> bool:
    """Whether an index lies in a variable, where capitals are the custom."""
    line = text[max(text.rfind("\n", 0, index) + 1, index - 200) : index]
    return any(line.rfind(opening) > line.rfind(closing) for opening, closing in ("[]", "{}", "<>"))


def _long_sentence(reading: Reading) -> Iterator[Hit]:
    for start, end in _paragraphs(reading):
        at = start
        for sentence in _SENTENCE_END.split(reading.prose[start:end].replace("\n", " ")):
            count = len(sentence.split())
            if count > LONG_SENTENCE:
                place = reading.prose.find(sentence[:20].strip(), at, end)
                yield Hit(
                    reading.place(max(place, at)),
                    f"A sentence of {count} words: split it, or make a list of it.",
                )
            at = min(at + len(sentence), end)


def _wall(reading: Reading) -> Iterator[Hit]:
    for start, end in _paragraphs(reading):
        count = len(reading.prose[start:end].split())
        if count > LONG_PARAGRAPH:
            yield Hit(
                reading.place(start),
                f"A paragraph of {count} words: break it up or list its points.",
            )


@lru_cache(maxsize=1)
def _paragraphs(reading: Reading) -> list[tuple[int, int]]:
    """Paragraphs and list items that are long enough to hold a long sentence."""
    spans = (match.span() for match in _PARAGRAPH.finditer(reading.prose))
    return [
        (start, end)
        for start, end in spans
        if end - start > 4 * LONG_SENTENCE and _NO_PARAGRAPH.match(reading.prose, start) is None
    ]


def _leftover(reading: Reading) -> Iterator[Hit]:
    text = reading.text
    if quick_pattern(_ANY_LEFTOVER_SIGN).search(reading.data) is None:
        return
    lowered = lowered_in_place(text)
    lines = {
        lowered.rfind("\n", 0, found.start()) + 1
        for sign in _LEFTOVER_SIGNS
        for found in re.finditer(re.escape(sign), lowered)
    }
    for start in sorted(lines):
        end = text.find("\n", start)
        match = _LEFTOVER.search(text, start, len(text) if end < 0 else end)
        if match is not None and not _is_topic(reading, match):
            yield Hit(
                match.start(), f"“{_cited(match[0])}” is a leftover: finish this part or remove it."
            )


def _is_topic(reading: Reading, match: re.Match[str]) -> bool:
    """Whether the words are what a prompt is about, or how an answer marks what is open."""
    word = match[0].strip("[]").lower()
    if reading.prompt.type != "markdown":
        return match[0] not in reading.core
    if word == "todo" and match[0].strip("[]") != "TODO":
        return True
    return word in ("todo", "tbd") and reading.fence_at(match.start()) is not None


def _over_budget(reading: Reading) -> Iterator[Hit]:
    tokens = len(reading.core.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN
    if tokens > TOKEN_BUDGET:
        yield Hit(
            reading.place(0),
            f"The prompt takes about {tokens} tokens, more than {TOKEN_BUDGET}: shorten it or "
            "load parts of it when they are needed.",
        )


def _cited(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1].rstrip() + "…"


RULES = (
    Rule(
        id="PE205",
        name="leftover",
        severity="warning",
        criterion="completeness",
        summary="TODO, lorem ipsum, “to be added”.",
        explanation=("A model reads leftovers as part of the task. Finish the part, or remove it."),
        check=_leftover,
    ),
    Rule(
        id="PE206",
        name="vague-quantifier",
        severity="info",
        criterion="specificity",
        summary="An instruction that leaves open how many or when.",
        explanation=(
            "“Give a few options” brings two today and nine tomorrow. Give a number or a range, "
            "and instead of “as needed” the condition. Only sentences that start with an "
            "instruction count."
        ),
        check=_vague,
    ),
    Rule(
        id="PE207",
        name="double-negative",
        severity="info",
        criterion="clarity",
        summary="Two negations in one instruction.",
        explanation=(
            "Models follow positive instructions more surely: instead of “do not omit the date” "
            "write “give the date”."
        ),
        check=_double_negative,
    ),
    Rule(
        id="PE208",
        name="long-sentence",
        severity="info",
        criterion="clarity",
        summary="A sentence of more than 50 words.",
        explanation=(
            "Long sentences hide conditions from models as from readers. Split it, or list its "
            "points."
        ),
        check=_long_sentence,
    ),
    Rule(
        id="PE209",
        name="wall-of-text",
        severity="info",
        criterion="clarity",
        summary="A paragraph of more than 150 words.",
        explanation=("Give each point its own paragraph, list item or heading."),
        check=_wall,
    ),
    Rule(
        id="PE210",
        name="shouting",
        severity="info",
        criterion="clarity",
        summary="Whole phrases in capitals, or rows of exclamation marks.",
        explanation=(
            "Emphasis works where it is rare. Acronyms, names of constants and single words in "
            "capitals are left alone."
        ),
        check=_shouting,
    ),
    Rule(
        id="PE501",
        name="context-budget",
        severity="warning",
        criterion="clarity",
        summary="A prompt of more than 4,000 tokens, by estimate.",
        explanation=(
            "Long prompts cost more with every call, and instructions in their middle are "
            "followed less. Move reference material out, and drop what changes no answer."
        ),
        check=_over_budget,
    ),
)
