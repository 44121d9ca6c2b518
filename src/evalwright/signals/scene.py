"""What every detector looks at: a trace, its baseline, and who said what in them."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from evalwright.signals.instructions import Reading
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


class Source:
    """A text that reached the agent in the course of the trace, and the event that brought it."""

    def __init__(self, event: ToolResult | Retrieval, text: str) -> None:
        self.event = event
        self.text = text

    @cached_property
    def words(self) -> bytes:
        """The text as plain words."""
        return plain_words(self.text)

    @cached_property
    def reading(self) -> Reading:
        """The text, prepared for finding instructions in it."""
        return Reading(self.text)


class Scene:
    """One trace under inspection. Properties are computed once, when first asked for."""

    def __init__(self, trace: Trace, baseline: Trace | None = None) -> None:
        self.trace = trace
        self.baseline = baseline

    @cached_property
    def calls(self) -> list[ToolCall]:
        """The tool calls, in order."""
        return [event for event in self.trace.events if isinstance(event, ToolCall)]

    @cached_property
    def baseline_calls(self) -> list[ToolCall]:
        """The tool calls of the baseline, in order."""
        events = self.baseline.events if self.baseline else ()
        return [event for event in events if isinstance(event, ToolCall)]

    @cached_property
    def results(self) -> Mapping[int, ToolResult]:
        """The result of each call, by the call's index."""
        return pair_results(self.trace)

    @cached_property
    def trusted(self) -> str:
        """All that the user and the operator said."""
        said = [self.trace.system, self.trace.prompt]
        said += [
            text_of(event.content)
            for event in self.trace.events
            if isinstance(event, Message) and event.role in ("user", "system", "developer")
        ]
        return "\n".join(said)

    @cached_property
    def untrusted(self) -> list[Source]:
        """What tools and retrievals brought in, in order."""
        return [
            Source(event, _brought_in(event))
            for event in self.trace.events
            if isinstance(event, ToolResult | Retrieval)
        ]

    @cached_property
    def trusted_words(self) -> bytes:
        """What the user and the operator said, as plain words."""
        return plain_words(self.trusted)

    @cached_property
    def untrusted_words(self) -> list[bytes]:
        """What each untrusted source brought in, as plain words."""
        return [source.words for source in self.untrusted]

    @cached_property
    def baseline_values(self) -> frozenset[bytes]:
        """Every value that the baseline gave to a tool, in all its written forms."""
        return frozenset(
            form
            for call in self.baseline_calls
            for _, value in leaves(call.args)
            for form in written_forms(value)
        )

    @cached_property
    def first_sources(self) -> dict[tuple[bytes, ...], int]:
        """Where in `untrusted` each value first stands, or how many have been searched for it.

        The key is the value in its written forms; filled when asked.
        """
        return {}

    @cached_property
    def traced_arguments(self) -> dict[int, "list[Argument]"]:
        """The arguments of calls with their origins, by the call's index; filled when asked."""
        return {}

    @cached_property
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
