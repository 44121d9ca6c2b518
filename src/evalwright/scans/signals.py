"""The signals of recorded traffic of any size, as lines in the order of the traces."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.report import CONFIDENCES, SEVERITIES, Signal
from evalwright.scans.shards import Shard, read_shard
from evalwright.signals.scan import KeptTraces, PairedTraces, ScannedTrace, scan_records
from evalwright.trace.importers.records import Imported

_IN_A_PIECE = 64


class FoundSignal(msgspec.Struct, frozen=True):
    """A signal, with the trace that it is in and where that was read."""

    trace_id: str
    place: str
    signal: Signal


def worst_first(found: Iterable[FoundSignal], most: int) -> list[FoundSignal]:
    """So many signals, the most severe and the surest first, else in their order."""
    return sorted(found, key=_rank)[:most]


def _rank(found: FoundSignal) -> tuple[int, int]:
    signal = found.signal
    return -SEVERITIES.index(signal.severity), -CONFIDENCES.index(signal.confidence)


class ScanTally(msgspec.Struct):
    """What a reader has to know beside the lines: what could not be read, or only in part.

    `severities` and `kinds` count all signals.
    """

    count: int = 0
    with_signals: int = 0
    severities: Counter[str] = msgspec.field(default_factory=Counter)
    kinds: Counter[str] = msgspec.field(default_factory=Counter)
    faults: int = 0
    first_fault: str = ""
    partly: int = 0
    first_part: str = ""
    paired: int = 0
    by_prompt: int = 0

    def add(self, each: ScannedTrace) -> None:
        """Count a trace."""
        self.count += 1
        if each.signals:
            self.with_signals += 1
            self.severities.update([signal.severity for signal in each.signals])
            self.kinds.update([signal.kind for signal in each.signals])
        if each.error is not None:
            self.faults += 1
            self.first_fault = self.first_fault or each.error
        if each.passed_over is not None:
            self.partly += 1
            self.first_part = self.first_part or f"{each.id}: {each.passed_over}"

    def merge(self, later: "ScanTally") -> None:
        """Take in what was counted after it."""
        self.count += later.count
        self.with_signals += later.with_signals
        self.severities.update(later.severities)
        self.kinds.update(later.kinds)
        self.faults += later.faults
        self.first_fault = self.first_fault or later.first_fault
        self.partly += later.partly
        self.first_part = self.first_part or later.first_part
        self.paired += later.paired
        self.by_prompt += later.by_prompt


class ScanPart(msgspec.Struct):
    """The lines of some traces, and their worst signals; `stop` is why no more could be read."""

    shard: Shard
    lines: bytes
    tally: ScanTally
    notes: list[str]
    worst: list[FoundSignal]
    stop: str | None = None
    is_free: bool = True


class SignalScan:
    """Looks for signals in shards, beside the baseline where there is one.

    It gives a line for each trace, or, if `most` is given, so many of the worst signals.
    """

    def __init__(
        self, baseline: KeptTraces | None, *, masked: bool, most: int | None = None
    ) -> None:
        self._baseline = baseline
        self._masked = masked
        self._most = most

    def __call__(self, load: tuple[Shard, ...]) -> ScanPart:
        """The lines of all shards of a load, up to one that cannot be read."""
        joined = ScanPart(load[-1], b"", ScanTally(), [], [])
        lines: list[bytes] = []
        for shard in load:
            for part in self.pieces(shard):
                lines.append(part.lines)
                joined.tally.merge(part.tally)
                joined.notes += part.notes
                joined.worst = worst_first([*joined.worst, *part.worst], self._most or 0)
                joined.stop, joined.is_free = part.stop, part.is_free
        joined.lines = b"".join(lines)
        return joined

    def pieces(self, shard: Shard) -> Iterator[ScanPart]:
        stretch = shard.stretch()
        known = None if self._baseline is None else PairedTraces(self._baseline)
        notes: list[str] = []
        here: list[str] = []
        records = _noting_places(read_shard(shard, stretch, notes), here)
        scanned = scan_records(records, known, masked=self._masked)
        while True:
            tally = ScanTally()
            lines: list[bytes] = []
            found: list[FoundSignal] = []
            stop = None
            try:
                for each in islice(scanned, _IN_A_PIECE):
                    tally.add(each)
                    if self._most is None:
                        lines.append(msgspec.json.encode(each) + b"\n")
                    elif each.signals:
                        found += [FoundSignal(each.id, here[0], signal) for signal in each.signals]
            except BadInput as error:
                stop = str(error)
            is_last = tally.count < _IN_A_PIECE
            if known is not None:
                tally.paired, tally.by_prompt = known.paired, known.by_prompt
                known.paired = known.by_prompt = 0
            is_free = not is_last or shard.is_free(stretch)
            told, notes[:] = [*notes], []
            worst = worst_first(found, self._most or 0)
            yield ScanPart(shard, b"".join(lines), tally, told, worst, stop, is_free)
            if is_last:
                return


def _noting_places(
    records: Iterable[tuple[Imported, str]], here: list[str]
) -> Iterator[tuple[Imported, str]]:
    """The records, with the place of the last one noted."""
    for record, place in records:
        here[:] = [place]
        yield record, place
