"""Trajectories of SWE-agent and mini-swe-agent: steps of thought, command and what it printed."""

import re
from collections.abc import Iterator
from typing import Any

from evalwright.trace.importers.canonical import CanonicalEvent, message, tool_call, tool_result
from evalwright.trace.importers.chat_dialects import spent_in
from evalwright.trace.importers.messages import events_of, events_of_messages, readable
from evalwright.trace.importers.model_io import identified
from evalwright.trace.importers.transcripts import Transcript
from evalwright.trace.importers.values import (
    decimal,
    fields_of,
    listed,
    objects_in,
    structure_from_text,
    text,
    whole_number,
    without_none,
)
from evalwright.trace.model import Json

SHELL = "bash"
_FENCED = re.compile(r"```[\w-]*\n(.*?)\n?```", re.DOTALL)
_ANSWERS = ("assistant", "ai", "model")
_SUBMITTED = ("submitted", "submitted (exit_cost)", "submitted (exit_context)", "early_exit")
_LOOKED_AT = 5


def is_swe_agent(value: Json) -> bool:
    """Whether a record is a trajectory: steps, or messages that mini-swe-agent marks as such."""
    if not isinstance(value, dict):
        return False
    is_mini = str(value.get("trajectory_format")).startswith("mini-swe-agent")
    is_mini = is_mini or "exit_status" in fields_of(value.get("info"))
    if is_mini and isinstance(value.get("messages"), list):
        return True
    steps = listed(value.get("trajectory"))
    if any(map(_is_step, steps[:_LOOKED_AT])) or any(map(_is_turn, steps[:_LOOKED_AT])):
        return True
    return isinstance(value.get("info"), dict) and any(map(_is_turn, listed(value.get("history"))))


def _is_step(value: Json) -> bool:
    return isinstance(value, dict) and "action" in value and "observation" in value


def _is_turn(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def read_swe_agent(value: Json, name: str) -> Iterator[Transcript]:
    """The one case of a trajectory, named by its instance, else by its file."""
    info = fields_of(value.get("info"))
    steps = [each for each in listed(value.get("trajectory")) if _is_step(each)]
    turns = _turns(value, steps)
    events: list[CanonicalEvent] = []
    if steps and not _has_calls(turns):
        # What the operator and the user said before the first answer, then the steps.
        is_answer = [turn.get("role") in _ANSWERS for turn in turns]
        first = is_answer.index(True) if True in is_answer else len(turns)
        events = events_of_messages(turns[:first])
        for number, step in enumerate(steps, 1):
            thought = text(step.get("thought")) or text(step.get("response"))
            events += [message("assistant", thought)] if thought else []
            if text(step.get("action")):
                events.append(tool_call(number, SHELL, {"command": step["action"]}))
                events.append(tool_result(number, SHELL, step.get("observation")))
    case_id = identified(value, info, keys=("case_id", "instance_id", "task_id"))
    if case_id is None and name.endswith((".traj", ".traj.json")):
        case_id = name.rpartition("/")[2].removesuffix(".json").removesuffix(".traj")
    stats = fields_of(info.get("model_stats"))
    spent = {
        "input_tokens": whole_number(stats.get("tokens_sent")),
        "output_tokens": whole_number(stats.get("tokens_received")),
        "cost_usd": decimal(stats.get("instance_cost", stats.get("total_cost"))),
    }
    config = fields_of(structure_from_text(value.get("replay_config")) or info.get("config"))
    holders = [each.get("model") for each in (fields_of(config.get("agent")), config)]
    model = identified(value, info, *holders, keys=("model_name", "name", "model"))
    failure: dict[str, Any] = {}
    status = text(info.get("exit_status")) or text(value.get("exit_status"))
    if status is not None and status.lower() not in _SUBMITTED:
        kind = "timeout" if "time" in status.lower() else "agent_error"
        failure = {"class": kind, "error_name": status}
    yield Transcript(
        events=events or _of_turns(turns),
        case_id=case_id,
        usage={key: value for key, value in spent.items() if value} or spent_in(turns)[0],
        models=[model] if model else spent_in(turns)[1],
        answer=text(info.get("submission")) or text(value.get("generated_patch")),
        failure=failure,
    )


def _turns(value: dict[str, Any], steps: list[Any]) -> list[dict[str, Any]]:
    """What was said to and by the model, without the demonstration before it."""
    for key in ("messages", "history", "trajectory"):
        found = objects_in(listed(value.get(key)))
        said = [each for each in found if not _is_step(each) and not each.get("is_demo")]
        if said:
            return [_plain(each) for each in said]
    asked = listed(steps[0].get("query")) or listed(steps[0].get("messages")) if steps else []
    return [_plain(each) for each in objects_in(asked) if not each.get("is_demo")]


def _plain(turn: dict[str, Any]) -> dict[str, Any]:
    """A message as chat APIs have it; what it cost is in `extra` of mini-swe-agent."""
    extra = fields_of(turn.get("extra"))
    response = fields_of(extra.get("response"))
    built = {key: turn[key] for key in turn if key != "extra"}
    ids = turn.get("tool_call_ids")
    if isinstance(ids, list) and ids and turn.get("role") == "tool":
        built["tool_call_id"] = ids[0]
    if built.get("content") is None and ("text" in turn or "system_prompt" in turn):
        built["content"] = turn.get("text") or turn.get("system_prompt")
    told = {"usage": response.get("usage"), "model": response.get("model")}
    actions = extra.get("actions")
    first = actions[0] if isinstance(actions, list) and actions else None
    told["cost"] = extra.get("cost")
    told["action"] = identified(first, keys=("command", "action")) or text(first)
    returned = extra.get("returncode")
    if isinstance(returned, int) and turn.get("role") == "tool":
        told["status"] = "error" if returned else "ok"
    return {**without_none(told), **built}


def _has_calls(turns: list[dict[str, Any]]) -> bool:
    return any(turn.get("tool_calls") or turn.get("role") == "tool" for turn in turns)


def _of_turns(turns: list[dict[str, Any]]) -> list[CanonicalEvent]:
    """A conversation; without calls of tools, commands stand in fences in what the model says."""
    calls_tools = _has_calls(turns)
    events: list[CanonicalEvent] = []
    waiting: int | None = None
    has_acted = False
    for number, turn in enumerate(turns):
        role = turn.get("role")
        if role == "exit" or not isinstance(role, str):
            output = turn.get("output")
            events += events_of_messages(output) if isinstance(output, list) else []
            events += [] if role == "exit" or output else events_of(turn)
            continue
        if role == "user" and has_acted and not calls_tools:
            events.append(tool_result(waiting, SHELL, turn.get("content")))
            continue
        events += events_of(turn)
        if role in _ANSWERS and not calls_tools:
            has_acted = True
            waiting = number
            given = text(turn.get("action"))
            fenced = _FENCED.findall(readable(turn.get("content")))
            command = given or (fenced[-1] if fenced else None)
            events += [tool_call(number, SHELL, {"command": command})] if command else []
    return events
