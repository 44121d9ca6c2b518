"""Answers with what an agent did on the way: as it says so itself, in messages, calls and usage."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from evalwright.agents.account import RETURNED, Account, Deed, Thought, ToldCall, ToldReturn
from evalwright.agents.outputs import told_value
from evalwright.agents.usage import parse_usage, usage_told
from evalwright.contracts.events import ErrorDetail, ProviderUsage
from evalwright.trace.decode import decode_trace
from evalwright.trace.importers.chat_dialects import spent_by_each
from evalwright.trace.importers.dialogue import Dialogue
from evalwright.trace.importers.messages import events_of_messages
from evalwright.trace.importers.streams import assembled
from evalwright.trace.model import (
    GOOD_STATUSES,
    RETRIEVAL,
    FinalOutput,
    Message,
    Retrieval,
    ToolCall,
    ToolResult,
    Trace,
    Unknown,
    text_of,
)
from evalwright.trace.paired_calls import pair_results

CALL_FIELDS = frozenset(("tool", "args", "result", "error", "is_ok"))
_OWN_USAGE = frozenset(("inputTokens", "outputTokens", "cost_usd", "costUsd"))
_UNNAMED = "unknown"
# Items of a conversation that are neither said nor done.
_HARMLESS = frozenset(
    (
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "compaction",
        "item_reference",
        "additional_tools",
    )
)
_DATA_TAKEN = "Final result processed."  # of pydantic-ai
_DATA_RETURNED = "Returning structured response: "  # of LangChain, with the data


class Answer:
    """What an agent answers, with what it did on the way.

    `messages` are those of its conversation, in the form of any chat API or agent library; the
    tool calls in them count. `calls` are tool calls, `{"tool": …, "args": …, "result": …}` or with
    an `error`. `usage` is that of its model calls: one, or a list. An empty list says that there
    were none; what is left out is not observed.
    """

    def __init__(
        self,
        output: Any,
        *,
        messages: Iterable[Any] | None = None,
        usage: Any = None,
        calls: Iterable[Mapping[str, Any]] | None = None,
    ) -> None:
        self.output = output
        self.messages = None if messages is None else _as_list("messages", messages)
        self.usage = usage
        self.calls = None if calls is None else _as_list("calls", calls)

    @classmethod
    def from_messages(
        cls,
        messages: Iterable[Any],
        *,
        usage: Any = None,
        calls: Iterable[Mapping[str, Any]] | None = None,
    ) -> "Answer":
        """An answer from its conversation: the output is what the assistant said last."""
        listed = _as_list("messages", messages)
        told = read_messages([told_value(each) for each in listed])
        return cls(told.output, messages=listed, usage=usage, calls=calls)

    def __repr__(self) -> str:
        return f"<answer {self.output!r:.60}>"


def _as_list(name: str, given: Iterable[Any]) -> list[Any]:
    if isinstance(given, str | bytes | Mapping):
        raise TypeError(f"`{name}` is a list, not {type(given).__name__}: write {name}=[…]")
    return list(given)


class ToldMessages(NamedTuple):
    """What messages tell."""

    output: Any  # what was said last; None where that was nothing
    deeds: list[Deed]
    usages: list[ProviderUsage]
    has_all_usages: bool  # of every answer of the model, and there is one
    not_understood: str | None  # the first thing that nobody knows: it may be a call
    has_acts: bool  # of the agent: they are not only what it was asked


def accounts_of(
    messages: Sequence[Any] | None, usage: Any, calls: Sequence[Any] | None, given: Any = None
) -> list[Account]:
    """What an answer tells; raises `ValueError` for what cannot be read.

    `given` is the input of the task: messages in it are not the agent's.
    """
    accounts = []
    if messages is not None:
        plain = [told_value(each) for each in messages]
        told = read_messages(plain[already_given(plain, given) :])
        if told.not_understood is not None:
            raise ValueError(f"messages: {told.not_understood} is no message of a chat")
        accounts.append(
            Account(
                "returned messages",
                told.deeds,
                told.usages or None,
                has_messages=True,
                has_all_usages=told.has_all_usages,
                has_all_calls=told.has_acts or not plain,
            )
        )
    if calls is not None:
        accounts.append(Account(RETURNED, told_calls(calls)))
    if usage is not None:
        accounts.append(Account(RETURNED, usages=told_usages(usage)))
    return accounts


def told_calls(given: Iterable[Any]) -> list[Deed]:
    """Calls as users write them; raises `ValueError` for what is none."""
    deeds: list[Deed] = []
    for each in map(given_call, given):
        error, result = each.get("error"), each.get("result")
        if error is None and each.get("is_ok", True) is False:
            error = "the tool failed"
        outcome = UNSET if error is not None and result is None else result
        failed = None if error is None else ErrorDetail("tool_error", str(error))
        call = ToldCall(each["tool"], each.get("args", {}))
        deeds += (call, ToldReturn(len(deeds), outcome, failed))
    return deeds


def given_call(given: Any) -> Mapping[str, Any]:
    """A call as users write it; raises `ValueError` for what is none."""
    known = ", ".join(sorted(CALL_FIELDS))
    if not isinstance(given, Mapping) or "tool" not in given or given.keys() - CALL_FIELDS:
        raise ValueError(f"{given!r:.60} is no call: it has `tool`, and perhaps more of {known}")
    if not isinstance(given["tool"], str) or not given["tool"]:
        raise ValueError(f"{given!r:.60} is no call: `tool` is its name")
    return given


def told_usages(given: Any) -> list[ProviderUsage]:
    """The usage of model calls, one or a list; raises `ValueError` for what is none.

    Each is in our own fields, or as a library of a model gives it: alone, or with the answer.
    """
    found = []
    for each in given if isinstance(given, list | tuple) else [given]:
        raw = each if isinstance(each, Mapping) else told_value(each)
        if not isinstance(raw, Mapping):
            raise ValueError(f"usage: {each!r:.60} does not count tokens")
        provider, about = raw.get("provider"), raw
        if isinstance(raw.get("usage"), Mapping):  # the answer itself
            provider = "anthropic" if raw.get("type") == "message" else "openai"
            about = raw["usage"]
        try:
            found.append(parse_usage(about))
        except ValueError:
            usage = usage_told(told_value(about), raw.get("model"), provider)
            if usage is None or (about is raw and _OWN_USAGE & raw.keys()):
                raise  # one of our own fields does not fit
            found.append(usage)
    return found


def already_given(messages: list[Any], given: Any) -> int:
    """How many of the messages at the beginning are those that the task gave the agent."""
    if isinstance(given, Mapping):
        given = given.get("messages", given.get("history"))
    if not isinstance(given, list) or not given:
        return 0
    start = 0
    while start < len(messages) and _role(messages[start]) in ("system", "developer"):
        start += 1  # the agent's own instructions come before them
    end = start + len(given)
    said = [_said(each) for each in messages[start:end]]
    return end if said == [_said(each) for each in given] else 0


def _role(message: Any) -> Any:
    return message.get("role", message.get("type")) if isinstance(message, dict) else None


def _said(message: Any) -> list[Any]:
    return [
        (each["type"], each.get("role"), each.get("content"), each.get("tool"), each.get("args"))
        for each in events_of_messages([message])
    ]


def read_messages(messages: Sequence[Any], provider: str | None = None) -> ToldMessages:
    """What plain messages tell, in the form of any chat API or agent library.

    `provider` is that of the models, where messages name none.
    """
    listed = assembled(list(messages))
    dialogue = Dialogue()
    for event in events_of_messages(listed):
        dialogue.add(event)
    trace = decode_trace(dialogue.response("answer"), "answer")
    deeds, unknown = deeds_in(trace)
    spent = list(spent_by_each(each for each in listed if isinstance(each, dict)))
    usages = [
        (usage_told(each.usage, each.model, each.provider or provider), each) for each in spent
    ]
    answers = [usage for usage, each in usages if each.is_answer]
    return ToldMessages(
        None if trace.output is None else trace.output.content,
        deeds,
        [usage for usage, _ in usages if usage is not None],
        bool(answers) and None not in answers,
        unknown,
        any(not isinstance(each, Message) or each.role == "assistant" for each in trace.events),
    )


def deeds_in(trace: Trace) -> tuple[list[Deed], str | None]:
    """The calls, results and thoughts of a trace, in order; and what nobody understands."""
    deeds: list[Deed] = []
    places: dict[int, int] = {}  # of results, by their index: the place of the call
    unknown: str | None = None
    answers, last = pair_results(trace), _last_results(trace)
    for event in trace.events:
        match event:
            case ToolCall():
                result = answers.get(event.index)
                if result is not None and result.index in last and _is_of_answer(result):
                    places[result.index] = -1
                    continue
                if result is not None:
                    places[result.index] = len(deeds)
                deeds.append(ToldCall(event.tool or _UNNAMED, event.args, event.call_id))
            case ToolResult():
                place = places.get(event.index, len(deeds))
                if place == len(deeds):
                    deeds.append(ToldCall(event.tool or _UNNAMED, UNSET, event.call_id))
                if place >= 0:
                    deeds.append(_returned(event, place))
            case Retrieval():
                found = list(event.doc_ids) if event.content is None else event.content
                deeds.append(ToldCall(RETRIEVAL, {"query": event.query}))
                deeds.append(ToldReturn(len(deeds) - 1, found))
            case Message(role="assistant") if text := text_of(event.content):
                deeds.append(Thought(text))
            case Unknown() if (kind := event.type.removeprefix("unrecognised.")) not in _HARMLESS:
                unknown = unknown or kind or "one without a type"
    return deeds, unknown


def _last_results(trace: Trace) -> set[int]:
    """The results after which the agent did no more, or not before the user spoke again."""
    last, goes_on = set(), False
    for event in reversed(trace.events):
        match event:
            case ToolResult():
                if not goes_on:
                    last.add(event.index)
            case Message(role="user"):
                goes_on = False
            case ToolCall() | Message(role="assistant") | FinalOutput():
                goes_on = True
    return last


def _is_of_answer(result: ToolResult) -> bool:
    """Whether a library answers so to the "call" by which a model gives its answer as data."""
    said = text_of(result.payload)
    return said == _DATA_TAKEN or said.startswith(_DATA_RETURNED)


def _returned(result: ToolResult, place: int) -> ToldReturn:
    """What came of a call; chats do not say whether a tool failed unless there is a status."""
    is_good = result.status.casefold() in GOOD_STATUSES and not result.error
    took = result.latency_ms
    if is_good:
        return ToldReturn(place, result.payload, None, UNSET if took is None else round(took))
    code = "tool_timeout" if "timeout" in result.status.casefold() else "tool_error"
    message = result.error or text_of(result.payload) or result.status or "the tool failed"
    return ToldReturn(place, result.payload, ErrorDetail(code, message))
