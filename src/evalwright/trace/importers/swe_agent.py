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
    listed,
    structure_from_text,
    text,
    whole_number,
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
    if _is_mini(value) and isinstance(value.get("messages"), list):
        return True
    steps = listed(value.get("trajectory"))
    if any(map(_is_step, steps[:_LOOKED_AT])) or any(map(_is_turn, steps[:_LOOKED_AT])):
        return True
    return isinstance(value.get("info"), dict) and any(map(_is_turn, listed(value.get("history"))))


def _is_mini(value: dict[str, Any]) -> bool:
    info = value.get("info")
    has_ended = isinstance(info, dict) and "exit_status" in info
    return has_ended or str(value.get("trajectory_format")).startswith("mini-swe-agent")


def _is_step(value: Json) -> bool:
    return isinstance(value, dict) and "action" in value and "observation" in value


def _is_turn(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def read_swe_agent(value: Json, name: str) -> Iterator[Transcript]:
    """The one case of a trajectory, named by its instance, else by its file."""
    info = value["info"] if isinstance(value.get("info"), dict) else {}
    steps = [each for each in listed(value.get("trajectory")) if _is_step(each)]
    turns = _turns(value, steps)
    found = Transcript(
        events=_opening(turns) + _of_steps(steps) if steps and not _has_calls(turns) else [],
        case_id=_case_id(value, info, name),
        usage=_spent(info) or spent_in(turns)[0],
        models=_models(value, info) or spent_in(turns)[1],
        answer=text(info.get("submission")) or text(value.get("generated_patch")),
        failure=_failure(text(info.get("exit_status")) or text(value.get("exit_status"))),
    )
    found.events = found.events or _of_turns(turns)
    yield found


def _turns(value: dict[str, Any], steps: list[Any]) -> list[dict[str, Any]]:
    """What was said to and by the model, without the demonstration before it."""
    for key in ("messages", "history", "trajectory"):
        found = [each for each in listed(value.get(key)) if isinstance(each, dict)]
        said = [each for each in found if not _is_step(each) and not each.get("is_demo")]
        if said:
            return [_plain(each) for each in said]
    asked = listed(steps[0].get("query")) or listed(steps[0].get("messages")) if steps else []
    return [_plain(each) for each in asked if isinstance(each, dict) and not each.get("is_demo")]


def _plain(turn: dict[str, Any]) -> dict[str, Any]:
    """A message as chat APIs have it; what it cost is in `extra` of mini-swe-agent."""
    extra = turn["extra"] if isinstance(turn.get("extra"), dict) else {}
    response = extra["response"] if isinstance(extra.get("response"), dict) else {}
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
    return {**{key: value for key, value in told.items() if value is not None}, **built}


def _has_calls(turns: list[dict[str, Any]]) -> bool:
    return any(turn.get("tool_calls") or turn.get("role") == "tool" for turn in turns)


def _opening(turns: list[dict[str, Any]]) -> list[CanonicalEvent]:
    """What the operator and the user said before the first answer."""
    first = next((n for n, turn in enumerate(turns) if turn.get("role") in _ANSWERS), len(turns))
    return events_of_messages(turns[:first])


def _of_steps(steps: list[dict[str, Any]]) -> list[CanonicalEvent]:
    events: list[CanonicalEvent] = []
    for number, step in enumerate(steps, 1):
        thought = text(step.get("thought")) or text(step.get("response"))
        events += [message("assistant", thought)] if thought else []
        if text(step.get("action")):
            events.append(tool_call(number, SHELL, {"command": step["action"]}))
            events.append(tool_result(number, SHELL, step.get("observation")))
    return events


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


def _case_id(value: dict[str, Any], info: dict[str, Any], name: str) -> str | None:
    found = identified(value, info, keys=("case_id", "instance_id", "task_id"))
    stem = name.rpartition("/")[2]
    for ending in (".json", ".traj"):
        stem = stem.removesuffix(ending)
    is_file = name.endswith((".traj", ".traj.json"))
    return found or (stem if is_file else None)


def _spent(info: dict[str, Any]) -> dict[str, Json]:
    stats = info.get("model_stats")
    stats = stats if isinstance(stats, dict) else {}
    found = {
        "input_tokens": whole_number(stats.get("tokens_sent")),
        "output_tokens": whole_number(stats.get("tokens_received")),
        "cost_usd": decimal(stats.get("instance_cost", stats.get("total_cost"))),
    }
    return {key: value for key, value in found.items() if value}


def _models(value: dict[str, Any], info: dict[str, Any]) -> list[str]:
    config = structure_from_text(value.get("replay_config")) or info.get("config")
    agent = config.get("agent") if isinstance(config, dict) else None
    holders = [each.get("model") for each in (agent, config) if isinstance(each, dict)]
    found = identified(value, info, *holders, keys=("model_name", "name", "model"))
    return [found] if found else []


def _failure(status: str | None) -> dict[str, Any]:
    if status is None or status.lower() in _SUBMITTED:
        return {}
    kind = "timeout" if "time" in status.lower() else "agent_error"
    return {"class": kind, "error_name": status}
