"""The words of the report: labels of codes, and what the codes mean."""

from html import unescape
from typing import Literal, NamedTuple

from evalwright.reports.formats.html import Html, name_html, text_html

_DOWN, _UP = Html("&#9660;"), Html("&#9650;")
_CROSS, _TICK = Html("&#10007;"), Html("&#10003;")
_DIAMOND, _DOT, _CIRCLE = Html("&#9670;"), Html("&#9679;"), Html("&#9675;")
_SQUARE, _HALF = Html("&#9632;"), Html("&#9680;")
_EQUAL, _UNEQUAL = Html("&#61;"), Html("&#8800;")
_MINUS, _PLUS, _UNKNOWN = Html("&#8722;"), Html("&#43;"), Html("&#63;")
_DASH = Html("&#8211;")


class Label(NamedTuple):
    """How a code is shown: its words, a sign that needs no colour, and a tone.

    The sign is a character reference, so that the pages are ASCII except for the data:
    ASCII text is several times faster to join.
    """

    words: str
    sign: Html
    tone: Literal["good", "plain", "info", "warn", "bad", "critical"]


CHANGES = {
    "regression": Label("Regression", _DOWN, "bad"),
    "improvement": Label("Improvement", _UP, "good"),
    "still_failing": Label("Still failing", _CROSS, "warn"),
    "still_passing": Label("Still passing", _TICK, "plain"),
    "differs": Label("Differs, not judged", _UNEQUAL, "info"),
    "same": Label("Same, not judged", _EQUAL, "plain"),
}
UNJUDGED = Label("Not judged", _UNKNOWN, "plain")
# Of runs, tasks, cases, checks and prompt files, on pages and in reports.
VERDICTS = {
    "passed": Label("Passed", _TICK, "good"),
    "failed": Label("Failed", _CROSS, "bad"),
    "error": Label("Error", _UP, "warn"),
    "open": Label("No score", _UNKNOWN, "plain"),
    "skipped": Label("Skipped", _DASH, "plain"),
}
RESULTS = {True: VERDICTS["passed"], False: VERDICTS["failed"]}
SEVERITIES = {
    "critical": Label("critical", _DIAMOND, "critical"),
    "high": Label("high", _UP, "bad"),
    "medium": Label("medium", _DOT, "warn"),
    "low": Label("low", _CIRCLE, "info"),
}
RECOMMENDATIONS = {
    "block": Label("Block", _SQUARE, "critical"),
    "require_approval": Label("Require approval", _UP, "bad"),
    "warn": Label("Warn", _DOT, "warn"),
    "none": Label("None", _CIRCLE, "plain"),
}
INTEGRITIES = {
    "ok": Label("ok", _TICK, "plain"),
    "partial": Label("partial", _HALF, "warn"),
    "broken": Label("broken", _CROSS, "bad"),
}
STATES = {
    "same": Label("same", _EQUAL, "plain"),
    "changed": Label("changed", _UNEQUAL, "warn"),
    "only_baseline": Label("only in baseline", _MINUS, "bad"),
    "only_new": Label("only in new", _PLUS, "good"),
}
TOOL_STATUSES = {
    "ok": Label("ok", _TICK, "good"),
    "error": Label("error", _CROSS, "bad"),
    "timeout": Label("timeout", _CROSS, "bad"),
    "": Label("no status", _UNKNOWN, "plain"),
}
RISKS = {
    "high": Label("high risk", _UP, "bad"),
    "medium": Label("medium risk", _DOT, "warn"),
    "low": Label("low risk", _CIRCLE, "plain"),
}


def status_html(label: Label) -> Html:
    """A label with its sign and its tone."""
    return Html(f'<span class="st {label.tone}">{label.sign} {name_html(label.words)}</span>')


def toned(label: Label) -> tuple[str, str]:
    """The tone of a label, and its words with the sign, for templates."""
    return label.tone, f"{unescape(label.sign)} {label.words}"


def badge_html(label: Label) -> Html:
    """A label with its sign, set off from the text around it."""
    sign = Html(f'<span aria-hidden="true">{label.sign}</span>')
    return Html(f'<span class="badge {label.tone}">{sign} {text_html(label.words)}</span>')


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
