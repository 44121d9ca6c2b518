"""What one agent did in one case: calls, results, retrievals, messages, output, actions."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, overload

import msgspec

from evalwright.contracts.coverage import NOTHING_OBSERVED, Coverage
from evalwright.trace.cached import cached

Json: TypeAlias = Any
EventKind = TypeVar("EventKind")

# Of a tool result, case-folded; empty if none was recorded.
GOOD_STATUSES = ("", "ok", "success", "succeeded", "completed")


RETRIEVAL = "retrieval"  # the tool that looking something up counts as


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """The agent called a tool. `index` is the event's place in the recorded list."""

    index: int
    ts: float | None
    call_id: str | None
    tool: str
    args: Json
    action_id: str | None = None


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """A tool answered. `status` is `ok`, `error`, `timeout`, or empty where none was recorded."""

    index: int
    ts: float | None
    call_id: str | None
    tool: str | None
    status: str
    payload: Json
    error: str | None = None
    latency_ms: float | None = None


class Retrieval(msgspec.Struct, frozen=True, gc=False):
    """Documents were fetched for a query; `content` is what was recorded of their text."""

    index: int
    ts: float | None
    query: str
    doc_ids: tuple[str, ...]
    content: Json = None


class Message(msgspec.Struct, frozen=True, gc=False):
    """Text between the steps: of the assistant, the user or the system."""

    index: int
    ts: float | None
    role: str
    content: Json


class FinalOutput(msgspec.Struct, frozen=True, gc=False):
    """What the agent answered in the end; `index` is None where no event recorded it."""

    index: int | None
    ts: float | None
    content_type: str
    content: Json


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """An event of an unknown type, or something that is not an event at all."""

    index: int
    ts: float | None
    type: str
    raw: Json


Event: TypeAlias = ToolCall | ToolResult | Retrieval | Message | FinalOutput | Unknown


class EvidenceTarget(msgspec.Struct, frozen=True, gc=False):
    """What an action names as its evidence: `tool_result` by call id, `retrieval_doc` by id."""

    kind: str
    id: str | None


class ProposedAction(msgspec.Struct, frozen=True, gc=False):
    """An action that the agent proposed; an absent risk level is `medium`."""

    action_id: str | None
    action_type: str
    tool: str | None
    params: Json
    risk_level: str
    risk_tags: tuple[str, ...]
    evidence: tuple[EvidenceTarget, ...]


class RunnerFailure(msgspec.Struct, frozen=True, gc=False):
    """Why there is no answer: the call to the agent failed."""

    kind: str
    status: int | None = None
    attempt: int | None = None
    transient: bool | None = None
    message: str = ""
    body_path: str | None = None
    meta_path: str | None = None


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a case cost, as far as it was recorded."""

    duration_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    @property
    def has_tokens(self) -> bool:
        """Whether tokens were counted."""
        return self.input_tokens is not None or self.output_tokens is not None


class EventsOf(Generic[EventKind]):
    """The events of one type in a trace; the first look at any type sorts the events of all."""

    _types: ClassVar[dict[str, type]] = {}

    def __init__(self, event_type: type[EventKind], doc: str) -> None:
        self._type = event_type
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._types[name] = self._type

    @overload
    def __get__(self, trace: None, owner: type) -> "EventsOf[EventKind]": ...
    @overload
    def __get__(self, trace: "Trace", owner: type) -> Sequence[EventKind]: ...
    def __get__(
        self, trace: "Trace | None", owner: type
    ) -> "Sequence[EventKind] | EventsOf[EventKind]":
        if trace is None:
            return self
        by_type: dict[type, list[Any]] = defaultdict(list)
        for event in trace.events:
            by_type[type(event)].append(event)
        # Found there from now on, before these descriptors.
        trace.__dict__.update({name: by_type.get(of, ()) for name, of in self._types.items()})
        found: Sequence[EventKind] = trace.__dict__[self._name]
        return found


class Trace(msgspec.Struct, frozen=True, dict=True):
    """One case of one side. `prompt` and `system` are what the user and the operator said."""

    case_id: str
    prompt: str = ""
    system: str = ""
    tools_offered: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    output: FinalOutput | None = None
    actions: tuple[ProposedAction, ...] = ()
    failure: RunnerFailure | None = None
    usage: Usage = Usage()
    events_not_array: bool = False
    coverage: Coverage = NOTHING_OBSERVED  # what whoever recorded it has observed

    calls = EventsOf(ToolCall, "The tool calls, in order.")
    results = EventsOf(ToolResult, "The tool results, in order.")
    retrievals = EventsOf(Retrieval, "The retrievals, in order.")
    messages = EventsOf(Message, "The messages, in order.")
    unknown = EventsOf(Unknown, "What is not an event of a known type.")

    @cached
    def times(self) -> list[float | None]:
        """When each event happened, as far as that was recorded."""
        return [event.ts for event in self.events]

    @cached
    def payload_texts(self) -> list[str]:
        """What the tool results brought, as text, in order."""
        return [text_of(result.payload) for result in self.results]

    @cached
    def answer(self) -> str:
        """The final output as text; empty where there is none."""
        return "" if self.output is None else text_of(self.output.content)


def text_of(value: Json) -> str:
    """A JSON value as the text that detectors and readers see: strings as they are."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return msgspec.json.encode(value).decode("utf-8", "replace")
    except (RecursionError, UnicodeEncodeError, OverflowError):
        # The keys and scalars of a value that JSON text cannot carry, outermost first.
        found, level = [], [value]
        while level:
            inner: list[Json] = []
            for each in level:
                if isinstance(each, dict):
                    found += [key for key in each if isinstance(key, str)]
                    inner += each.values()
                elif isinstance(each, list):
                    inner += each
                elif each is not None:
                    found.append(str(each))
            level = inner
        return "\n".join(found)
