"""What one agent did in one case: calls, results, retrievals, messages, output, actions."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from evalwright.trace.cached import cached

Json: TypeAlias = Any

# Of a tool result, folded; the empty one stands where none was recorded.
GOOD_STATUSES = ("", "ok", "success", "succeeded", "completed")


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
    """An event of a type that this model does not know, or something that is no event at all."""

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

    @cached
    def _by_kind(self) -> dict[type, list[Any]]:
        kinds: dict[type, list[Any]] = defaultdict(list)
        for event in self.events:
            kinds[type(event)].append(event)
        return kinds

    @cached
    def calls(self) -> Sequence[ToolCall]:
        """The tool calls, in order."""
        return self._by_kind.get(ToolCall, ())

    @cached
    def results(self) -> Sequence[ToolResult]:
        """The tool results, in order."""
        return self._by_kind.get(ToolResult, ())

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

    @property
    def retrievals(self) -> Sequence[Retrieval]:
        """The retrievals, in order."""
        return self._by_kind.get(Retrieval, ())

    @property
    def messages(self) -> Sequence[Message]:
        """The messages, in order."""
        return self._by_kind.get(Message, ())

    @property
    def unknown(self) -> Sequence[Unknown]:
        """What is no event of a known type."""
        return self._by_kind.get(Unknown, ())


def text_of(value: Json) -> str:
    """A JSON value as the text that detectors and readers see: strings as they are."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return msgspec.json.encode(value).decode("utf-8", "replace")
    except (RecursionError, UnicodeEncodeError, OverflowError):
        return "\n".join(_leaves(value))


def _leaves(value: Json) -> list[str]:
    """The keys and scalars of a value that JSON text cannot carry, outermost first."""
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
    return found
