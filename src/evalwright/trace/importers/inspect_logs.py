"""Logs of Inspect: a whole log, or its header and its samples one by one."""

from collections.abc import Iterator
from typing import Any

from evalwright.trace.importers.canonical import CanonicalEvent, tool_call
from evalwright.trace.importers.messages import events_of, events_of_messages, readable
from evalwright.trace.importers.records import Imported, Importer, ImportRecord, faulty
from evalwright.trace.importers.transcripts import Transcript
from evalwright.trace.importers.values import (
    decimal,
    fields_of,
    first_identifier,
    identifier,
    listed,
    milliseconds,
    number,
    objects_in,
    sum_usage,
    text,
    tool_names,
    usage_of,
)
from evalwright.trace.model import Json

_ATTACHED = "attachment://"
_TIME_LIMITS = ("time", "working", "wall_clock")
_LAYERS = 4  # a pooled text may again point to an attachment


def is_inspect(value: Json) -> bool:
    """Whether a record is a log, the header of one, or a sample."""
    if not isinstance(value, dict):
        return False
    is_log = isinstance(value.get("eval"), dict) and "task" in value["eval"]
    return is_log or _is_sample(value)


def _is_sample(value: dict[str, Any]) -> bool:
    return "epoch" in value and "input" in value and ("target" in value or "scores" in value)


class InspectLogs(Importer):
    """Reads samples; the header before them names the model."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._header: dict[str, Any] = {}
        self._place: str | None = None

    def read(self, record: ImportRecord) -> Iterator[Imported]:
        value = record.value
        if _is_sample(value):
            self._place = None
            yield self._imported(value, record.number, record.place)
            return
        self._header = {key: value[key] for key in value if key != "samples"}
        samples = value["samples"] if isinstance(value.get("samples"), list) else []
        self._place = None if samples else record.place
        for each in samples:
            yield self._imported(each, record.number, record.place)

    def _imported(self, sample: Json, number: int, place: str) -> Imported:
        found = _case(sample, self._header) if isinstance(sample, dict) else Transcript()
        return found.imported(number, place)

    def is_idle(self) -> bool:
        """No header was read, which would tell of the samples after it."""
        return not self._header

    def rest(self) -> Iterator[Imported]:
        """A log without samples tells of no case."""
        if self._place is not None:
            reason = text(fields_of(self._header.get("error")).get("message"))
            why = f" ({reason[:200]})" if reason else ""
            status = text(self._header.get("status")) or "unknown"
            fault = f"{self._place}: the log has no samples; its status is {status}{why}"
            yield faulty(1, fault)


def _case(raw: dict[str, Any], header: dict[str, Any]) -> Transcript:
    sample, attached = raw, raw.get("attachments")
    if isinstance(attached, dict) and attached:  # long texts, which are kept once
        sample = _filled({key: raw[key] for key in raw if key != "attachments"}, attached)
    log, judging = _apart(objects_in(listed(sample.get("events"))))
    # What each model used as the agent; a sample has it together with what judges used.
    told = fields_of(sample.get("model_usage"))
    used = {name: usage_of({"usage": each}) for name, each in told.items()}
    for each in judging:
        name, output = text(each.get("model")), each.get("output")
        if each.get("event") == "model" and name in used and isinstance(output, dict):
            part = usage_of(output)
            used[name] = {key: max(0, n - part.get(key, 0)) for key, n in used[name].items()}
    used = {name: each for name, each in used.items() if any(each.values()) or not judging}
    prompt = sample.get("input")
    if not isinstance(prompt, str):
        asked = [each for each in events_of_messages(prompt) if each.get("role") == "user"]
        prompt = "\n\n".join(readable(each["content"]) for each in asked) or None
    events = [event for each in listed(sample.get("messages")) for event in _events(each)]
    names = [
        name
        for each in log
        if each.get("event") == "model"
        for name in tool_names(each.get("tools"))
    ]
    output = fields_of(sample.get("output"))
    named = text(output.get("model")) or text(fields_of(header.get("eval")).get("model"))
    found: list[str | None] = [*used] or [named]
    spent = sum_usage(used.values()) if used else usage_of(output)
    seconds = number(sample.get("total_time"))
    if seconds is not None:
        spent["duration_ms"] = round(seconds * 1000, 3)
    return Transcript(
        events=_timed(events, log) if events else _of_log(log),
        case_id=first_identifier(sample, "id"),
        trace_id=first_identifier(sample, "uuid"),
        prompt=prompt,
        tools=list(dict.fromkeys(names)),
        models=[name for name in found if name and name != "none/none"],
        usage=spent,
        failure=_failure(sample),
    )


def _apart(log: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What the agent did, and what scorers did after it, in spans or steps of their own."""
    spans: set[str | None] = set()
    is_step = False
    parts: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for each in log:
        is_scorer = each.get("type") in ("scorer", "scorers")
        if each.get("event") == "step" and is_scorer:
            is_step = each.get("action") == "begin"
        inner, outer = identifier(each.get("id")), identifier(each.get("parent_id"))
        if each.get("event") == "span_begin" and inner and (is_scorer or outer in spans):
            spans.add(inner)
        parts[is_step or identifier(each.get("span_id")) in spans].append(each)
    return parts


def _filled(value: Json, attached: dict[str, Any]) -> Json:
    if isinstance(value, str):
        for _ in range(_LAYERS):
            if not value.startswith(_ATTACHED):
                break
            value = attached.get(value.removeprefix(_ATTACHED), value)
            if not isinstance(value, str):
                break
        return value
    if isinstance(value, dict):
        return {key: _filled(inner, attached) for key, inner in value.items()}
    return [_filled(each, attached) for each in value] if isinstance(value, list) else value


def _events(turn: Json) -> list[CanonicalEvent]:
    if not isinstance(turn, dict):
        return events_of(turn)
    content = turn.get("content")
    if isinstance(content, list):
        content = [
            {"type": "thinking", "thinking": part.get("reasoning") or part.get("summary")}
            if isinstance(part, dict) and part.get("type") == "reasoning"
            else part
            for part in content
        ]
    built = {**turn, "content": content}
    calls = objects_in(listed(turn.get("tool_calls")))
    built["tool_calls"] = [
        {**each, "name": each["function"]} if isinstance(each.get("function"), str) else each
        for each in calls
    ] or None
    if turn.get("role") != "tool":
        return events_of(built)
    error, about = turn.get("error"), fields_of(turn.get("error"))
    built["name"] = turn.get("function") or turn.get("name")
    built["status"] = "ok" if error is None else "error"
    if about.get("type") == "timeout":
        built["status"] = "timeout"
    found = events_of(built)
    if reason := text(about.get("message")):
        for each in found:
            each |= {"error_message": reason, "payload": each.get("payload") or reason}
    return found


def _timed(events: list[CanonicalEvent], log: list[dict[str, Any]]) -> list[CanonicalEvent]:
    ran = {identifier(each.get("id")): each for each in log if each.get("event") == "tool"}
    timed = []
    for event in events:
        known = ran.get(event.get("call_id"), {})
        key = "timestamp" if event["type"] == "tool_call" else "completed"
        ts = milliseconds(known.get(key)) if event["type"].startswith("tool_") else None
        timed.append(event if ts is None else {**event, "ts": ts})
    return timed


def _of_log(log: list[dict[str, Any]]) -> list[CanonicalEvent]:
    """What models and tools did, where the messages were not kept."""
    events: list[CanonicalEvent] = []
    called: set[Json] = set()
    for each in log:
        new: list[CanonicalEvent] = []
        if each.get("event") == "model":
            turns = [] if events else [*listed(each.get("input"))]
            choices = listed(fields_of(each.get("output")).get("choices"))[:1]
            turns += [choice["message"] for choice in objects_in(choices) if "message" in choice]
            new = [event for turn in turns for event in _events(turn)]
        elif each.get("event") == "tool":
            call = tool_call(each.get("id"), each.get("function"), each.get("arguments"))
            turn = {
                "role": "tool",
                "tool_call_id": each.get("id"),
                "function": each.get("function"),
                "content": each.get("result"),
                "error": each.get("error"),
            }
            calls = [] if first_identifier(each, "id") in called else [call]
            new = _timed([*calls, *_events(turn)], [each])
        called.update(event.get("call_id") for event in new)
        events += new
    return events


def _failure(sample: dict[str, Any]) -> dict[str, Any]:
    error, limit = sample.get("error"), sample.get("limit")
    if isinstance(error, dict):
        return {"class": "agent_error", "error_message": text(error.get("message")) or "unknown"}
    if isinstance(limit, dict):
        kind = text(limit.get("type")) or "unknown"
        reached = decimal(limit.get("limit"))
        stopped = f"{kind} limit" + ("" if reached is None else f" of {reached:g}")
        failure = "timeout" if kind in _TIME_LIMITS else "agent_error"
        return {"class": failure, "error_name": stopped}
    return {}
