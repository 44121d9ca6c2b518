"""From a recorded response to a trace: whatever is wrong with it, nothing is dropped."""

from collections.abc import Callable
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
    spent = _NO_USAGE
    if isinstance(usage, dict):
        spent = Usage(
            duration_ms=_number(usage.get("duration_ms")),
            input_tokens=_whole(usage.get("input_tokens")),
            output_tokens=_whole(usage.get("output_tokens")),
            cost_usd=_number(usage.get("cost_usd")),
        )
    answer = record.get("final_output")
    output = next((each for each in reversed(events or ()) if type(each) is FinalOutput), None)
    index = output.index if output else None
    if isinstance(answer, dict) and "content" in answer:
        kind, ts = _text(answer.get("content_type")) or "text", output.ts if output else None
        output = FinalOutput(index, ts, kind, answer["content"])
    elif isinstance(answer, str):
        output = FinalOutput(index, None, "text", answer)
    return Trace(
        case_id,
        prompt or _text(record.get("user_prompt")) or "",
        system or _text(record.get("system_prompt")) or "",
        _strings(record.get("tools_offered")),
        events or (),
        output,
        tuple(map(_action, _dicts(record.get("proposed_actions")))),
        None if failure is None or failure is False else _failure(failure),
        spent,
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


def _action(raw: dict[str, Any]) -> ProposedAction:
    risk, evidence = raw.get("risk_level"), []
    for each in _dicts(raw.get("evidence_refs")):
        kind = _text(each.get("kind")) or ""
        target = each.get("id" if kind == "retrieval_doc" else "call_id")
        evidence.append(EvidenceTarget(kind, _identifier(target)))
    return ProposedAction(
        _identifier(raw.get("action_id")),
        _text(raw.get("action_type")) or "",
        _text(raw.get("tool_name")),
        raw.get("params"),
        risk if isinstance(risk, str) and risk in _RISK_LEVELS else "medium",
        _strings(raw.get("risk_tags")),
        tuple(evidence),
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
