"""Recorded traffic → the security signals of each trace in it."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.report import Signal
from evalwright.signals.detect import detect
from evalwright.signals.masking import mask_text
from evalwright.signals.masking.report import mask_signals
from evalwright.trace.decode import decode_trace
from evalwright.trace.importers import Imported
from evalwright.trace.importers.formats import import_placed
from evalwright.trace.model import Trace
from evalwright.trace.understood import NOTHING, passed_over, why_nothing


class ScannedTrace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The signals of one trace and what of it was passed over, or why it could not be read."""

    id: str
    signals: Sequence[Signal]
    error: str | None = None
    passed_over: str | None = None


class BaselineTraces:
    """Traces that are known to be good, by their case; kept as JSON until they are asked for."""

    def __init__(self, blocks: Iterable[bytes], name: str) -> None:
        self._found: dict[str, bytes] = {}
        self._asked: dict[str | None, str] = {}
        self.by_prompt = 0  # traces that were paired by it
        self.paired = 0  # traces that were paired at all
        self.faults: list[str] = []
        for record, place in import_placed(blocks, name):
            reason = record.fault or _why_nothing(decode_trace(record.response, ""), place)
            if reason:
                self.faults.append(reason)
                continue
            key = record.base_case_id or record.case_id
            self._found.setdefault(key, msgspec.json.encode(record.response))
            if record.asked is not None:
                self._asked.setdefault(record.asked, key)

    def of(self, record: Imported) -> Trace | None:
        """The baseline of a trace, by its base_case_id, else its case_id, else what was asked."""
        key = record.base_case_id or record.case_id
        found = self._found.get(key) or self._found.get(record.case_id)
        if record.named_by == "place" or (found is None and record.named_by != "case_id"):
            same = self._asked.get(record.asked)
            if same is not None and same != key:
                self.by_prompt += 1
                found = self._found[same]
        if found is None:
            return None
        self.paired += 1
        return decode_trace(msgspec.json.decode(found), key)


def scan_traces(
    blocks: Iterable[bytes],
    name: str,
    baselines: BaselineTraces | None = None,
    *,
    masked: bool = True,
    notes: list[str] | None = None,
) -> Iterator[ScannedTrace]:
    """The signals of every trace in a file, in order; `name` tells its format where need be.

    What of the file is no trace is told in `notes`.
    """
    for record, place in import_placed(blocks, name, notes):
        trace_id = record.trace_id or record.case_id
        if record.fault:
            yield ScannedTrace(trace_id, (), record.fault)
            continue
        trace = decode_trace(record.response, record.case_id)
        reason, left = _why_nothing(trace, place), passed_over(trace)
        if reason is not None:
            yield ScannedTrace(trace_id, (), mask_text(reason) if masked else reason)
            continue
        signals = detect(trace, baselines.of(record) if baselines else None)
        if masked:
            signals, left = mask_signals(signals), left and mask_text(left)
        yield ScannedTrace(trace_id, signals, passed_over=left)


def scan_all(
    blocks: Iterable[bytes], name: str, baselines: BaselineTraces | None = None
) -> list[ScannedTrace]:
    """The signals of every trace in a file that holds at least one."""
    found = list(scan_traces(blocks, name, baselines))
    errors = [each.error for each in found if each.error is not None]
    if len(errors) == len(found):
        reason = errors[0] if errors else "it is empty; see docs/trace-formats.md"
        raise BadInput(f"{name}: {NOTHING}: {reason.rpartition(f'{NOTHING}: ')[2]}")
    return found


def _why_nothing(trace: Trace, place: str) -> str | None:
    reason = why_nothing(trace)
    return reason and f"{place}: {NOTHING}: {reason}"
