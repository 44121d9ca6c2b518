"""What every detector looks at: a trace, its baseline, and who said what in them."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from evalwright.signals.injection.instructions import (
    MAY_PRESS,
    PRESSURE,
    InstructionReader,
    as_one,
    unescaped,
)
from evalwright.signals.injection.spoken_orders import (
    OrderAnchor,
    SpokenOrder,
    may_tell_what_to_say,
    orders_near,
    spoken_orders,
)
from evalwright.signals.injection.translation import gloss, is_foreign
from evalwright.signals.offered_tools import without_offers
from evalwright.signals.patterns import occurs_in
from evalwright.signals.written_values import (
    LINKS,
    WORDS,
    SearchedText,
    as_bytes,
    leaves,
    letters_only,
    plain_lines,
    plain_words,
    read_date,
    recent_words,
    searched,
    written_forms,
)
from evalwright.trace.cached import cached, kept, recent
from evalwright.trace.model import (
    Event,
    Retrieval,
    ToolCall,
    ToolResult,
    Trace,
    text_of,
)
from evalwright.trace.paired_calls import pair_results

_MOST_RECENT = 1024
_REACH = 400  # bytes after a place that presses


class ReadText:
    """A text, and what it comes to in other forms; each is made when first asked for.

    What is known not to stand in it is not looked for: words of other languages, pressure on the
    reader to follow instructions, orders of what to say.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.may_be_foreign = self.may_press = self.may_tell_what_to_say = True

    @cached
    def as_read(self) -> str:
        """The text with other languages glossed: instructions are read so."""
        return gloss(self.text) if self.may_be_foreign else self.text

    @cached
    def words(self) -> bytes:
        """The text as plain words."""
        return plain_words(self.text)

    @cached
    def reading(self) -> InstructionReader:
        """The text, prepared for finding instructions in it."""
        return InstructionReader(self.as_read, may_press=self.may_press)

    @cached
    def spoken_orders(self) -> tuple[SpokenOrder, ...]:
        """Its passages that may tell what to say."""
        return spoken_orders(self.text) if self.may_tell_what_to_say else ()

    @cached
    def pressing_orders(self) -> tuple[SpokenOrder, ...]:
        """Those of what it presses its reader to say."""
        anchors = (OrderAnchor(at, at, 0, _REACH) for at in self.reading.pressure)
        return orders_near(self.reading.raw.lower(), anchors)


read_text = recent(_MOST_RECENT)(ReadText)


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
    if all(map(str.isascii, texts)):
        return events, texts
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


_LONGEST_LOOKED_AT = 1_000_000
ArgumentOrigin: TypeAlias = Literal["user", "tool_result", "retrieval", "baseline", "model"]


class Argument(msgspec.Struct, frozen=True, gc=False):
    """One value of a call; `source` is the event that brought it in, when that is not trusted."""

    path: str
    value: str
    origin: ArgumentOrigin
    source: Event | None = None


class UntrustedText:
    """A text that reached the agent in the course of the trace, and the event that brought it."""

    def __init__(self, event: ToolResult | Retrieval, known: ReadText) -> None:
        self.event = event
        self.known = known
        self.text = known.text

    @property
    def as_read(self) -> str:
        """The text with other languages glossed."""
        return self.known.as_read

    @property
    def reading(self) -> InstructionReader:
        """The text, prepared for finding instructions in it."""
        return self.known.reading


class Told(dict[str, str]):
    """What somebody said, without what only offers tools; the user is asked for twice."""

    def __init__(self, tools: set[str]) -> None:
        self._tools = tools

    def __missing__(self, text: str) -> str:
        self[text] = told = without_offers(text, self._tools) if text else text
        return told


class TraceView:
    """One trace under inspection, `regressed` if its case got worse; properties are kept."""

    def __init__(
        self, trace: Trace, baseline: Trace | None = None, *, regressed: bool = False
    ) -> None:
        self.trace = trace
        self.baseline = baseline
        self.regressed = regressed
        self.calls = trace.calls

    @cached
    def baseline_calls(self) -> Sequence[ToolCall]:
        """The tool calls of the baseline, in order."""
        return self.baseline.calls if self.baseline else ()

    @cached
    def baseline_tools(self) -> Mapping[str, Sequence[ToolCall]]:
        """The tools that the baseline called, with its calls of each."""
        return calls_by_tool(self.baseline) if self.baseline else {}

    @cached
    def _given_by_baseline(self) -> dict[str, frozenset[str]]:
        return {}

    def given_by_baseline(self, tool: str) -> frozenset[str]:
        """The values that the baseline gave to a tool."""
        known = self._given_by_baseline.get(tool)
        if known is None:
            given = values_given(self.baseline) if self.baseline else {}
            calls = self.baseline_tools.get(tool, ())
            known = frozenset([value for call in calls for _, value in given[call.index]])
            self._given_by_baseline[tool] = known
        return known

    @cached
    def results(self) -> Mapping[int, ToolResult]:
        """The result of each call, by the call's index."""
        return pair_results(self.trace)

    @cached
    def trusted(self) -> str:
        """All that the user and the operator said; what only offers tools is left out."""
        return self._said([self.trace.system, self.trace.prompt], _TRUSTED_ROLES)

    def _said(self, told: list[str], roles: tuple[str, ...]) -> str:
        messages = (each for each in self.trace.messages if each.role in roles)
        texts = [*told, *(text_of(each.content) for each in messages)]
        return "\n".join(map(self._told.__getitem__, texts))

    @cached
    def _told(self) -> "Told":
        return Told({*calls_by_tool(self.trace), *self.trace.tools_offered})

    @cached
    def untrusted(self) -> list[UntrustedText]:
        """What tools and retrievals brought in, in order."""
        return list(map(UntrustedText, brought_in(self.trace)[0], self.texts_read))

    @cached
    def untrusted_texts(self) -> Sequence[str]:
        """The texts of `untrusted`."""
        return brought_in(self.trace)[1]

    @cached
    def texts_read(self) -> Sequence[ReadText]:
        """The same, with what is known of each."""
        return texts_read(self.trace)

    @cached
    def trusted_lower(self) -> str:
        """What the user and the operator said, in lower case."""
        return self.trusted.lower()

    @cached
    def trusted_words(self) -> bytes:
        """What the user and the operator said, as plain words."""
        return recent_words(self.trusted)

    @cached
    def trusted_values(self) -> bytes | SearchedText:
        """The same, for looking for many values."""
        return searched(self.trusted_words, WORDS)

    @cached
    def untrusted_words(self) -> list[bytes]:
        """What each untrusted source brought in, as plain words."""
        return self.joined_words.split(b"\n") if self.untrusted_texts else []

    @cached
    def untrusted_letters(self) -> bytes:
        """The letters and digits of all untrusted sources, with nothing between them."""
        return letters_read(self.trace)

    @cached
    def may_be_pressing(self) -> bool:
        """Whether pressure may stand in an untrusted text or in a query for documents."""
        if first_look(self.trace).pressing and (
            sum(map(len, self.untrusted_texts)) > _LONGEST_LOOKED_AT
            or any(each.reading.pressure for each in self.texts_read)
        ):
            return True
        queries = as_one([gloss(each.query) for each in self.trace.retrievals if each.query])
        return bool(queries) and occurs_in(PRESSURE, queries.encode("utf-8", "replace"))

    @cached
    def pressing(self) -> list[int]:
        """The places in `untrusted` of the sources that press the agent with instructions."""
        if not self.may_be_pressing:
            return []
        return [place for place, each in enumerate(self.texts_read) if each.reading.presses]

    @cached
    def baseline_read(self) -> bytes:
        """What tools and retrievals brought into the baseline, as plain words."""
        return words_as_read(self.baseline) if self.baseline else b""

    @cached
    def joined_words(self) -> bytes:
        """What all untrusted sources brought in, as plain words, in order."""
        return words_read(self.trace)

    @cached
    def joined_starts(self) -> list[int]:
        """Where each untrusted source starts in `joined_words`."""
        lengths = (len(words) + 1 for words in self.untrusted_words)
        return list(accumulate(lengths, initial=0))[:-1]

    @cached
    def _joined_values(self) -> bytes | SearchedText:
        return searched(self.joined_words, WORDS)

    @cached
    def _untrusted_indexes(self) -> list[int]:
        return list(map(attrgetter("index"), brought_in(self.trace)[0]))

    def sources_before(self, call: ToolCall) -> int:
        """How many of the untrusted sources came before a call."""
        return bisect_left(self._untrusted_indexes, call.index)

    def sources_until(self, index: int | None) -> int:
        """How many of the untrusted sources came up to an event; None is the end."""
        indexes = self._untrusted_indexes
        return len(indexes) if index is None else bisect_right(indexes, index)

    def source_of(self, event: Event) -> UntrustedText | None:
        """The text that an event brought in."""
        place = self.sources_until(event.index) - 1
        source = self.untrusted[place] if place >= 0 else None
        return source if source is not None and source.event is event else None

    def sources_holding(self, words: bytes, call: ToolCall) -> Iterator[int]:
        """The places in `untrusted` of the sources before a call that hold plain words."""
        return self.holding(words, self.sources_before(call))

    def holding(self, words: bytes, before: int) -> Iterator[int]:
        """Those among the first sources, so many, that hold plain words."""
        starts, values = self.joined_starts, self._joined_values
        end = self._end_of(before)
        at = values.find(words, 0, end) if before else -1
        while at >= 0:
            place = bisect_right(starts, at) - 1
            yield place
            if place + 1 >= before:
                return
            at = values.find(words, starts[place + 1], end)

    def first_holding(self, forms: Iterable[bytes], before: int) -> int | None:
        """The first among so many sources that holds one of some plain words."""
        if not before:
            return None
        find, end = self._joined_values.find, self._end_of(before)
        found = [at for form in forms if (at := find(form, 0, end)) >= 0]
        return bisect_right(self.joined_starts, min(found)) - 1 if found else None

    def _end_of(self, before: int) -> int:
        """Where the first sources, so many, end in `joined_words`."""
        starts = self.joined_starts
        return starts[before] if before < len(starts) else len(self.joined_words)

    def find_in(self, place: int, words: bytes) -> int:
        """Where a source holds plain words, in bytes from its beginning, or -1."""
        start = self.joined_starts[place]
        at = self._joined_values.find(words, start, self._end_of(place + 1))
        return at - start if at >= 0 else -1

    @cached
    def _untrusted_links(self) -> bytes | SearchedText:
        return searched(b"\0".join(map(as_bytes, self.untrusted_texts)), LINKS)

    @cached
    def _text_starts(self) -> list[int]:
        lengths = (len(as_bytes(text)) + 1 for text in self.untrusted_texts)
        return list(accumulate(lengths, initial=0))[:-1]

    def holds_link(self, place: int, url: str) -> bool:
        """Whether the text of a source holds a URL."""
        starts = self._text_starts
        end = starts[place + 1] if place + 1 < len(starts) else None
        return self._untrusted_links.find(as_bytes(url), starts[place], end) >= 0

    def source_with_link(self, url: str, before: int) -> UntrustedText | None:
        """The first among so many sources whose text holds a URL."""
        starts = self._text_starts
        end = starts[before] if before < len(starts) else None
        at = self._untrusted_links.find(as_bytes(url), 0, end)
        return self.untrusted[bisect_right(starts, at) - 1] if at >= 0 else None

    @cached
    def traced_arguments(self) -> dict[int, list[Argument]]:
        """The arguments of calls with their origins, by the call's index; filled when asked."""
        return {}

    @cached
    def requests(self) -> str:
        """What the user said, without the operator."""
        return self._said([self.trace.prompt], ("user",))


_TRUSTED_ROLES = ("user", "system", "developer")


def arguments(view: TraceView, call: ToolCall) -> list[Argument]:
    """The values of a call with their origins; only what was seen before the call counts.

    What the user or the operator said wins, then what the baseline did as well, then what tools
    and retrievals brought in; what is found in none of them is the model's own.
    """
    known = view.traced_arguments.get(call.index)
    if known is None:
        known = [
            _trace_back(view, call, path, value)
            for path, value in values_given(view.trace)[call.index]
        ]
        view.traced_arguments[call.index] = known
    return known


def _trace_back(view: TraceView, call: ToolCall, path: str, value: str) -> Argument:
    forms, trusted = written_forms(value), view.trusted_values
    date = read_date(value)
    if date is not None and date.stands_in(view.trusted_words):
        return Argument(path, value, "user")
    for form in forms:
        if trusted.find(form) >= 0:
            return Argument(path, value, "user")
    if view.baseline is not None and not words_given(view.baseline).isdisjoint(forms):
        return Argument(path, value, "baseline")
    place = view.first_holding(forms, view.sources_before(call))
    if place is None:
        return Argument(path, value, "model")
    event = brought_in(view.trace)[0][place]
    origin: ArgumentOrigin = "retrieval" if isinstance(event, Retrieval) else "tool_result"
    return Argument(path, value, origin, event)
