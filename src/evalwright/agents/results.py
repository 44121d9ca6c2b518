"""Results of agent libraries and of the SDKs of models, known by their shape; nothing is imported.

The result of a run holds all that the agent did. One answer of a model holds less: what an agent
with a loop of its own returns is the last of many. So calls in it count, but that it has none says
something only where it says that the model was offered no tool.
"""

import inspect
from collections.abc import Iterable
from typing import Any, NamedTuple

from evalwright.agents.account import Account
from evalwright.agents.answers import (
    Answer,
    ToldMessages,
    accounts_of,
    already_given,
    read_messages,
)
from evalwright.agents.outputs import told_value
from evalwright.agents.protocol import AgentFailure, Invocation, checked_output
from evalwright.agents.usage import usage_told
from evalwright.contracts.events import ProviderUsage

_PLAIN = frozenset((str, int, float, bool, type(None)))
# What LangGraph and its agents keep in a state beside what a graph declares.
_OF_STATES = {"messages", "structured_response", "remaining_steps", "jump_to", "__interrupt__"}
_FAILED = "An error occurred while running the tool"  # what the Agents SDK tells the model
_FINAL = ("get_final_completion", "get_final_response", "get_final_message")


class Result(NamedTuple):
    """What a result says: the output, and what was done for it."""

    output: Any
    account: Account
    refused: bool = False


def recorded_output(output: Any, invocation: Invocation) -> Any:
    """The output as JSON, with all that it tells recorded; raises `AgentFailure`."""
    if type(output) in _PLAIN:
        return checked_output(output)
    accounts: list[Account] = []
    given = invocation.task.input
    if isinstance(output, Answer):
        try:
            accounts = accounts_of(output.messages, output.usage, output.calls, given)
        except ValueError as error:
            raise AgentFailure("invalid_answer", str(error)) from None
        output = output.output
    result = recognised(output, given)
    checked = checked_output(output if result is None else result.output)
    if result is not None:
        accounts.append(result.account)
        invocation.refused = invocation.refused or result.refused
    for account in accounts:
        invocation.record_account(account)
    return checked


def recognised(output: Any, given: Any = None) -> Result | None:
    """What a result of a known library says; None for anything else.

    `given` is the input of the task. Raises `AgentFailure` where the result is an error.
    """
    try:
        return _recognised(output, given)
    except AgentFailure:
        raise
    except Exception:  # noqa: BLE001 - an object of the user's that only looks like a result
        return None


def _recognised(output: Any, given: Any) -> Result | None:
    if type(output) in _PLAIN:
        return None
    if isinstance(output, dict):
        return _of_state(output, given) if _is_state(output) else None
    if isinstance(output, list):
        return _of_list(output)
    if _is_agents_run(output):
        return _of_agents_run(output)
    if _has(output, "new_messages", "all_messages", "usage"):
        return _of_pydantic_run(output)
    if _has(output, "next_node", "result"):  # a run that was iterated over
        return _recognised(output.result, given)
    if _has(output, "value", "interrupts") and _is_state(output.value):
        return _of_state(output.value, given)
    if _has(output, "values", "next", "config") and _is_state(output.values):
        return _of_state(output.values, given)
    if _get(output, "object") == "chat.completion" and isinstance(output.choices, list):
        return _of_completion(output)
    if _get(output, "object") == "response" and isinstance(output.output, list):
        return _of_response(output)
    kind = _get(output, "type")
    if kind == "message" and _get(output, "role") == "assistant":
        return _of_message(output)
    if kind in ("ai", "AIMessageChunk") and _is_message(output):
        told = read_messages([told_value(output)])
        return _one_answer("LangChain", told, next(iter(told.usages), None), told.output or "")
    return None


# Results that are still on their way.


def read_to_end(output: Any) -> Any:
    """What a stream of a model brings, read here; anything else as it is."""
    if type(output) in _PLAIN:
        return output
    if _is_open_run(output) and not inspect.iscoroutinefunction(output.get_output):
        output.get_output()
        return output
    if not _has(output.__class__, "__stream__", "__iter__"):
        return output
    final = _final_of(output)
    return list(output) if final is None else final()


async def awaited_to_end(output: Any) -> Any:
    """What a stream brings in the event loop, of a model or of a run; anything else as it is."""
    if type(output) in _PLAIN:
        return output
    if _is_agents_run(output) and _get(output, "is_complete") is False:
        async for _ in output.stream_events():
            pass
    elif _is_open_run(output) and inspect.iscoroutinefunction(output.get_output):
        await output.get_output()
    elif _has(output.__class__, "__stream__", "__aiter__"):
        final = _final_of(output)
        return [each async for each in output] if final is None else await final()
    return read_to_end(output)


def _is_open_run(output: Any) -> bool:
    return _has(output, "new_messages", "get_output") and _get(output, "is_complete") is False


def _final_of(output: Any) -> Any:
    return next((found for each in _FINAL if callable(found := _get(output, each))), None)


# Results of runs.


def _is_agents_run(output: Any) -> bool:
    return _has(output, "new_items", "raw_responses", "final_output") and isinstance(
        output.new_items, list
    )


def _of_agents_run(run: Any) -> Result:
    items, lost = [], None
    for item in run.new_items:
        kind, raw = _get(item, "type"), told_value(_get(item, "raw_item"))
        if kind in ("tool_approval_item", "input_item") or not isinstance(raw, dict):
            continue  # the call stands there as well; what the user said is no deed
        if kind == "tool_call_output_item":
            text = raw.get("output")
            raw = {**raw, "output": told_value(item.output)}  # else it is the text of it
            if isinstance(text, str) and text.startswith(_FAILED):
                raw["status"] = "failed"
        origin = _get(item, "tool_origin")
        if _get(_get(origin, "type"), "value") == "agent_as_tool":
            name = _get(origin, "agent_tool_name") or raw.get("name")
            lost = f"{name} is an agent, whose calls the result does not hold"
        items.append(raw)
    told = read_messages(items)
    usages, has_all = _usages_of_agents(run)
    return Result(
        run.final_output, _account("openai-agents", told, usages, lost, has_all_usages=has_all)
    )


def _usages_of_agents(run: Any) -> tuple[list[ProviderUsage], bool]:
    agents = {id(_get(each, "raw_item")): _get(each, "agent") for each in run.new_items}
    usages = []
    for response in run.raw_responses:
        made = next((agents[id(each)] for each in response.output if id(each) in agents), None)
        model, provider = _model_of(made or _get(run, "last_agent"))
        usages.append(usage_told(told_value(response.usage), model, provider))
    known = [each for each in usages if each is not None and each.input_tokens]
    whole = usage_told(told_value(_get(_get(run, "context_wrapper"), "usage")))
    return known + _rest(whole, known), bool(usages) and len(known) == len(usages)


def _model_of(agent: Any) -> tuple[str | None, str | None]:
    """The model of an agent, and its provider: `gpt-4.1`, or `litellm/anthropic/claude-…`."""
    model = _get(agent, "model")
    name = model if isinstance(model, str) else _get(model, "model")
    if not isinstance(name, str):
        return None, None
    provider, slash, rest = name.removeprefix("litellm/").partition("/")
    return (rest, provider) if slash else (name, "openai")


def _of_pydantic_run(run: Any) -> Result | None:
    messages = [told_value(each) for each in run.new_messages()]
    told = read_messages(messages)
    answers = sum(isinstance(each, dict) and each.get("kind") == "response" for each in messages)
    if not answers:
        return None
    used = run.usage() if inspect.ismethod(run.usage) else run.usage
    usages = told.usages + _rest(usage_told(told_value(used)), told.usages)
    lost = None
    if (requests := _get(used, "requests")) and requests > answers:
        lost = f"the result does not hold {requests - answers} of {requests} requests to models"
    output = run.output if _has(run, "output") else told.output
    return Result(
        output, _account("pydantic-ai", told, usages, lost, has_all_usages=told.has_all_usages)
    )


def _rest(whole: ProviderUsage | None, parts: Iterable[ProviderUsage]) -> list[ProviderUsage]:
    if whole is None:
        return []
    sent = whole.input_tokens - sum(each.input_tokens for each in parts)
    answered = whole.output_tokens - sum(each.output_tokens for each in parts)
    if sent <= 0 and answered <= 0:
        return []
    return [ProviderUsage("unspecified", "unspecified", max(sent, 0), max(answered, 0))]


def _is_state(output: Any) -> bool:
    messages = output.get("messages") if isinstance(output, dict) else None
    return isinstance(messages, list) and bool(messages) and all(map(_is_message, messages))


def _is_message(value: Any) -> bool:
    if isinstance(value, dict | str):
        return False
    return _has(type(value), "model_dump") and _has(value, "content", "response_metadata")


def _of_state(state: dict[str, Any], given: Any) -> Result:
    messages = [told_value(each) for each in state["messages"]]
    told = read_messages(messages[already_given(messages, given) :])
    if state.get("structured_response") is not None:
        output = state["structured_response"]
    elif state.keys() <= _OF_STATES:
        output = told.output
    else:
        output = state  # what the graph declares beside its messages is its answer, too
    account = _account("LangGraph", told, told.usages, has_all_usages=told.has_all_usages)
    return Result(output, account)


def _account(
    how: str,
    told: ToldMessages,
    usages: list[ProviderUsage],
    lost: str | None = None,
    *,
    has_all_usages: bool,
) -> Account:
    if told.not_understood is not None:
        lost = lost or f"{told.not_understood!r} in the result is not understood"
    return Account(
        f"{how} result",
        told.deeds,
        usages or None,
        has_all_usages=has_all_usages,
        has_messages=True,
        has_all_calls=told.has_acts,
        lost=lost,
    )


# One answer of a model.


def _of_completion(completion: Any) -> Result:
    message = completion.choices[0].message
    output, refusal = _get(message, "parsed"), _get(message, "refusal")
    if output is None:
        output = message.content or refusal or ""
    said = {**told_value(message), "role": "assistant"}
    usage = usage_told(told_value(completion.usage), completion.model, "openai")
    return _one_answer("OpenAI", read_messages([said]), usage, output, refused=bool(refusal))


def _of_response(response: Any) -> Result:
    """A response of OpenAI; one without tools that continues no other holds all there was."""
    if (error := _get(response, "error")) is not None:
        message = f"{_get(error, 'code')}: {_get(error, 'message')}"
        raise AgentFailure("agent_error", f"the model's response failed: {message}")
    items = [told_value(each) for each in response.output]
    told = read_messages(items)
    parts = [part for each in items for part in each.get("content") or ()]
    output = _get(response, "output_parsed")
    if output is None:
        output = told.output or ""
    usage = usage_told(told_value(response.usage), response.model, "openai")
    return _one_answer(
        "OpenAI",
        told,
        usage,
        output,
        refused=any(part.get("type") == "refusal" for part in parts),
        is_whole=response.tools == [] and response.previous_response_id is None,
    )


def _of_message(message: Any) -> Result:
    told = read_messages([said := told_value(message)])
    output = _get(message, "parsed_output")
    if output is None:
        output = told.output or ""
    usage = usage_told(said["usage"], message.model, "anthropic")
    refused = message.stop_reason == "refusal"
    return _one_answer("Anthropic", told, usage, output, refused=refused)


def _of_list(output: list[Any]) -> Result | None:
    if not output or isinstance(output[0], dict | str) or not _has(type(output[0]), "model_dump"):
        return None
    if all(map(_is_message, output)):
        return _of_state({"messages": output}, None)
    whole = _get(output[-1], "response")
    if _get(whole, "object") == "response":
        return _of_response(whole)
    parts = [told_value(each) for each in output]
    name = "OpenAI" if _get(output[0], "object") == "chat.completion.chunk" else "Anthropic"
    if name == "Anthropic" and _get(output[0], "type") != "message_start":
        return None
    told = read_messages(parts, name.lower())
    return _one_answer(name, told, next(iter(told.usages), None), told.output or "")


def _one_answer(
    name: str,
    told: ToldMessages,
    usage: ProviderUsage | None,
    output: Any,
    *,
    refused: bool = False,
    is_whole: bool = False,
) -> Result:
    usages = None if usage is None else [usage]
    account = Account(f"{name} answer", told.deeds, usages, has_all_calls=is_whole, asked=name)
    return Result(output, account, refused)


# Objects of libraries, which may do anything when they are looked at.


def _has(output: Any, *names: str) -> bool:
    return all(hasattr(output, name) for name in names)


def _get(output: Any, name: str) -> Any:
    return getattr(output, name, None)
