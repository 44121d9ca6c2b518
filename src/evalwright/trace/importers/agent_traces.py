"""Records that hold a trace as such: `events`, with ids and the final output beside them."""

from typing import Any

from evalwright.trace.importers.imported import Imported, numbered
from evalwright.trace.importers.records import Record
from evalwright.trace.importers.values import first_identifier, number


def import_agent_trace(record: Record) -> Imported:
    """One record as a response: it has the canonical form, so nothing of it is changed."""
    response: dict[str, Any] = record.value
    seconds = number(response.get("duration_s"))
    if seconds is not None and "usage" not in response:
        response = {**response, "usage": {"duration_ms": seconds * 1000}}
    return Imported(
        case_id=first_identifier(response, "case_id", "trace_id", "id") or numbered(record.number),
        response=response,
        base_case_id=first_identifier(response, "base_case_id"),
        trace_id=first_identifier(response, "trace_id"),
    )
