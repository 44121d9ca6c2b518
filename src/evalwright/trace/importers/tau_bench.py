"""Results of tau-bench and its successors: conversations between an agent and a simulated user."""

from collections.abc import Iterator
from typing import Any

from evalwright.trace.importers.canonical import CanonicalEvent, message
from evalwright.trace.importers.chat_dialects import spent_in
from evalwright.trace.importers.messages import events_of
from evalwright.trace.importers.transcripts import Transcript
from evalwright.trace.importers.values import (
    decimal,
    fields_of,
    first_identifier,
    listed,
    number,
    objects_in,
    text,
    without_none,
)
from evalwright.trace.model import Json

_BROKE_OFF = ("error", "timeout", "infrastructure")


def is_tau_bench(value: Json) -> bool:
    """Whether a record is a result, a simulation, or a file of simulations."""
    if not isinstance(value, dict):
        return False
    if any(map(_is_simulation, listed(value.get("simulations"))[:1])):
        return True
    return _is_simulation(value) or (
        bool(listed(value.get("traj"))) and any(key in value for key in ("reward", "task_id"))
    )


def _is_simulation(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and "task_id" in value
        and bool(listed(value.get("messages")))
        and any(key in value for key in ("reward_info", "termination_reason"))
    )


def read_tau_bench(value: Json, name: str) -> Iterator[Transcript]:
    """One case for each task; trials of one task are its repeats."""
    del name
    if "simulations" not in value:
        yield _case(value, {})
        return
    for each in objects_in(listed(value.get("simulations"))):
        yield _case(each, fields_of(value.get("info")))


def _case(raw: dict[str, Any], info: dict[str, Any]) -> Transcript:
    turns = listed(raw.get("traj")) or listed(raw.get("messages"))
    flat: list[Any] = []
    for turn in turns:  # one may hold the results that answer several calls at once
        several = fields_of(turn).get("tool_messages")
        flat += several if isinstance(several, list) else [turn]
    by_agent = [turn for turn in flat if isinstance(turn, dict) and turn.get("role") == "assistant"]
    usage, models = spent_in(by_agent)
    policy = text(fields_of(info.get("environment_info")).get("policy"))
    model = first_identifier(fields_of(info.get("agent_info")), "llm", "model")
    seconds = number(raw.get("duration"))
    found = {
        "cost_usd": decimal(raw.get("agent_cost")),
        "duration_ms": None if seconds is None else seconds * 1000,
    }
    failure: dict[str, Any] = {}
    reason = text(raw.get("termination_reason"))
    if error := text(fields_of(raw.get("info")).get("error")):
        failure = {"class": "agent_error", "error_message": error}
    elif reason is not None and any(word in reason for word in _BROKE_OFF):
        failure = {"class": "agent_error", "error_name": reason}
    return Transcript(
        events=[event for turn in flat for event in _events(turn)],
        case_id=first_identifier(raw, "case_id", "task_id"),
        trace_id=first_identifier(raw, "id"),
        instructions=([policy] if policy else []),
        models=[model] if model else models,
        usage=usage | without_none(found),
        failure=failure,
    )


def _events(turn: Json) -> list[CanonicalEvent]:
    if not isinstance(turn, dict):
        return events_of(turn)
    if turn.get("requestor") == "user" or (turn.get("role") == "user" and turn.get("tool_calls")):
        # The simulated user has tools as well; the agent did not call them.
        said = {key: turn[key] for key in ("content", "tool_calls") if turn.get(key)}
        return [message("user", said)]
    if turn.get("role") == "tool" and isinstance(turn.get("error"), bool):
        turn = {**turn, "status": "error" if turn["error"] else "ok"}
    elif turn.get("role") == "tool" and str(turn.get("content")).startswith("Error: "):
        turn = {**turn, "status": "error"}
    return events_of(turn)
