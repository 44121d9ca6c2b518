"""The words of the report: labels of codes, and what the codes mean."""

from typing import NamedTuple


class Label(NamedTuple):
    """How a code is shown: its words, a sign that needs no colour, and a tone.

    The sign is a character reference, so that the pages are ASCII but for what the data says:
    such text is several times quicker to put together.
    """

    words: str
    sign: str
    tone: str


CHANGES = {
    "regression": Label("Regression", "&#9660;", "bad"),
    "improvement": Label("Improvement", "&#9650;", "good"),
    "still_failing": Label("Still failing", "&#10005;", "warn"),
    "still_passing": Label("Still passing", "&#10003;", "plain"),
}
RESULTS = {True: Label("pass", "&#10003;", "good"), False: Label("fail", "&#10005;", "bad")}
SEVERITIES = {
    "critical": Label("critical", "&#9670;", "critical"),
    "high": Label("high", "&#9650;", "bad"),
    "medium": Label("medium", "&#9679;", "warn"),
    "low": Label("low", "&#9675;", "info"),
}
RECOMMENDATIONS = {
    "block": Label("Block", "&#9632;", "critical"),
    "require_approval": Label("Require approval", "&#9650;", "bad"),
    "warn": Label("Warn", "&#9679;", "warn"),
    "none": Label("None", "&#9675;", "plain"),
}
INTEGRITIES = {
    "ok": Label("ok", "&#10003;", "plain"),
    "partial": Label("partial", "&#9680;", "warn"),
    "broken": Label("broken", "&#10005;", "bad"),
}
STATES = {
    "same": Label("same", "&#61;", "plain"),
    "changed": Label("changed", "&#8800;", "warn"),
    "only_baseline": Label("only in baseline", "&#8722;", "bad"),
    "only_new": Label("only in new", "&#43;", "good"),
}
TOOL_STATUSES = {
    "ok": Label("ok", "&#10003;", "good"),
    "error": Label("error", "&#10005;", "bad"),
    "timeout": Label("timeout", "&#10005;", "bad"),
    "": Label("no status", "&#63;", "plain"),
}
RISKS = {
    "high": Label("high risk", "&#9650;", "bad"),
    "medium": Label("medium risk", "&#9679;", "warn"),
    "low": Label("low risk", "&#9675;", "plain"),
}

ROOT_CAUSES = {
    "format_violation": "The output does not fit the format that the case declares.",
    "wrong_tool_choice": "A required action or tool is missing, or the order is another.",
    "missing_required_data": "The answer, or data that it has to rest on, is not there.",
    "hallucination_signal": "The output holds a value that contradicts the tool results.",
    "tool_failure": "A tool answered with an error or not in time.",
    "unknown": "The case failed, and none of the known causes applies.",
}

INTEGRITY_ISSUES = {
    "events_not_array": "The recorded events are not a list, so there is no chain to follow.",
    "no_events": "No events were recorded.",
    "missing_timestamps": "At least one event has no time, so the order rests on the list alone.",
    "non_monotonic_timestamps": "Times go back: an event is dated before one that precedes it.",
    "missing_call_id": "A call or a result has no call id; it is paired by its place.",
    "duplicate_call_id": "A call id is used more than once; such calls are paired by their order.",
    "tool_result_without_call": "A result answers no recorded call: the chain is broken.",
    "tool_call_without_result": "A call has no result: what came of it is not known.",
    "retrieval_required_missing": "The case requires documents, and nothing was retrieved.",
    "evidence_ref_missing_target": "An action cites evidence that is not in the trace.",
    "unknown_event_type": "An event is of no known type; it is shown as it was recorded.",
}


def spoken(code: str) -> str:
    """A code as words: `wrong_tool_choice` reads `wrong tool choice`."""
    return code.replace("_", " ")
