"""Recorded traffic → the security signals of each trace in it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.report import Signal
from evalwright.signals.kinds import detect
from evalwright.signals.masking import mask_text
from evalwright.signals.masking.masked_report import mask_signals
from evalwright.trace.decode import decode_trace
from evalwright.trace.importers.formats import import_placed
from evalwright.trace.importers.records import Imported
from evalwright.trace.integrity import NOTHING, passed_over, why_nothing
from evalwright.trace.model import Trace


class ScannedTrace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The signals of one trace and what of it was passed over, or why it could not be read."""

    id: str
    signals: Sequence[Signal]
    error: str | None = None
    passed_over: str | None = None


class KeptTraces(Protocol):
    """Where good traces are kept, as JSON, until they are asked for."""

    def get(self, key: str) -> bytes | None:
        """The first trace of a case."""

    def asked(self, digest: str) -> str | None:
        """The case in which this was asked first."""


class PairedTraces:
    """Pairs traces with those that are known to be good; counts those that found theirs."""

    def __init__(self, kept: KeptTraces) -> None:
        self._kept = kept
        self.by_prompt = 0  # traces that were paired by it
        self.paired = 0  # traces that were paired at all

    def of(self, record: Imported) -> Trace | None:
        """The baseline of a trace, by its base_case_id, else its case_id, else what was asked."""
        key = record.base_case_id or record.case_id
        found = self._kept.get(key)
        if found is None and record.case_id != key:
            found = self._kept.get(record.case_id)
        if record.named_by == "place" or (found is None and record.named_by != "case_id"):
            same = None if record.asked is None else self._kept.asked(record.asked)
            if same is not None and same != key:
                self.by_prompt += 1
                found = self._kept.get(same)
        if found is None:
            return None
        self.paired += 1
        return decode_trace(msgspec.json.decode(found), key)


class GoodTrace(msgspec.Struct, frozen=True, array_like=True):
    """A trace of the baseline: its case, a digest of what was asked, and itself as JSON."""

    key: str
    asked: str | None
    response: bytes


def good_trace(record: Imported, place: str) -> GoodTrace | str:
    """A record of the baseline as it is kept, or why it cannot be used."""
    reason = record.fault or _why_nothing(decode_trace(record.response, ""), place)
    if reason:
        return reason
    key = record.base_case_id or record.case_id
    return GoodTrace(key, record.asked, msgspec.json.encode(record.response))


class BaselineTraces(PairedTraces):
    """The good traces of a file that is not large; `faults` say what of it cannot be used."""

    def __init__(self, blocks: Iterable[bytes], name: str) -> None:
        super().__init__(self)
        self._found: dict[str, bytes] = {}
        self._asked: dict[str, str] = {}
        self.faults: list[str] = []
        for each in import_placed(blocks, name):
            good = good_trace(*each)
            if isinstance(good, str):
                self.faults.append(good)
                continue
            self._found.setdefault(good.key, good.response)
            if good.asked is not None:
                self._asked.setdefault(good.asked, good.key)

    def get(self, key: str) -> bytes | None:
        """The first trace of a case."""
        return self._found.get(key)

    def asked(self, digest: str) -> str | None:
        """The case in which this was asked first."""
        return self._asked.get(digest)


def scan_traces(
    blocks: Iterable[bytes],
    name: str,
    baselines: PairedTraces | None = None,
    *,
    masked: bool = True,
    notes: list[str] | None = None,
) -> Iterator[ScannedTrace]:
    """The signals of every trace in a file, in order; `name` tells its format where need be.

    What of the file is no trace is told in `notes`.
    """
    return scan_records(import_placed(blocks, name, notes), baselines, masked=masked)


def scan_records(
    records: Iterable[tuple[Imported, str]],
    baselines: PairedTraces | None = None,
    *,
    masked: bool = True,
) -> Iterator[ScannedTrace]:
    """The signals of every trace, in order; each record comes with its place."""
    for record, place in records:
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
    blocks: Iterable[bytes], name: str, baselines: PairedTraces | None = None
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
