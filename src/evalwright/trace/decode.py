"""From a recorded response to a trace: whatever is wrong with it, nothing is dropped."""

from collections.abc import Callable, Sequence
from typing import Any

from evalwright.contracts.coverage import RESPONSE_FIELD, coverage_from, recorded_coverage
from evalwright.trace.model import (
    Event,
    EvidenceTarget,
    FinalOutput,
    Json,
    Message,
    ProposedAction,
    Retrieval,
    RunnerFailure,
    ToolCall,
    ToolResult,
    Trace,
    Unknown,
    Usage,
    text_of,
)

FARTHEST = 10**18  # larger numbers are not times, prices or durations

_RISK_LEVELS = ("low", "medium", "high")
_NO_USAGE = Usage()
_DOCUMENT_KEYS = ("documents", "docs", "snippets", "content", "snippets_hashes")


def decode_trace(response: Json, case_id: str, prompt: str = "", system: str = "") -> Trace:
    """The trace of one response object; what does not fit the format becomes `Unknown`."""
    record: dict[str, Any] = response if isinstance(response, dict) else {}
    said = record.get("events", [])
    events = tuple(map(_event, range(len(said)), said)) if isinstance(said, list) else None
    failure, usage = record.get("runner_failure"), record.get("usage")
    return Trace(
        case_id,
        prompt or _text(record.get("user_prompt")) or "",
        system or _text(record.get("system_prompt")) or "",
        _strings(record.get("tools_offered")),
        events or (),
        _output(record.get("final_output"), events or ()),
        tuple(map(_action, _dicts(record.get("proposed_actions")))),
        None if failure is None or failure is False else _failure(failure),
        spent := _usage(usage) if isinstance(usage, dict) else _NO_USAGE,
        events is None,
        coverage_from(record.get(RESPONSE_FIELD))
        or recorded_coverage(
            has_calls="events" in record,
            has_usage=spent.cost_usd is not None or spent.has_tokens,
        ),
    )


def _event(index: int, raw: Json) -> Event:
    if type(raw) is not dict:
        return Unknown(index, None, "", raw)
    kind = raw.get("type")
    build = _BUILDERS.get(kind) if type(kind) is str else None
    ts = raw.get("ts")
    if type(ts) is not int or not -FARTHEST < ts < FARTHEST:
        ts = _number(ts)
    if build is None:
        return Unknown(index, ts, kind if isinstance(kind, str) else "", raw)
    return build(index, ts, raw)


def _tool_call(index: int, ts: float | None, raw: dict[str, Any]) -> Event:
    get = raw.get
    tool = get("tool")
    return ToolCall(
        index,
        ts,
        _identifier(get("call_id")),
        tool if type(tool) is str else "",
        get("args"),
        _identifier(get("action_id")),
    )


def _tool_result(index: int, ts: float | None, raw: dict[str, Any]) -> Event:
    get = raw.get
    tool, status, error = get("tool"), get("status"), get("error_message")
    return ToolResult(
        index,
        ts,
        _identifier(get("call_id")),
        tool if type(tool) is str else None,
        status if type(status) is str else "",
        raw["payload_summary"] if "payload_summary" in raw else get("payload"),
        error if type(error) is str else None,
        _number(get("latency_ms")),
    )


def _retrieval(index: int, ts: float | None, raw: dict[str, Any]) -> Event:
    content = next((raw[key] for key in _DOCUMENT_KEYS if key in raw), None)
    return Retrieval(index, ts, text_of(raw.get("query")), _strings(raw.get("doc_ids")), content)


def _message(index: int, ts: float | None, raw: dict[str, Any]) -> Event:
    return Message(index, ts, _text(raw.get("role")) or "", raw.get("content"))


def _final_output(index: int, ts: float | None, raw: dict[str, Any]) -> Event:
    return FinalOutput(index, ts, _text(raw.get("content_type")) or "text", raw.get("content"))


_BUILDERS: dict[str, Callable[[int, float | None, dict[str, Any]], Event]] = {
    "tool_call": _tool_call,
    "tool_result": _tool_result,
    "retrieval": _retrieval,
    "message": _message,
    "final_output": _final_output,
}


def _output(raw: Json, events: Sequence[Event]) -> FinalOutput | None:
    recorded = next((event for event in reversed(events) if type(event) is FinalOutput), None)
    if isinstance(raw, dict) and "content" in raw:
        index = recorded.index if recorded else None
        ts = recorded.ts if recorded else None
        return FinalOutput(index, ts, _text(raw.get("content_type")) or "text", raw["content"])
    if isinstance(raw, str):
        return FinalOutput(recorded.index if recorded else None, None, "text", raw)
    return recorded


def _action(raw: dict[str, Any]) -> ProposedAction:
    risk = raw.get("risk_level")
    return ProposedAction(
        _identifier(raw.get("action_id")),
        _text(raw.get("action_type")) or "",
        _text(raw.get("tool_name")),
        raw.get("params"),
        risk if isinstance(risk, str) and risk in _RISK_LEVELS else "medium",
        _strings(raw.get("risk_tags")),
        tuple([_evidence(each) for each in _dicts(raw.get("evidence_refs"))]),
    )


def _evidence(raw: dict[str, Any]) -> EvidenceTarget:
    kind = _text(raw.get("kind")) or ""
    return EvidenceTarget(
        kind, _identifier(raw.get("id" if kind == "retrieval_doc" else "call_id"))
    )


def _failure(raw: Json) -> RunnerFailure:
    if not isinstance(raw, dict):
        return RunnerFailure("unknown", message=text_of(raw))
    said = [raw.get(key) for key in ("error_name", "error_message", "status_text")]
    return RunnerFailure(
        kind=_text(raw.get("class")) or "unknown",
        status=_whole(raw.get("status")),
        attempt=_whole(raw.get("attempt")),
        transient=raw["is_transient"] if isinstance(raw.get("is_transient"), bool) else None,
        message=": ".join(text for text in said if isinstance(text, str) and text),
        body_path=_text(raw.get("full_body_saved_to")),
        meta_path=_text(raw.get("full_body_meta_saved_to")),
    )


def _usage(raw: dict[str, Any]) -> Usage:
    return Usage(
        duration_ms=_number(raw.get("duration_ms")),
        input_tokens=_whole(raw.get("input_tokens")),
        output_tokens=_whole(raw.get("output_tokens")),
        cost_usd=_number(raw.get("cost_usd")),
    )


def _text(value: Json) -> str | None:
    return value if type(value) is str else None


def _identifier(value: Json) -> str | None:
    if type(value) is str:
        return value or None
    return str(value) if type(value) is int else None


def _number(value: Json) -> float | None:
    if type(value) is not int and type(value) is not float:
        return None
    return value if -FARTHEST < value < FARTHEST else None


def _whole(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _strings(value: Json) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple([each for each in value if isinstance(each, str)])


def _dicts(value: Json) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
