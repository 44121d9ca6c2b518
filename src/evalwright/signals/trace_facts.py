"""What is known of one trace alone, kept with it."""

import re
from collections.abc import Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

import msgspec

from evalwright.signals.injection.instructions import as_one, unescaped
from evalwright.signals.injection.spoken_orders import may_tell_what_to_say
from evalwright.signals.injection.translation import is_foreign
from evalwright.signals.injection.words import MAY_PRESS, PRESSURE
from evalwright.signals.patterns import occurs_in
from evalwright.signals.read_text import ReadText, read_text
from evalwright.signals.written_values import leaves, letters_only, plain_lines
from evalwright.trace.cached import kept
from evalwright.trace.model import Retrieval, ToolCall, ToolResult, Trace, text_of

_INDEX, _ERROR = attrgetter("index"), attrgetter("error")
# Tag characters mirror ASCII and are drawn as nothing: what they say is for the model alone. A flag
# has a few of them, and no space.
_HIDDEN_SPACE = "\U000e0020"
_HIDDEN = re.compile("[\U000e0020-\U000e007e]{8,}")
_AS_SEEN = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}
_AS_SEEN |= {0xE0000 + ord('"'): "'", 0xE0000 + ord("\\"): "/"}  # the text around it may be JSON
# Marks without a width, which hide words from searches; models read what stands around them.
_NO_WIDTH = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]+")
_TO_THE_MODEL = "\nAI assistant, your new task: "
Brought = tuple[Sequence[ToolResult | Retrieval], Sequence[str]]

# Kept with the trace: a baseline is looked at twice, in its own right and beside the new trace.


@kept
def calls_by_tool(trace: Trace) -> Mapping[str, Sequence[ToolCall]]:
    """The calls of each tool, in order."""
    calls: dict[str, list[ToolCall]] = {}
    for call in trace.calls:
        calls.setdefault(call.tool, []).append(call)
    return calls


@kept
def values_given(trace: Trace) -> "ValuesGiven":
    """The values of each call with their paths, by the call's index."""
    return ValuesGiven(trace)


class ValuesGiven(dict[int, list[tuple[str, str]]]):
    """Values of calls, taken from the arguments when first asked for: most calls only look."""

    def __init__(self, trace: Trace) -> None:
        self._args = {call.index: call.args for call in trace.calls}

    def __missing__(self, index: int) -> list[tuple[str, str]]:
        self[index] = values = leaves(self._args[index])
        return values


@kept
def calls_with_links(trace: Trace) -> set[int]:
    """The indexes of the calls with a value that may hold an address of the web."""
    # Usually none does, which one look tells.
    if not trace.calls:
        return set()
    try:
        written = msgspec.json.encode([call.args for call in trace.calls]).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        written = "\n".join(_all_values(trace))
    if not _may_hold_link(written):
        return set()
    given = values_given(trace)
    return {
        call.index
        for call in trace.calls
        if any(_may_hold_link(value) for _, value in given[call.index])
    }


def _may_hold_link(text: str) -> bool:
    return "://" in text or ("." in text and "www." in text.lower())


def _all_values(trace: Trace) -> list[str]:
    given = values_given(trace)
    return [value for call in trace.calls for _, value in given[call.index]]


@kept
def words_given(trace: Trace) -> frozenset[bytes]:
    """Every value that was given to a tool, as plain words."""
    return frozenset(plain_lines(["", *_all_values(trace), ""]).split(b"\n")[1:-1])


@kept
def brought_in(trace: Trace) -> Brought:
    """The events that brought something in, in order, and their texts, the hidden ones seen."""
    results, retrievals = trace.results, trace.retrievals
    events: Sequence[ToolResult | Retrieval] = results
    texts: Sequence[str] = trace.payload_texts
    if any(map(_ERROR, results)):
        texts = [
            f"{text}\n{result.error}" if result.error else text
            for result, text in zip(results, texts, strict=True)
        ]
    if retrievals:
        events = [*retrievals, *results]
        texts = [*[text_of(each.content) for each in retrievals], *texts]
        if results and retrievals[-1].index >= results[0].index:  # documents often come first
            in_order = sorted(
                zip(map(_INDEX, events), events, texts, strict=True), key=itemgetter(0)
            )
            events = [event for _, event, _ in in_order]
            texts = [text for _, _, text in in_order]
    if not all(map(str.isascii, texts)):
        texts = [text if text.isascii() else _NO_WIDTH.sub("", text) for text in texts]
    if any(_HIDDEN_SPACE in text for text in texts):
        texts = [
            _HIDDEN.sub(lambda found: f"{_TO_THE_MODEL}{found[0].translate(_AS_SEEN)}\n", text)
            for text in texts
        ]
    return events, texts


@kept
def words_read(trace: Trace) -> bytes:
    """What tools and retrievals brought in, as plain words, one line for each."""
    return plain_lines(brought_in(trace)[1])


class FirstLook(NamedTuple):
    """What may stand in the texts that were brought in: mostly there is nothing of the kind."""

    foreign: bool  # words of other languages that are glossed
    pressing: bool  # pressure on the reader to follow instructions
    spoken: bool  # orders of what to say


@kept
def first_look(trace: Trace) -> FirstLook:
    """All that was brought in is looked through as one text: that is much faster."""
    together = as_one(brought_in(trace)[1])
    foreign = is_foreign(together)
    raw = unescaped(together)
    pressing = foreign or (occurs_in(MAY_PRESS, raw) and occurs_in(PRESSURE, raw))
    return FirstLook(foreign, pressing, may_tell_what_to_say(together))


def is_glossed(trace: Trace) -> bool:
    """Whether any text that was brought in is in another language, and read as English."""
    return first_look(trace).foreign and any(
        each.as_read is not each.text for each in texts_read(trace)
    )


def letters_read(trace: Trace) -> bytes:
    """The letters and digits of all that was brought in, with nothing between them."""
    return letters_only(as_one(brought_in(trace)[1]))


@kept
def texts_read(trace: Trace) -> Sequence[ReadText]:
    """The texts that were brought in, with what is known of each."""
    look, texts = first_look(trace), list(map(read_text, brought_in(trace)[1]))
    for each in texts if not all(look) else ():
        if not look.foreign:
            each.may_be_foreign = False
        if not look.pressing:
            each.may_press = False
        if not look.spoken:
            each.may_tell_what_to_say = False
    return texts


@kept
def words_as_read(trace: Trace) -> bytes:
    """These texts as plain words, with other languages glossed."""
    if not is_glossed(trace):
        return words_read(trace)
    return plain_lines([each.as_read for each in texts_read(trace)])
