"""Rules about the task, the form of the answer, and examples of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from evalwright.prompts.findings import ANSWERED, Hit, rule
from evalwright.prompts.not_a_prompt import described, not_a_prompt
from evalwright.prompts.rules.prompt_text import Reading, once
from evalwright.signals.language import lowered_in_place, words
from evalwright.signals.patterns import when_used
from evalwright.signals.word_tables import either, word_tables

_TABLES = word_tables(__file__)
# Verbs that ask for something where they start a sentence or a line.
TASK_VERBS = frozenset(_TABLES["verbs"]["en"])
_FORMAT_WORDS, _GIVING, _STATING = map(frozenset, _TABLES["words"].values())
_FORM_IMPLIED, _IMPLIED = map(when_used, map(either, _TABLES["implied"].values()))
# Words on the form of an answer in other languages; any of them is enough to stay silent.
_FORM_ELSEWHERE = when_used(either(_TABLES["forms"]["any"]))
# “For each ticket, decide …”: what comes before the verb, up to a comma.
_INTRODUCTION = (
    r"(?:(?:based|given|for|using|after|when|whenever|if|once|in|to|as|with|from|according|therefore|so)"
    r"\b[^,.;:!?\n]{0,160},\s*)?"
)
_FIRST_WORD = when_used(
    rf"[\n.!?:;][\s>*_#\d.()\-•]{{0,40}}{_INTRODUCTION}"
    r"(?:please |then |next, |now,? |always |only )?([a-z-]++)(?![*_]{0,2}:[*_]{0,2}[ \t]*+[^\s*_])"
)
# Other ways to ask, by the word with which they begin.
_ASKING = ("you", "your", "i", "we", "help", "can", "could", "would")
_ASKED, _FORM_OF_ANSWER, _NEEDS_EXAMPLES = map(when_used, map(either, _TABLES["asked"].values()))
_LABEL = when_used(
    r"\n[\s#*_]{0,20}(?:your )?(?:task|goal|objective|mission|question)s?\b[*_ ]*[:\n]"
)
# Words with which a sentence about the answer goes on from there.
_ANSWERS = (
    *("output", "response", "answer", "report", "result", "return", "reply", "respond"),
    *("deliverables", "format"),
)
_LIST_FOLLOWS = when_used(r":[*_ \t]*\r?\n\s*(?:[-*•]|\d+[.)])")
_BOUND = when_used(
    r"\d[\d,]{0,9}(?:\s?(?:-|to)\s?\d{1,9})?\s{1,3}(?:words?|sentences?|bullets?|items?|paragraphs?|lines?|"
    r"pages?|points?|steps?|sections?|examples?|options?|questions?|characters?)\b"
)
_TAUGHT_BY_EXAMPLES = frozenset(
    "classify categorize categorise label tag extract json yaml xml csv".split()
)
_EXAMPLES = (
    *(b"example", b"e.g.", b"for instance", b"sample", b"few-shot", b"expected output"),
    b"input:",
)
_SHOWN_SHAPE = when_used(r"```|[{\[]\s*\"|\n\s*\|.*\|")

_SENTENCE_START = when_used(r"(?:^|[.!?]\s|\n)[\s>*_#\d.()\-•\"']{0,40}([a-z']+)")
_FORMAT_KEYS = (
    "responseFormat",
    "response_format",
    "jsonSchema",
    "outputs",
    "outputSchema",
    "schema",
)
SHORT_PROMPT = 120  # words; a longer one shows in many ways what is wanted
BARE_PROMPT = 40  # words; so few say nothing of the form, in any language

BURIED_SHARE = 0.6
BURIED_WORDS = 120
_FEW_WORDS = 3


@once
def first_task(reading: Reading) -> int | None:
    """Where the prose first asks for something, as an index into it."""
    text = reading.lowered
    verbs = (each for each in _FIRST_WORD.finditer("\n" + text) if each[1] in TASK_VERBS)
    verb = next((each.start(1) - 1 for each in verbs), len(text))
    asked = reading.places(*_ASKING, end=verb)
    phrase = min((place for place in asked if _ASKED.match(text, place)), default=verb)
    first = min(verb, phrase)
    if first < len(text):
        return first
    named = _LABEL.search("\n" + text)
    other = text.find("?") if named is None else named.start()
    return other if other >= 0 else None


def asks(reading: Reading) -> int:
    """How many sentences and lines start with a verb that asks for something."""
    return sum(1 for word in _FIRST_WORD.findall("\n" + reading.lowered) if word in TASK_VERBS)


def format_signs(reading: Reading) -> int:
    """How firmly the form of the answer is stated: 0 (not at all) to 4."""
    text = reading.lowered
    # A line such as “Provide:” that is followed by a list.
    introductions = (
        text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        for match in _LIST_FOLLOWS.finditer(text)
    )
    return (
        (not _FORMAT_WORDS.isdisjoint(reading.words))
        + any(_FORM_OF_ANSWER.match(text, place) for place in reading.places(*_ANSWERS))
        + any(not _GIVING.isdisjoint(line.strip("*_ #").split()) for line in introductions)
        + (_BOUND.search(text) is not None)
    )


@once
def has_example(reading: Reading) -> bool:
    """Whether the file shows an example of an input or an answer."""
    return any(sign in reading.lowered_data for sign in _EXAMPLES)


@rule("PE201", "error", "actionability", kinds=ANSWERED)
def no_task(reading: Reading) -> Iterator[Hit]:
    """The prompt asks for nothing.

    A role and a context do not make a task. Say what to do, with a verb: “Compare the two drafts
    and list what differs.”
    """
    section = reading.core_section
    offset = reading.prompt.body_offset if section is None else section.start
    document = not_a_prompt(reading)
    if document is not None:
        yield Hit(
            offset,
            f"{described(document)}: keep it apart from the prompts, or write what a model is to "
            "do, with a verb: “Compare the two drafts and list what differs.”",
        )
    elif first_task(reading) is not None or (
        # it comes in from outside, as a user's message does in a chat
        reading.placeholders and reading.prompt.kind in ("chat", "template")
    ):
        return
    elif len(reading.word_list) <= _FEW_WORDS and not words(_BLANK.sub(" ", reading.lowered)):
        # Few words may be an order in any language.
        yield Hit(offset, f"The prompt is empty. {_ADVICE}")
    elif (
        reading.language.is_english
        and not _IMPLIED.search(reading.lowered)
        and len(reading.word_list) > _FEW_WORDS
        # Every sentence states something: verbs are too many to know them all.
        and all(word in _STATING for word in _SENTENCE_START.findall(reading.lowered))
    ):
        yield Hit(offset, f"The prompt never says what to do. {_ADVICE}")


_ADVICE = "Add the task, with a verb: “Compare the two drafts and list what differs.”"


_BLANK = when_used(r"[\[<{(][^\]>})\n]*[\]>})]|\n[ \t]*#[^\n]*|^[ \t]*#[^\n]*")


@rule("PE202", "info", "actionability", kinds=ANSWERED, english=True)
def buried_task(reading: Reading) -> Iterator[Hit]:
    """The first instruction comes after most of the text.

    What to do should be known before the material is read. Put the task first, and repeat it after
    long material.
    """
    if len(reading.word_list) < BURIED_WORDS:
        return
    task = first_task(reading)
    if task is None or task <= BURIED_SHARE * len(reading.prose.rstrip()):
        return
    if not reading.outline.examples and not _IMPLIED.search(reading.lowered, 0, task):
        share = round(100 * task / len(reading.prose))
        yield Hit(
            reading.place(task),
            f"The first instruction comes after {share} % of the prompt: move it to the top, as in "
            "“Compare the two drafts below.”",
        )


@rule("PE203", "info", "specificity", kinds=ANSWERED)
def no_output_format(reading: Reading) -> Iterator[Hit]:
    """Nothing says what the answer should look like.

    Without a form, every answer looks different. Name the format, the parts and the length: “a
    Markdown table with one row per risk, at most ten rows”.
    """
    count = len(reading.word_list)
    if not _FEW_WORDS < count <= SHORT_PROMPT:
        return
    if reading.language.is_english:
        task = first_task(reading)
        is_open = task is not None and _speaks_to_model(reading) and format_signs(reading) == 0
    else:
        task = len(reading.lowered) - len(reading.lowered.lstrip())
        is_open = count <= BARE_PROMPT and _is_bare(reading)
    is_prompt = is_open and not_a_prompt(reading) is None
    if is_prompt and task is not None and not _has_stated_form(reading):
        yield Hit(
            reading.place(task),
            "Nothing says what the answer should look like: add its form, parts or length, such "
            "as “Answer in at most three sentences.”",
        )


def _speaks_to_model(reading: Reading) -> bool:
    """Whether a short English text addresses somebody, or begins with what is to be done."""
    if not _ADDRESSED.isdisjoint(reading.words):
        return True
    first = next((each for each in reading.prompt.blocks if each.kind == "paragraph"), None)
    opening = "" if first is None else first.text[:_OPENING].lower()
    is_order = any(word in TASK_VERBS for word in _FIRST_WORD.findall("\n" + opening))
    return is_order or _FIRST_ORDER.match(opening) is not None


_OPENING = 300  # characters
_ADDRESSED = frozenset(("you", "your", "you're", "assistant", "please"))
_FIRST_ORDER = when_used(r"\W{0,9}(?:given|using|based on|what|how|why|who|when|where|which)\b")


def _has_stated_form(reading: Reading) -> bool:
    """Whether settings, an example or the kind of the answer say what it looks like."""
    core = lowered_in_place(reading.core)
    if not _FORMAT_WORDS.isdisjoint(core.split()):
        return True
    if any(fence.is_code for fence in reading.fences) and reading.core_section is None:
        return True
    if reading.outline.examples:
        return True
    if reading.language.is_english and _FORM_IMPLIED.search(core) is not None:
        return True
    return _names_format(reading.prompt.frontmatter or {})


def _names_format(fields: Mapping[str, Any]) -> bool:
    """Whether settings ask for a format, also those of the model inside."""
    if any(fields.get(key) not in (None, "", "text") for key in _FORMAT_KEYS):
        return True
    inner = (fields.get(key) for key in ("model", "parameters", "options", "configuration"))
    return any(_names_format(each) for each in inner if isinstance(each, Mapping))


def _is_bare(reading: Reading) -> bool:
    """Whether there is nothing but a sentence or two: no list, no number, no word on the form."""
    text = reading.lowered.strip()
    return (
        not reading.outline.items
        and not reading.outline.steps
        and not any(map(str.isdecimal, text))
        and not any(sign in text for sign in "{}<>/=|")
        and _FORM_ELSEWHERE.search(text) is None
    )


@rule("PE204", "info", "completeness", kinds=ANSWERED, english=True)
def no_examples(reading: Reading) -> Iterator[Hit]:
    """A task with fixed classes or a fixed format, and no example.

    Classification, extraction and machine-read formats gain most from one or two examples of an
    input and the wanted answer.
    """
    if _TAUGHT_BY_EXAMPLES.isdisjoint(reading.words):
        return
    if has_example(reading) or _SHOWN_SHAPE.search(reading.core):
        return
    need = _NEEDS_EXAMPLES.search(reading.lowered)
    if need is None:
        return
    yield Hit(
        reading.place(need.start()),
        "The answer has a fixed form or fixed classes, but no example shows one: add an input with "
        "its answer, such as “Input: Where is my parcel? Answer: delivery”.",
    )
