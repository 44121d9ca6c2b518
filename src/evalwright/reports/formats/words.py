"""The words of the report: labels of codes, and what the codes mean."""

import msgspec


class Label(msgspec.Struct, frozen=True, array_like=True):
    """How a code is shown: its words, and the shape or the tone that the parts of pages have."""

    words: str
    kind: str


CHANGES = {
    "regression": Label("Got worse", "fail"),
    "improvement": Label("Got better", "pass"),
    "still_failing": Label("Still failing", "fail"),
    "still_passing": Label("Still passing", "pass"),
    "differs": Label("Differs, not judged", "open"),
    "same": Label("Same, not judged", "open"),
}
# Of runs, tasks, cases, checks and prompt files, on pages and in reports.
VERDICTS = {
    "passed": Label("Passed", "pass"),
    "failed": Label("Failed", "fail"),
    "error": Label("Error", "error"),
    "open": Label("No score", "open"),
    "skipped": Label("Skipped", "idle"),
}
RESULTS = {True: VERDICTS["passed"], False: VERDICTS["failed"], None: Label("Not judged", "open")}
SEVERITIES = {
    "critical": Label("Critical", "critical"),
    "high": Label("High", "fail"),
    "medium": Label("Medium", "warn"),
    "low": Label("Low", ""),
}
RECOMMENDATIONS = {
    "block": Label("Block", "critical"),
    "require_approval": Label("Require approval", "fail"),
    "warn": Label("Warn", "warn"),
    "none": Label("None", ""),
}
INTEGRITIES = {
    "ok": Label("Ok", ""),
    "partial": Label("Partial", "warn"),
    "broken": Label("Broken", "fail"),
}
STATES = {
    "same": "the same",
    "changed": "changed",
    "only_baseline": "only in baseline",
    "only_new": "only in new",
}
RISKS = {
    "high": Label("High risk", "fail"),
    "medium": Label("Medium risk", "warn"),
    "low": Label("Low risk", ""),
}


ROOT_CAUSES = {
    "format_violation": "The output does not match the format that the case declares.",
    "wrong_tool_choice": "A required action or tool is missing, or the order is different.",
    "missing_required_data": "The answer is missing, or data that it or a check must be based on.",
    "hallucination_signal": "The output contains a value that contradicts the tool results.",
    "tool_failure": "A tool returned an error or timed out.",
    "wrong_answer": "The answer does not say what is expected, or says what it must not.",
    "limit_exceeded": "The answer took more time, money, tokens or turns than the case allows.",
    "unknown": "The case failed, and none of the known causes applies.",
}

INTEGRITY_ISSUES = {
    "events_not_array": "The recorded events are not a list, so there is no chain to follow.",
    "no_events": "No events were recorded.",
    "missing_timestamps": "At least one event has no timestamp; the order is that of the list.",
    "non_monotonic_timestamps": "Timestamps go backwards: an event is dated before an earlier one.",
    "missing_call_id": "A call or a result has no call id; it is paired by its position.",
    "duplicate_call_id": "A call id is used more than once; these calls are paired in order.",
    "tool_result_without_call": "A result belongs to no recorded call: the chain is broken.",
    "tool_call_without_result": "A call has no result: its outcome is unknown.",
    "retrieval_required_missing": "The case requires documents, and nothing was retrieved.",
    "evidence_ref_missing_target": "An action cites evidence that is not in the trace.",
    "unknown_event_type": "An event has an unknown type; it is shown as recorded.",
}


def in_words(code: str) -> str:
    """A code as words: `wrong_tool_choice` reads `wrong tool choice`."""
    return code.replace("_", " ")
