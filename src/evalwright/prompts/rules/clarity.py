"""Rules about words, sentences and length."""

import re
from collections.abc import Iterator

from evalwright.prompts.findings import ANSWERED, Hit, rule
from evalwright.prompts.rules.prompt_text import Reading, cited, once
from evalwright.prompts.rules.task import TASK_VERBS
from evalwright.signals.language import WITHOUT_SPACES, words
from evalwright.signals.patterns import quick_pattern, when_used
from evalwright.signals.word_tables import either, word_tables

LONG_SENTENCE = 50  # words
LONG_PARAGRAPH = 150  # words
TOKEN_BUDGET = 4000
_BYTES_PER_TOKEN = 4
_SHOUTED_WORDS = 5

_TABLES = word_tables(__file__)
_VAGUE_AMOUNT, _VAGUE_CONDITION, _DOUBLE_NEGATIVE = map(
    when_used, map(either, _TABLES["vague"].values())
)
_VAGUE_AMOUNTS = ("few", "several", "various", "some", "couple", "number", "amount")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_COMPLETE = ("several", "various", "some")
_VAGUE_CONDITIONS = ("needed", "appropriate", "necessary")
_SENTENCE_START = when_used(r"[\n.!?;]")
_FIRST_WORD = when_used(r"[\s>*_#\d.()\-•]*(?:please |then )?([a-z-]+)")
_NEGATIONS = ("not", "don't", "never", "do", "cannot", "can't", "shouldn't", "must", "should")
_CAPITALS = when_used(r"\b[A-Z][A-Z']+\b(?:[ ,]+\b[A-Z][A-Z']*\b){4,}")
_SHORT_CAPITALS = frozenset("THE TO OF IS ARE NOT YOU MUST ANY THIS THAT BE".split())
_WITHIN_A_SENTENCE = quick_pattern(f" (?:{'|'.join(sorted(_SHORT_CAPITALS))}) ".encode())
_EXCLAMATION = when_used(r"!{3,}")
_PARAGRAPH = when_used(r"[^\n]+(?:\n(?![ \t]*(?:\n|[-*+•|>#]|\d+[.)]|```|\*\*))[^\n]+)*")
_NO_PARAGRAPH = re.compile(r"[ \t]*(?:[|>#]|```)")
_SENTENCE_END = when_used(r"[.!?:;](?=[\s*_\"'”)]|$)|[。！？：；؟۔।]|\s[\u2013\u2014-]\s|\n|</")
_ENDS_LINE = (*".!?:;,*_|>", *"。！？：；，、؟", "...", "…")
_NO_PROSE = when_used(r"[(){}\[\]=<>|;/\\│├└─$#@]")
_CODE_SHARE = 0.04  # of characters; more signs than that are code, a tree of files or a table
_OF_A_KOREAN_WORD = 1.4  # a word there holds particles that are words elsewhere
_POINTS = 3  # lines
_POINT_WORDS = 25  # of a line, on average
_TEMPLATE = when_used(r"\{[{%][^{}\n]{0,200}\}|[\"'`]")

_LANGUAGE_NAMES = {code: either(names) for code, names in _TABLES["languages"].items()}
_ASKED, _LABELS, _TRANSLATED = map(either, _TABLES["answers"].values())
_ANSWER = rf"(?:{_ASKED})\w{{0,12}}"
_LABELLED = rf"\b(?:{_LABELS})\b[*_ ]*[:：][*_ ]*"
_TRANSLATION = when_used(_TRANSLATED)
_NO_OTHER_WORD = r"[^.\n。！？,，;]{0,40}?"


@rule("PE206", "info", "specificity", english=True)
def vague_quantifier(reading: Reading) -> Iterator[Hit]:
    """An instruction that leaves open how many or when.

    “Give a few options” brings two today and nine tomorrow. Give a number or a range, and instead
    of “as needed” the condition. Only sentences that start with an instruction count.
    """
    for pattern, starts in (
        (_VAGUE_AMOUNT, _VAGUE_AMOUNTS),
        (_VAGUE_CONDITION, _VAGUE_CONDITIONS),
    ):
        for place in reading.places(*starts):
            match = pattern.match(reading.lowered, place)
            if match is not None and _is_instruction(reading, place):
                start = match.start()
                # The word before belongs to it: “a few”, “as needed”.
                if not match[0].startswith(_COMPLETE):
                    start = len(reading.lowered[: start - 1].rstrip(_LETTERS))
                phrase = " ".join(reading.lowered[start : match.end()].split())
                yield Hit(
                    reading.place(start),
                    f"“{phrase}” leaves open how many or when: give a number or a condition, such "
                    "as “three” or “if the text is longer than a page”.",
                )


def _is_instruction(reading: Reading, index: int) -> bool:
    """Whether the sentence around an index starts with a verb that asks for something."""
    window = reading.lowered[max(0, index - 300) : index]
    starts = [match.end() for match in _SENTENCE_START.finditer(window)]
    first = _FIRST_WORD.match(window, starts[-1] if starts else 0)
    return first is not None and first[1] in TASK_VERBS


@rule("PE207", "info", "clarity", english=True)
def double_negative(reading: Reading) -> Iterator[Hit]:
    """Two negations in one instruction.

    Models follow positive instructions more surely: instead of “do not omit the date” write “give
    the date”.
    """
    for place in reading.places(*_NEGATIONS):
        match = _DOUBLE_NEGATIVE.match(reading.lowered, place)
        if match is not None:
            phrase = " ".join(match[0].split())
            yield Hit(
                reading.place(place),
                f"“{phrase}” negates twice: say what to do, as in “give the date” for “do not omit "
                "the date”.",
            )


@rule("PE210", "info", "clarity")
def shouting(reading: Reading) -> Iterator[Hit]:
    """Whole phrases in capitals, or rows of exclamation marks.

    Emphasis works where it is rare. Acronyms, names of constants and single words in capitals are
    left alone.
    """
    # The prose of other files is no part of them as they are written.
    is_markdown = reading.prompt.type == "markdown"
    data = reading.data if is_markdown else reading.prose.encode("utf-8", "surrogatepass")
    shouted = _WITHIN_A_SENTENCE.search(data)
    for match in _CAPITALS.finditer(reading.prose) if shouted else ():
        # Sentences hold short words; rows of acronyms and names of options do not.
        capitals = set(re.split(r"[ ,]+", match[0]))
        if len(capitals) < _SHOUTED_WORDS or capitals.isdisjoint(_SHORT_CAPITALS):
            continue
        start = match.start()
        line = reading.prose[max(reading.prose.rfind("\n", 0, start) + 1, start - 200) : start]
        # In a variable, capitals are the custom.
        if not any(line.rfind(one) > line.rfind(other) for one, other in ("[]", "{}", "<>")):
            yield Hit(
                reading.place(start),
                f"This is shouted: write “{cited(match[0]).lower()}”, and keep capitals for a "
                "single word.",
            )
    for match in _EXCLAMATION.finditer(reading.prose) if "!!!" in reading.prose else ():
        place = reading.place(match.start())
        yield Hit(place, f"One exclamation mark is enough: write “!” for “{match[0][:9]}”.")


@rule("PE208", "info", "clarity")
def long_sentence(reading: Reading) -> Iterator[Hit]:
    """A sentence of more than 50 words.

    Long sentences hide conditions from models as from readers. Split it, or list its points.
    """
    for start, end in _paragraphs(reading):
        at = start
        shortest = _shortest(reading)
        paragraph = reading.prose[start:end]
        if _length(reading, paragraph) <= LONG_SENTENCE:
            continue  # so is every sentence of it
        if not _is_list(paragraph):  # whose lines are points of their own
            paragraph = paragraph.replace("\n", " ")
        for sentence in _SENTENCE_END.split(paragraph):
            count = _length(reading, sentence) if len(sentence) > shortest else 0
            if count > LONG_SENTENCE and _is_prose(sentence):
                place = reading.prose.find(sentence[:20].strip(), at, end)
                yield Hit(
                    reading.place(max(place, at)),
                    f"A sentence of {count} words: split it at “and” or “which”, or make a list of "
                    "its points.",
                )
            at = min(at + len(sentence), end)


@rule("PE209", "info", "clarity")
def wall_of_text(reading: Reading) -> Iterator[Hit]:
    """A paragraph of more than 150 words.

    Give each point its own paragraph, list item or heading.
    """
    for start, end in _paragraphs(reading):
        paragraph = reading.prose[start:end]
        if len(paragraph) <= _shortest(reading) * LONG_PARAGRAPH / LONG_SENTENCE:
            continue
        parts = paragraph.split("\n") if _is_list(paragraph) else [paragraph]
        count = max(_length(reading, part) for part in parts)
        if count > LONG_PARAGRAPH and _is_prose(paragraph):
            yield Hit(
                reading.place(start),
                f"A paragraph of {count} words: begin a new one for each point, or list the "
                "points with `-`.",
            )


def _is_list(paragraph: str) -> bool:
    """Whether each line is a point; lines that are only wrapped end anywhere."""
    lines = [line.rstrip() for line in paragraph.split("\n") if line.strip()]
    ended = sum(line.endswith(_ENDS_LINE) for line in lines)
    is_short = paragraph.count(" ") <= _POINT_WORDS * len(lines)
    return len(lines) >= _POINTS and is_short and ended * 2 > len(lines)


def _is_prose(text: str) -> bool:
    text = _TEMPLATE.sub("", text)
    return len(_NO_PROSE.findall(text)) <= _CODE_SHARE * len(text)


def _length(reading: Reading, text: str) -> int:
    script = reading.language.script
    if script in WITHOUT_SPACES:
        return len(words(text.lower()))
    count = len(text.split())
    return round(count * _OF_A_KOREAN_WORD) if script == "hangul" else count


def _shortest(reading: Reading) -> int:
    is_dense = reading.language.script in (*WITHOUT_SPACES, "hangul")
    return LONG_SENTENCE if is_dense else 2 * LONG_SENTENCE


@once
def _paragraphs(reading: Reading) -> list[tuple[int, int]]:
    spans = (match.span() for match in _PARAGRAPH.finditer(reading.prose))
    return [
        (start, end)
        for start, end in spans
        if end - start > 2 * LONG_SENTENCE  # in any script
        and end - start > 2 * _shortest(reading)
        and _NO_PARAGRAPH.match(reading.prose, start) is None
    ]


@rule("PE501", "warning", "clarity")
def context_budget(reading: Reading) -> Iterator[Hit]:
    """A prompt of more than 4,000 tokens, by estimate.

    Long prompts cost more with every call, and instructions in their middle are followed less. Move
    reference material out, and drop what changes no answer.
    """
    if len(reading.core) <= TOKEN_BUDGET:  # characters have as many bytes as a token at most
        return
    tokens = len(reading.core.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN
    if tokens > TOKEN_BUDGET:
        yield Hit(
            reading.place(0),
            f"The prompt takes about {tokens} tokens, more than {TOKEN_BUDGET}: move reference "
            "material to files that are read when needed (“Before you edit CSS, read "
            "`docs/style.md`.”), and drop what changes no answer.",
        )


@rule("PE213", "info", "clarity", kinds=ANSWERED)
def foreign_answer_language(reading: Reading) -> Iterator[Hit]:
    """Answers are asked for in another language than the prompt's.

    Often kept from the original of a translation: a Spanish prompt that orders answers in Chinese.
    Name the language of the readers, or say “in the language of the user”. Prompts in English and
    prompts that translate are left alone.
    """
    own = reading.language.code
    text = reading.lowered
    if own in ("en", "und") or _TRANSLATION.search(text):
        return
    for code, names in _LANGUAGE_NAMES.items():
        if code == own:
            continue
        match = re.search(rf"(?:{_LABELLED}|{_ANSWER}{_NO_OTHER_WORD})(?:{names})", text)
        if match is not None:
            yield Hit(
                reading.place(match.start()),
                f"“{' '.join(match[0].split())}”: the prompt is written in another language than "
                "its answers. If that was kept from a translation, name the reader's language, or "
                "write “Answer in the language of the user.”",
            )
