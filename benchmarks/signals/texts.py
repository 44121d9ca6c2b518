"""How often a text that a tool brought in is taken for an injection, per kind of text."""

from collections import Counter

from board import Board
from labelled import SEEN, Labelled, Record

from evalwright.signals.injection.detector import find_injections
from evalwright.signals.trace_view import TraceView
from evalwright.trace.decode import decode_trace


def report(labelled: Labelled, board: Board) -> None:
    board.heading("texts taken for an injection")
    rows: dict[str, Counter[bool]] = {}
    for record in labelled.sample(labelled.records("text")):
        key = f"{record['label']} {record['source']} {record.get('attack') or ''}"
        found = any(signal.kind == SEEN for signal in find_injections(_brought_in(record)))
        rows.setdefault(key, Counter())[found] += 1
    for name, count in sorted(rows.items()):
        board.share(name, count[True], count.total())


def _brought_in(record: Record) -> TraceView:
    result = {"type": "tool_result", "payload": record["text"]}
    events = [{"type": "tool_call", "tool": "fetch"}, result]
    return TraceView(decode_trace({"events": events}, "text"))
