"""What an importer gives: one response per case, or the fault that stands in its place."""

import re
from typing import Any

import msgspec

_ID_IN_TEXT = re.compile(rb'"(case_id|trace_id)"\s{0,8}:\s{0,8}"([^"\\\x00-\x1f]{1,200})"')
_SEARCHED = 4096


class Imported(msgspec.Struct, frozen=True):
    """One case as it was recorded; with a `fault`, what could be saved of it.

    `base_case_id` is the key by which a trace finds its baseline, where the record has one.
    """

    case_id: str
    response: dict[str, Any]
    base_case_id: str | None = None
    trace_id: str | None = None
    fault: str | None = None


def numbered(number: int) -> str:
    """The id of a record that has none: the same in two files that hold the same cases."""
    return f"record-{number}"


def faulty(number: int, fault: str, head: bytes = b"") -> Imported:
    """What stands for a record that could not be read; ids near its beginning are kept."""
    ids = {
        key.decode(): value.decode("utf-8", "replace")
        for key, value in reversed(_ID_IN_TEXT.findall(head[:_SEARCHED]))
    }
    trace_id = ids.get("trace_id")
    return Imported(
        case_id=ids.get("case_id") or trace_id or numbered(number),
        response={},
        trace_id=trace_id,
        fault=fault,
    )
