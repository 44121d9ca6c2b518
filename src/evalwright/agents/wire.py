"""The request and response of agents outside this process, over HTTP or standard input."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from evalwright.agents.account import RETURNED, Account, Deed, Thought, ToldCall, ToldReturn
from evalwright.agents.protocol import AgentFailure, Invocation, checked_output
from evalwright.agents.usage import parse_usage
from evalwright.contracts.events import ErrorDetail
from evalwright.contracts.jsonvalue import NotJson, burden, plain
from evalwright.contracts.run_plan import Text
from evalwright.contracts.suite import Fixtures

if TYPE_CHECKING:
    from evalwright.agents.gateway import Gateway, GatewaySession
    from evalwright.agents.span_receiver import SpanReceiver, TaskSpans

MAX_RESPONSE_BYTES = 32 * 1024 * 1024
SHORT_RESPONSE = 16 * 1024  # bytes; to read more would keep everybody else waiting
_LAST_WORD = re.compile(rb"[\w.~+/=:-]{0,256}\Z")

# A few separate threads: nothing else waits behind answers that take long to read.
_readers = ThreadPoolExecutor(2, "answer")


class AnswerLimits(msgspec.Struct, frozen=True):
    """What an answer may be; where nothing is said, only its length is bounded."""

    most_bytes: int = MAX_RESPONSE_BYTES
    most_events: int | None = None
    most_usages: int | None = None
    most_values: int | None = None  # of JSON, in all
    most_output_values: int | None = None  # of JSON, in an output, which is compared and judged


TRUSTED = AnswerLimits()


class ToolGateway(msgspec.Struct, frozen=True):
    """Where the agent reaches its tools, for as long as this invocation lasts."""

    url: str
    transport: str = "streamable-http"


class OtlpEndpoint(msgspec.Struct, frozen=True):
    """Where the agent may send its spans, for as long as the run lasts."""

    endpoint: str  # to which an exporter adds `/v1/traces`
    protocol: str = "http/protobuf"


class Conversation(msgspec.Struct, frozen=True):
    """Where a conversation is: what was said so far ends with the user's last message."""

    id: str
    turn: int
    messages: list[dict[str, Any]]


class AgentRequest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What an agent is sent for one task."""

    run_id: str
    invocation_id: str
    agent_id: str
    task_id: str
    input: Any
    fixtures: Fixtures | None = None
    tool_gateway: ToolGateway | None = None
    otlp: OtlpEndpoint | None = None
    conversation: Conversation | None = None


class ReportedReasoning(msgspec.Struct, frozen=True, tag_field="type", tag="agent.reasoned"):
    """The agent's reasoning."""

    reasoning: str


class ReportedCall(
    msgspec.Struct, frozen=True, tag_field="type", tag="agent.toolCalled", rename="camel"
):
    """A tool call that the agent made."""

    tool_name: Text
    call_id: Text
    inputs: Any = UNSET


class ReportedReturn(
    msgspec.Struct, frozen=True, tag_field="type", tag="agent.toolReturned", rename="camel"
):
    """A tool's answer that the agent got."""

    tool_name: Text
    call_id: Text
    outcome: Any = UNSET
    error: ErrorDetail | UnsetType = UNSET


ReportedEvent = ReportedReasoning | ReportedCall | ReportedReturn


class AgentResponse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent answers: its output, and what it wants recorded."""

    output: Any
    events: list[ReportedEvent] | UnsetType = UNSET
    calls: list[dict[str, Any]] | UnsetType = UNSET
    messages: list[Any] | UnsetType = UNSET
    usage: dict[str, Any] | list[dict[str, Any]] | UnsetType = UNSET


def opened(
    gateway: "Gateway | None", invocation: Invocation
) -> "AbstractAsyncContextManager[GatewaySession | None]":
    """The invocation's address at the gateway, where the agent has one."""
    return gateway.open(invocation) if gateway else nullcontext()


def received(
    receiver: "SpanReceiver | None", invocation: Invocation, *, is_program: bool = False
) -> "AbstractAsyncContextManager[TaskSpans | None]":
    """The spans of the invocation, where the agent's are received."""
    return receiver.open(invocation, is_program=is_program) if receiver else nullcontext()


def encode_request(
    invocation: Invocation,
    tools: "GatewaySession | None" = None,
    spans: "TaskSpans | None" = None,
) -> bytes:
    """The request for an invocation, as JSON."""
    # The fixtures for the agent to use itself: not the answers that the gateway gives for it.
    fixtures = invocation.task.fixtures
    if fixtures is not None and invocation.surroundings.live:
        fixtures = None
    elif fixtures is not None:
        answers = [] if tools else fixtures.tool_responses
        fixtures = Fixtures(tool_responses=answers, memory_seed=list(invocation.memory()))
    conversation, asked = None, invocation.task.input
    if invocation.turn:
        conversation = Conversation(
            invocation.conversation_id, invocation.turn, list(invocation.messages)
        )
        asked = invocation.messages[-1]["content"]
    return msgspec.json.encode(
        AgentRequest(
            run_id=invocation.run_id,
            invocation_id=invocation.invocation_id,
            agent_id=invocation.agent_id,
            task_id=invocation.task.task_id,
            input=asked,
            fixtures=fixtures,
            tool_gateway=ToolGateway(tools.url) if tools else None,
            otlp=OtlpEndpoint(spans.endpoint) if spans else None,
            conversation=conversation,
        )
    )


async def read_response(
    body: bytes, invocation: Invocation, tools: "GatewaySession | None", limits: AnswerLimits
) -> Any:
    """Accept a response without keeping others waiting, however long it is."""
    if len(body) <= SHORT_RESPONSE:
        return accept_response(body, invocation, tools, limits)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_readers, accept_response, body, invocation, tools, limits)


def accept_response(
    body: bytes,
    invocation: Invocation,
    tools: "GatewaySession | None" = None,
    limits: AnswerLimits = TRUSTED,
) -> Any:
    """Record what the agent reports and return its output; refuse a malformed answer."""
    _check_burden("answer", body, limits.most_values)
    try:
        response = msgspec.json.decode(body, type=AgentResponse)
        counted = (
            ("events", response.events, limits.most_events),
            ("calls", response.calls, limits.most_events),
            ("messages", response.messages, limits.most_events),
            ("usages", response.usage, limits.most_usages),
        )
        for things, reported, most in counted:
            if most is not None and reported is not UNSET and len(reported) > most:
                message = f"the answer has more than {most} {things}; report fewer"
                raise AgentFailure("invalid_answer", message)
        accounts = []
        if response.events is not UNSET:
            tool_name = str if tools is None else tools.tool
            deeds: list[Deed] = []
            places: dict[str, int] = {}  # of calls, by the agent's ids of them
            for place, event in enumerate(response.events):
                plain(msgspec.to_builtins(event))
                match event:
                    case ReportedReasoning():
                        deeds.append(Thought(event.reasoning))
                    case ReportedCall():
                        places[event.call_id] = place
                        deeds.append(ToldCall(tool_name(event.tool_name), event.inputs))
                    case ReportedReturn():
                        deeds.append(_return(event, places.get(event.call_id)))
            accounts.append(Account(RETURNED, deeds))
        if response.usage is not UNSET:
            reported = response.usage if isinstance(response.usage, list) else [response.usage]
            accounts.append(Account(RETURNED, usages=list(map(parse_usage, reported))))
        if response.calls is not UNSET or response.messages is not UNSET:
            from evalwright.agents.answers import accounts_of  # with the readers of messages

            messages = None if response.messages is UNSET else response.messages
            calls = None if response.calls is UNSET else response.calls
            accounts += accounts_of(messages, None, calls, invocation.task.input)
    except (msgspec.DecodeError, NotJson, ValueError, RecursionError) as error:
        complaint = 'the answer is empty; a JSON object with "output" was expected'
        if body.strip():
            complaint = f'a JSON object with "output" was expected: {error}'
            complaint += f"; the answer began {quoted(body, 200)!r}"
        raise AgentFailure("invalid_answer", complaint) from None
    output = checked_output(response.output)
    _check_burden("output", _json_of(output), limits.most_output_values)
    for account in accounts:
        invocation.record_account(account)
    invocation.output = output
    return output


def _check_burden(what: str, text: bytes, most_values: int | None) -> None:
    if most_values is not None and (heavy := burden(text, most_values)):
        raise AgentFailure("invalid_answer", f"the {what} is too much: {heavy}")


def _json_of(output: Any) -> bytes:
    """The JSON that scoring an output must go through; a text may be JSON itself."""
    if not isinstance(output, str):
        return msgspec.json.encode(output)
    return output.encode() if output.lstrip()[:1] in ("[", "{") else b""


def _return(event: ReportedReturn, place: int | None) -> ToldReturn:
    if place is None:
        raise ValueError(f"a tool returned for call {event.call_id!r}, which was not made before")
    if event.error is not UNSET and event.outcome is not UNSET:
        raise ValueError(f"call {event.call_id!r} returned both an outcome and an error")
    return ToldReturn(place, event.outcome, None if event.error is UNSET else event.error)


def quoted(body: bytes, most: int) -> str:
    """The beginning of an answer, without the word that would be cut: half a secret is not seen."""
    beginning = body[:most]
    if len(body) > most:
        beginning = _LAST_WORD.sub("…".encode(), beginning, count=1)
    return beginning.decode("utf-8", "replace")
