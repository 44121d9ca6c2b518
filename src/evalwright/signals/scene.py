"""What every detector looks at: a trace, its baseline, and who said what in them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING

from evalwright.signals.instructions import Reading, find_pressure
from evalwright.signals.once import once
from evalwright.signals.provenance_values import leaves, plain_words, written_forms
from evalwright.trace.model import (
    Event,
    Message,
    Retrieval,
    ToolCall,
    ToolResult,
    Trace,
    text_of,
)
from evalwright.trace.pairing import pair_results

if TYPE_CHECKING:
    from evalwright.signals.provenance import Argument

_BETWEEN = "\ue000"  # a character for private use, that plain words keep


class Source:
    """A text that reached the agent in the course of the trace, and the event that brought it."""

    def __init__(self, event: ToolResult | Retrieval, text: str) -> None:
        self.event = event
        self.text = text

    @once
    def words(self) -> bytes:
        """The text as plain words."""
        return plain_words(self.text)

    @once
    def reading(self) -> Reading:
        """The text, prepared for finding instructions in it."""
        return Reading(self.text)


class Scene:
    """One trace under inspection. Properties are computed once, when first asked for."""

    def __init__(self, trace: Trace, baseline: Trace | None = None) -> None:
        self.trace = trace
        self.baseline = baseline

    @once
    def calls(self) -> list[ToolCall]:
        """The tool calls, in order."""
        return [event for event in self.trace.events if isinstance(event, ToolCall)]

    @once
    def baseline_calls(self) -> list[ToolCall]:
        """The tool calls of the baseline, in order."""
        events = self.baseline.events if self.baseline else ()
        return [event for event in events if isinstance(event, ToolCall)]

    @once
    def baseline_tools(self) -> frozenset[str]:
        """The tools that the baseline called."""
        return frozenset(call.tool for call in self.baseline_calls)

    @once
    def results(self) -> Mapping[int, ToolResult]:
        """The result of each call, by the call's index."""
        return pair_results(self.trace)

    @once
    def trusted(self) -> str:
        """All that the user and the operator said."""
        said = [self.trace.system, self.trace.prompt]
        said += [
            text_of(event.content)
            for event in self.trace.events
            if isinstance(event, Message) and event.role in ("user", "system", "developer")
        ]
        return "\n".join(said)

    @once
    def untrusted(self) -> list[Source]:
        """What tools and retrievals brought in, in order."""
        return [
            Source(event, _brought_in(event))
            for event in self.trace.events
            if isinstance(event, ToolResult | Retrieval)
        ]

    @once
    def trusted_words(self) -> bytes:
        """What the user and the operator said, as plain words."""
        return plain_words(self.trusted)

    @once
    def untrusted_words(self) -> list[bytes]:
        """What each untrusted source brought in, as plain words."""
        return self.joined_words.split(b"\n") if self.untrusted else []

    @once
    def pressing(self) -> list[int]:
        """The places in `untrusted` of the sources that press the agent with instructions."""
        readings = [source.reading for source in self.untrusted]
        find_pressure(readings)
        return [place for place, reading in enumerate(readings) if reading.pressed]

    @once
    def baseline_values(self) -> frozenset[bytes]:
        """Every value that the baseline gave to a tool, in all its written forms."""
        return frozenset(
            form
            for call in self.baseline_calls
            for _, value in leaves(call.args)
            for form in written_forms(value)
        )

    @once
    def baseline_read(self) -> bytes:
        """What tools and retrievals brought into the baseline, as plain words."""
        events = self.baseline.events if self.baseline else ()
        brought = (each for each in events if isinstance(each, ToolResult | Retrieval))
        return b"\n".join(plain_words(_brought_in(event)) for event in brought)

    @once
    def joined_words(self) -> bytes:
        """What all untrusted sources brought in, as plain words, in order."""
        texts = [source.text for source in self.untrusted]
        if any(_BETWEEN in text for text in texts):
            return b"\n".join(map(plain_words, texts))
        # One text is made plain much faster than many.
        return plain_words(f" {_BETWEEN} ".join(texts)).replace(_BETWEEN.encode(), b"\n")

    @once
    def joined_starts(self) -> list[int]:
        """Where each untrusted source starts in `joined_words`."""
        lengths = (len(words) + 1 for words in self.untrusted_words)
        return list(accumulate(lengths, initial=0))[:-1]

    @once
    def _untrusted_indexes(self) -> list[int]:
        return [source.event.index for source in self.untrusted]

    def sources_before(self, call: ToolCall) -> int:
        """How many of the untrusted sources came before a call."""
        return bisect_left(self._untrusted_indexes, call.index)

    def sources_holding(self, words: bytes, call: ToolCall) -> Iterator[int]:
        """The places in `untrusted` of the sources before a call that hold plain words."""
        before = self.sources_before(call)
        starts = self.joined_starts
        end = starts[before] if before < len(starts) else len(self.joined_words)
        at = self.joined_words.find(words, 0, end)
        while at >= 0:
            place = bisect_right(starts, at) - 1
            yield place
            if place + 1 >= before:
                return
            at = self.joined_words.find(words, starts[place + 1], end)

    @once
    def traced_arguments(self) -> dict[int, "list[Argument]"]:
        """The arguments of calls with their origins, by the call's index; filled when asked."""
        return {}

    @once
    def requests(self) -> str:
        """What the user said, without the operator."""
        said = [
            text_of(event.content)
            for event in self.trace.events
            if isinstance(event, Message) and event.role == "user"
        ]
        return "\n".join([self.trace.prompt, *said])


def _brought_in(event: Event) -> str:
    if isinstance(event, ToolResult):
        return text_of(event.payload) + (f"\n{event.error}" if event.error else "")
    assert isinstance(event, Retrieval)
    return text_of(event.content)
