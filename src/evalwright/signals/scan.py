"""Recorded traffic → the security signals of each trace in it."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from evalwright.contracts.report import Signal
from evalwright.signals.detect import detect
from evalwright.signals.masking.report import mask_signals
from evalwright.trace.decode import decode_trace
from evalwright.trace.importers import Imported, import_responses
from evalwright.trace.model import Trace


class ScannedTrace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The signals of one trace, or why it could not be read."""

    id: str
    signals: Sequence[Signal]
    error: str | None = None


class BaselineTraces:
    """Traces that are known to be good, by their case; kept as JSON until they are asked for."""

    def __init__(self, blocks: Iterable[bytes], name: str) -> None:
        self._found: dict[str, bytes] = {}
        self.faults: list[str] = []
        for record in import_responses(blocks, name):
            if record.fault:
                self.faults.append(record.fault)
                continue
            key = record.base_case_id or record.case_id
            self._found.setdefault(key, msgspec.json.encode(record.response))

    def of(self, record: Imported) -> Trace | None:
        """The baseline of a trace, by its base_case_id, else its case_id."""
        key = record.base_case_id or record.case_id
        found = self._found.get(key) or self._found.get(record.case_id)
        return decode_trace(msgspec.json.decode(found), key) if found else None


def scan_traces(
    blocks: Iterable[bytes],
    name: str,
    baselines: BaselineTraces | None = None,
    *,
    masked: bool = True,
) -> Iterator[ScannedTrace]:
    """The signals of every trace in a file, in order; `name` tells its format where need be."""
    for record in import_responses(blocks, name):
        trace_id = record.trace_id or record.case_id
        if record.fault:
            yield ScannedTrace(trace_id, (), record.fault)
            continue
        trace = decode_trace(record.response, record.case_id)
        signals = detect(trace, baselines.of(record) if baselines else None)
        yield ScannedTrace(trace_id, mask_signals(signals) if masked else signals)
