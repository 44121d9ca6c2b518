"""Why a case failed: the first cause that applies."""

from collections.abc import Collection

from evalwright.contracts.report import FailedAssertion, RootCause

# In this order: a tool that failed explains the bad format that followed, not the other way.
_CAUSES: tuple[tuple[frozenset[str], RootCause], ...] = (
    (frozenset({"transport", "response"}), "missing_required_data"),
    (frozenset({"tool_results_ok"}), "tool_failure"),
    (frozenset({"json_schema"}), "format_violation"),
    (frozenset({"retrieval_required"}), "missing_required_data"),
    (frozenset({"action_required", "tool_required", "tool_sequence"}), "wrong_tool_choice"),
    (frozenset({"grounded_output"}), "hallucination_signal"),
)


def root_cause(failures: Collection[FailedAssertion]) -> RootCause | None:
    """The cause of a failed case; None when nothing failed."""
    if not failures:
        return None
    names = {failure.name for failure in failures}
    return next((cause for checks, cause in _CAUSES if checks & names), "unknown")
